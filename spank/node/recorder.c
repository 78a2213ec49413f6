#include "spank/node/recorder.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/node/composer.h"
#include "spank/node/ending.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct recorder {
	struct composer_target to;
	int node; /* the node's directory below /run */
	record_wanted wanted;
};

/*
 * Makes the record of a job if the directory `name` belongs to one that has ended, and removes the directory when the
 * record is durable. Returns 1 if so, 0 if the job runs, or -errno.
 */
static int job_finish(const struct recorder *recorder, const char *name, struct error *error)
{
	cleanup_close int directory = files_directory(recorder->node, name, 0);
	cleanup_free struct state_job *job = calloc(1, sizeof(*job));
	cleanup_free struct ending *ending = calloc(1, sizeof(*ending));
	int result = directory < 0 ? directory : -ENOMEM;

	if (job && ending && directory >= 0)
		result = ending_read(directory, name, ending);
	if (result == -ENOENT)
		return 0;
	if (!result)
		result = state_job_load(directory, job);
	if (result == -EBADMSG)
		log_error("job %s: damaged state; removed without a record", name);
	else if (!result && (!recorder->wanted || recorder->wanted(job->nodes, recorder->to.run_directory->node)))
		result = composer_put(&recorder->to, directory, job, ending, error);
	if (result && result != -EBADMSG && result != -ENOENT) /* -ENOENT: a process died while it removed the state */
		return error_set(error, result, "cannot read the state of job %s: %s", name, strerror(-result));
	if (state_directory_remove(recorder->node, name, directory))
		return error_set(error, -EEXIST, "cannot remove the state of job %s", name);
	return 1;
}

/*
 * Reports `failure`, the message for job `name`: the first one to the caller, in *error, which is empty until then;
 * all others to the log.
 */
static void failure_note(int result, const char *name, const struct error *failure, struct error *error)
{
	if (error->text[0])
		log_error("job %s: %s", name, failure->text);
	else
		error_set(error, result, "job %s: %s", name, failure->text);
}

/* Returns true if the error is of the outbox itself, so that every record would have it. The states lie in /run. */
static bool is_outboxs(int result)
{
	return result == -ENOSPC || result == -EDQUOT || result == -EROFS || result == -EIO;
}

/* The result of one pass over the ended jobs. */
struct pass {
	size_t failed;   /* jobs without a record */
	int first;       /* the first -errno, 0 if all jobs got their record */
	bool is_stopped; /* the outbox takes no record */
};

/* Makes the records of all jobs of the node that have ended, until the outbox refuses one. */
static void pass_run(const struct recorder *recorder, const struct turn *turn, struct pass *ret_pass,
                     struct error *error)
{
	cleanup_closedir DIR *jobs = files_entries(recorder->node);
	const struct dirent *entry;
	struct pass pass = {0};

	while (!pass.is_stopped && jobs && (entry = readdir(jobs))) {
		struct error failure = {""};
		int result = 0;

		if (state_name_job(entry->d_name)) {
			turn_note(turn, "the record of job %s into the outbox \"%s\"", entry->d_name,
			          recorder->to.outbox ? recorder->to.outbox : OUTBOX_DIRECTORY);
			result = job_finish(recorder, entry->d_name, &failure);
		}
		if (result >= 0)
			continue;
		pass.failed++;
		failure_note(result, entry->d_name, &failure, error);
		pass.first = pass.first ? pass.first : result;
		pass.is_stopped = is_outboxs(result);
	}
	*ret_pass = pass;
}

/*
 * Returns true if more ended jobs wait for a record than the latest pass has left after failures. The others have ended
 * since then, and the processes that their epilogs started have left them to this one, which had the turn. While the
 * outbox takes none they stay for the next process: this one has to make room by delivering what lies there.
 */
static bool more_came(int node, const struct pass *pass)
{
	return !pass->is_stopped && ending_count(node) > pass->failed;
}

int recorder_make(const struct run_directory *run_directory, const char *outbox, record_wanted wanted,
                  struct turn *turn, struct error *error)
{
	cleanup_close int node = run_directory_open_node(run_directory);
	struct recorder recorder = {
	        .to = {.run_directory = run_directory, .outbox = outbox}, .node = node, .wanted = wanted};
	struct pass pass;
	int result;

	if (node < 0)
		return error_set(error, node, "cannot open the state directory \"%s/%s\": %s", run_directory->root,
		                 run_directory->node, strerror(-node));
	do {
		result = turn_take(turn, TURN_RECORDER);
		if (result)
			return result;
		pass_run(&recorder, turn, &pass, error);
		turn_leave(turn);
	} while (more_came(node, &pass));
	return pass.first;
}

void recorder_make_all(const char *root, const char *outbox, record_wanted wanted)
{
	cleanup_close int directory = files_directory(AT_FDCWD, root, 0);
	cleanup_closedir DIR *nodes = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;

	while (nodes && (entry = readdir(nodes))) {
		struct run_directory run_directory = {.node = ""};
		bool named = files_name_ok(entry->d_name) && strlen(entry->d_name) < sizeof(run_directory.node);
		cleanup_close int node = named ? files_directory(directory, entry->d_name, 0) : -1;
		cleanup_turn struct turn turn = {.directory = -1, .lock = -1};
		struct error error = {""};
		int result;

		if (node < 0)
			continue;
		snprintf(run_directory.root, sizeof(run_directory.root), "%s", root);
		snprintf(run_directory.node, sizeof(run_directory.node), "%.*s", (int)sizeof(run_directory.node) - 1,
		         entry->d_name);
		turn_init(&run_directory, NULL, &turn);
		result = recorder_make(&run_directory, outbox, wanted, &turn, &error);
		if (result < 0 && result != -EBUSY)
			log_error("%s", error.text);
	}
}
