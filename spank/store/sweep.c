#include "spank/store/sweep.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/store/job_files.h"
#include "spank/store/outbox.h"
#include "spank/store/round.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_S   20               /* how long flush sweeps */
#define QUIET_S   120              /* a file younger than this may still have its own writer */
#define MISSING_S 900              /* a node that has not reported after this time will not */
#define EXPIRED_S (30 * 24 * 3600) /* a job that slurmdbd has not known for this time is given up */

/* One job that a sweep has found. */
struct sweep_job {
	char key[OUTBOX_KEY_MAX];
	unsigned failures; /* earlier sweeps that failed for a reason of the job's own */
};

struct sweep {
	const struct writer_config *config;
	struct round round;
	time_t swept; /* when the sweep began, by the spool's clock */
	size_t count;
	struct sweep_job *job;
	int result;
};

/* Tidies the kept records. These may be many, so only a day's first sweep of a spool reads the names. */
static void done_tidy(const struct sweep *sweep, time_t before)
{
	cleanup_leave const struct spool *as_user = spool_enter(&sweep->round.spool);
	cleanup_close int done = -1;

	if (before / FILES_STALE_S != sweep->swept / FILES_STALE_S)
		done = store_done_open(&sweep->round.spool, 0);
	if (done >= 0)
		files_tidy(done, sweep->swept);
}

/* A spool_visit of a sweep. Moves a record to the shared spool, unless it may still have its own writer. */
static int outbox_move(void *context, const char *key, const char *node)
{
	struct sweep *sweep = context;
	struct error error = {0};
	char name[FILES_NAME_MAX + 1];

	if (outbox_name(key, node, name) ||
	    (!sweep->config->at_once && outbox_age_s(sweep->round.spool.outbox, name) < QUIET_S))
		return 0;
	if (round_move(&sweep->round, key, node, NULL, &error) == 0)
		return 0;
	if (error.text[0])
		round_line(&sweep->round, error.text);
	sweep->result = WRITER_LEFT;
	return 0;
}

static int job_add(struct sweep *sweep, const struct sweep_job *job)
{
	struct sweep_job *bigger = memory_more(sweep->job, sweep->count, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	sweep->job = bigger;
	sweep->job[sweep->count++] = *job;
	return 0;
}

/* Gathers the jobs of a sweep. They are not stored at once, because that would change the directory that is read. */
static int key_add(void *context, const char *key, const char *node)
{
	struct sweep *sweep = context;
	struct sweep_job job = {.failures = job_files_failures(&sweep->round.spool, key)};

	(void)node;
	if (sweep->count > 0 && strcmp(sweep->job[sweep->count - 1].key, key) == 0)
		return 0;
	strcpy(job.key, key);
	return job_add(sweep, &job);
}

/* Sorts jobs that could not be stored before to the end, so that they hold up no others. */
static int sweep_compare(const void *left, const void *right)
{
	const struct sweep_job *a = left, *b = right;

	return a->failures != b->failures ? (a->failures > b->failures ? 1 : -1) : strcmp(a->key, b->key);
}

/*
 * Returns true if a job is old enough to be stored, with *ret_accept saying whether nodes may be missing. Ages are by
 * the spool's clock. A date in the future, by a wrong clock, counts by its distance from now.
 */
static bool is_ready(const struct sweep *sweep, const struct job_files_view *view, enum store_accept *ret_accept)
{
	bool whole = view->files == 0 || sweep->round.spool.shared < 0 ||
	             (view->nodes_of > 0 && view->files >= view->nodes_of);
	long long age_s = files_age_s(sweep->swept, view->newest);

	*ret_accept = sweep->config->partial || age_s >= MISSING_S ? STORE_ANY : STORE_COMPLETE;
	return sweep->config->partial || (sweep->config->at_once && whole) || age_s >= (whole ? QUIET_S : MISSING_S);
}

/* Returns 0, WRITER_LEFT or -errno with the reason. */
static int sweep_store(struct sweep *sweep, const char *key, struct job_files_view *view, struct error *reason)
{
	enum store_accept accept;
	int result = job_files_count(&sweep->round.spool, key, NULL, view, reason);

	if (result)
		return result;
	if (!is_ready(sweep, view, &accept))
		return error_set(reason, WRITER_LEFT, "the job is young, or not all of its nodes have reported");
	return store_job(&sweep->round.spool, &sweep->round.dbd, key, accept, 0, reason);
}

/*
 * Stores one job of the sweep. Returns 0, WRITER_LEFT (also for an error of the job's own, which does not stop the
 * sweep) or DBD_AWAY.
 */
static int sweep_key(struct sweep *sweep, const char *key, struct error *error)
{
	struct job_files_view view = {.newest = sweep->swept};
	struct error reason = {0}, line = {0};
	int result = sweep_store(sweep, key, &view, &reason);

	if (result == -ENOENT)
		return 0;
	if (result == -EPROTO)
		job_files_fail(&sweep->round.spool, key);
	if (!round_takes(&sweep->round, result))
		return error_set(error, DBD_AWAY, "\"%s\" is kept%s: %s", key,
		                 result == DBD_AWAY ? "" : ", and so are the jobs after it", reason.text);
	/* slurmdbd will not take after a month what it has not taken before */
	if (result && view.newest + EXPIRED_S < sweep->swept && job_files_discard(&sweep->round.spool, key, 0) == 0) {
		log_error("\"%s\" could not be stored for a month and is removed: %s", key, reason.text);
		return 0;
	}
	error_set(&line, 0, "\"%s\" is left for the next sweep: %s", key, reason.text);
	if (result < 0)
		round_line(&sweep->round, line.text);
	return result ? WRITER_LEFT : 0;
}

/* Moves the outbox's records to the shared spool, and gathers the jobs that are there. Returns 0 or -errno. */
static int sweep_gather(struct sweep *sweep)
{
	struct spool *spool = &sweep->round.spool;
	int result = spool_list(spool);
	time_t before;

	sweep->result = 0;
	sweep->round.in_row = sweep->round.unmoved = 0;
	sweep->count = 0;
	sweep->swept = spool_now(spool, &before);
	files_tidy(spool->outbox, time(NULL));
	done_tidy(sweep, before);
	if (result || (spool->shared >= 0 && spool_each(spool, spool->outbox, outbox_move, sweep)))
		sweep->result = WRITER_LEFT;
	if (!sweep->config->only_moves)
		result = spool_each(spool, spool->shared >= 0 ? spool->shared : spool->outbox, key_add, sweep);
	if (sweep->count > 0)
		qsort(sweep->job, sweep->count, sizeof(*sweep->job), sweep_compare);
	return result;
}

/* Stores each job that the sweep finds, in one round. Returns 0, WRITER_LEFT or -errno. */
static int sweep_once(struct sweep *sweep, struct error *error)
{
	int result = sweep_gather(sweep);

	for (size_t i = 0; i < sweep->count && result >= 0; i++) {
		result = sweep_key(sweep, sweep->job[i].key, error);
		sweep->result = result ? result : sweep->result;
	}
	round_end(&sweep->round);
	round_tell(&sweep->round);
	return result < 0 ? result : sweep->result;
}

int sweep_run(const struct writer_config *config, struct error *error)
{
	struct sweep sweep = {.config = config};
	uint64_t deadline_ns = clock_monotonic_ns() + (config->at_once ? FLUSH_S : 0) * SECOND_NS;
	int result = round_open(&sweep.round, config->site, config->outbox, error);

	if (result)
		return result;
	result = sweep_once(&sweep, error);
	while (result == WRITER_LEFT && clock_monotonic_ns() < deadline_ns) {
		sleep(1);
		result = sweep_once(&sweep, error);
	}
	round_close(&sweep.round);
	free(sweep.job);
	return result;
}
