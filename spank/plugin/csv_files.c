#include "spank/plugin/csv_files.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/machine/asker.h"
#include "spank/node/slots.h"
#include "spank/plugin/run_as_user.h"
#include "spank/record/parts/csv.h"

#define MOST_NS UINT64_C(10000000000)

/* What there is to write of. */
enum ranks { RANKS_NONE, RANKS_ENDED, RANKS_ALIVE };

void csv_files_begin(struct csv_files *files, const char *place)
{
	files->place = place;
	files->view = view_prepare();
}

/*
 * A rank may outlive the task that started it. Its process is looked for by the number that it says, which a container
 * may have given it: where that lies, the files come with the step's end.
 */
static enum ranks ranks_look(const struct job *job, int segment)
{
	cleanup_free struct slots *slots = NULL;
	cleanup_free uint32_t *numbers = NULL;

	/* A segment that is no good has an outcome too: the program says so. */
	if (slots_read(segment, 0, UINT64_MAX, &slots, NULL) < 0)
		return RANKS_ENDED;
	numbers = calloc(slots->count + 1, sizeof(*numbers));
	for (size_t i = 0; numbers && i < slots->count; i++) {
		numbers[i] = slots->rank[i].pid;
		if (numbers[i] == 0 || numbers[i] > INT_MAX)
			return RANKS_ALIVE;
	}
	if (slots->count == 0)
		return RANKS_NONE;
	return !numbers || asker_any_lives(numbers, slots->count, job->uid) ? RANKS_ALIVE : RANKS_ENDED;
}

/* Of what happened to our program the text speaks; all else is about the user's directory. */
static void failure_say(const struct csv_files *files, const struct job *job, int result, const char *text)
{
	bool relative = files->place[0] != '/';
	bool about_program =
	        result == -EPERM || result == -EINTR || result == -ETIMEDOUT || access(MPIWAIT_CSV, F_OK) < 0;

	log_error("job %u step %s: no file of csv= was written in \"%s%s%s\": %s", job->job_id, job->step_name,
	          relative ? view_directory(files->view) : "", relative ? "/" : "", files->place,
	          about_program ? text : strerror(-result));
}

/* As the user, by a process of its own: see run_as_user.h. */
static void write_all(struct csv_files *files, const struct job *job, int segment)
{
	const char *node = getenv("SLURMD_NODENAME");
	cleanup_close int mounts = view_open(files->view);
	char id[16];
	char *words[] = {"mpi-wait-csv", id, (char *)job->step_name, (char *)node, (char *)files->place, NULL};
	struct run_as_user export = {
	        .program = MPIWAIT_CSV,
	        .words = words,
	        .segment = segment,
	        .uid = job->uid,
	        .gid = job->gid,
	        .groups = job->groups,
	        .group_count = job->group_count,
	        .mounts = mounts,
	        .directory = files->place[0] == '/' ? "/" : view_directory(files->view),
	        .most_ns = MOST_NS,
	        .closed = true,
	};
	struct error error = {""};
	int result;

	if (!node)
		return;
	snprintf(id, sizeof(id), "%u", job->job_id);
	result = run_as_user(&export, &error);
	atomic_store(&files->outcome, csv_outcome_of(result));
	if (result < 0)
		failure_say(files, job, result, error.text);
}

void csv_files_task_ended(struct csv_files *files, const struct job *job, int segment)
{
	if (files->place && ++files->tasks_ended == job->facts.local_tasks && ranks_look(job, segment) == RANKS_ENDED)
		write_all(files, job, segment);
}

/* Once more where a signal to the whole step has hit our program as well. */
void csv_files_step_ended(struct csv_files *files, const struct job *job, int segment)
{
	int outcome = atomic_load(&files->outcome);

	if (files->place && (outcome == CSV_NONE || outcome == CSV_KILLED) && ranks_look(job, segment) != RANKS_NONE)
		write_all(files, job, segment);
}
