#include "spank/plugin/csv_files.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/base/run_directory.h"
#include "spank/node/slots.h"
#include "spank/plugin/run_as_user.h"
#include "spank/record/parts/csv.h"

#define MOST_NS UINT64_C(10000000000)

/* What there is to write of. */
enum ranks { RANKS_NONE, RANKS_ENDED, RANKS_ALIVE };

void csv_files_init(struct csv_files *files, const char *place)
{
	memset(files, 0, sizeof(*files));
	atomic_init(&files->outcome, CSV_NONE);
	if (!place[0])
		return;
	files->place = place;
	files->view = view_prepare();
}

void csv_files_note_user(struct csv_files *files, spank_t spank)
{
	if (!files->place)
		return;
	job_groups(spank, &files->groups, &files->group_count);
	if (!getcwd(files->directory, sizeof(files->directory)))
		files->directory[0] = '\0';
}

/*
 * A rank may outlive the task that started it. Its process is looked for by the number that it says: where that lies,
 * or is of a container's own numbering, the files come with the step's end.
 */
static enum ranks ranks_look(int segment)
{
	cleanup_free struct slots *slots = NULL;

	/* A segment that is no good has an outcome too: the program says so. */
	if (slots_read(segment, 0, UINT64_MAX, &slots, NULL) < 0)
		return RANKS_ENDED;
	for (size_t i = 0; i < slots->count; i++)
		if (slots->rank[i].pid == 0 || slots->rank[i].pid > INT_MAX || kill((pid_t)slots->rank[i].pid, 0) == 0)
			return RANKS_ALIVE;
	return slots->count > 0 ? RANKS_ENDED : RANKS_NONE;
}

/* Where the job runs, as its first task sees it. */
static const char *directory_of(const struct csv_files *files)
{
	const char *seen = view_directory(files->view);

	return seen[0] ? seen : files->directory;
}

/* Of what happened to our program the text speaks; all else is about the user's directory. */
static bool is_about_program(int result)
{
	return result == -EPERM || result == -EINTR || result == -ETIMEDOUT || access(MPIWAIT_CSV, F_OK) < 0;
}

static void failure_say(const struct csv_files *files, const struct job *job, int result, const char *text)
{
	bool relative = files->place[0] != '/';
	char name[16];

	state_step_name(job->step_id, name);
	log_error("job %u step %s: no file of csv= was written in \"%s%s%s\": %s", job->job_id, name,
	          relative ? directory_of(files) : "", relative ? "/" : "", files->place,
	          is_about_program(result) ? text : strerror(-result));
}

/* As the user, by a process of its own: see run_as_user.h. */
static void write_all(struct csv_files *files, const struct job *job, int segment)
{
	const char *node = getenv("SLURMD_NODENAME");
	cleanup_close int mounts = view_open(files->view);
	char id[16], name[16];
	char *words[] = {"mpi-wait-csv", id, name, (char *)node, (char *)files->place, NULL};
	struct run_as_user export = {
	        .program = MPIWAIT_CSV,
	        .words = words,
	        .segment = segment,
	        .uid = job->uid,
	        .gid = job->gid,
	        .groups = files->groups,
	        .group_count = files->group_count,
	        .mounts = mounts,
	        .directory = directory_of(files),
	        .most_ns = MOST_NS,
	        .closed = true,
	};
	struct error error = {""};
	int result;

	if (!export.directory[0] || !node)
		return;
	snprintf(id, sizeof(id), "%u", job->job_id);
	state_step_name(job->step_id, name);
	result = run_as_user(&export, &error);
	atomic_store(&files->outcome, csv_outcome_of(result));
	if (result < 0)
		failure_say(files, job, result, error.text);
}

void csv_files_task_ended(struct csv_files *files, const struct job *job, int segment)
{
	if (!files->place || segment < 0 || ++files->tasks_ended != job->local_tasks)
		return;
	if (ranks_look(segment) == RANKS_ENDED)
		write_all(files, job, segment);
}

/* Once more where a signal to the whole step has hit our program as well. */
void csv_files_step_ended(struct csv_files *files, const struct job *job, int segment)
{
	int outcome = atomic_load(&files->outcome);

	if (files->place && segment >= 0 && (outcome == CSV_NONE || outcome == CSV_KILLED) &&
	    ranks_look(segment) != RANKS_NONE)
		write_all(files, job, segment);
}

void csv_files_free(struct csv_files *files)
{
	view_end(files->view);
	free(files->groups);
}
