#include "spank/store/writer.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/store/deliver.h"
#include "spank/store/job_files.h"
#include "spank/store/outbox.h"
#include "spank/store/round.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES       3         /* tries to store a job before it is left for the sweep */
#define LOCK_WAIT_S 5         /* longest wait for a job's lock */
#define POLL_NS     SECOND_NS /* longest time between two reads of the outbox */
#define PAUSE_MAX_S 5.0       /* longest time between two counts of a job's files */
#define WORK_AGAIN  3         /* a result: the work is tried again when it is due */

static const unsigned retry_s[TRIES] = {0, 15, 45}; /* pause before each try, the first excepted */

/* One job whose record this node has to move or to store. */
struct work {
	char key[OUTBOX_KEY_MAX];
	bool left;            /* nothing more is done with it here; it is left for the sweep */
	uint64_t due_ns;      /* when it is tried next */
	uint64_t deadline_ns; /* time up to which other nodes' records are waited for */
	double pause_s;       /* time until the next try */
	unsigned tries;       /* tries that failed */
};

/* The state of one drain. A round stores all that is due, by one connection. */
struct writer {
	const struct writer_config *config;
	struct round round;
	struct turn *turn;
	const char *node; /* this node's name */
	bool starved;     /* the outbox could not be read, or there was no memory for its records */
	size_t sorted;    /* length of the part of `work` that is sorted by key */
	size_t count;
	struct work *work;
	int result;
	struct error *error;
};

/* Sleeps until that time, but POLL_NS at most. In whole nanoseconds: a double rounds a long uptime. */
static void sleep_until(uint64_t until_ns)
{
	uint64_t now_ns = clock_monotonic_ns(), pause_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec left = clock_timespec(pause_ns < POLL_NS ? pause_ns : POLL_NS);

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static uint64_t later_ns(double seconds)
{
	return clock_monotonic_ns() + (uint64_t)(seconds * 1e9);
}

/* Returns the delay before the first try, with a random part: when a large array ends, many jobs end together. */
static double first_delay_s(const struct writer_config *config)
{
	double stretch = 1 + 0.5 * (double)(clock_monotonic_ns() % SECOND_NS) / SECOND_NS;

	return config->site->sink == SITE_SINK_SLURMDBD ? config->first_delay_s * stretch : 0;
}

/*
 * Returns 1, with the job's files counted, if this node merges the job; 0 if another node does or the job is done; or
 * -errno.
 */
static int is_mine(struct writer *writer, const char *key, struct job_files_view *ret_view, struct error *error)
{
	int result = job_files_count(&writer->round.spool, key, writer->node, ret_view, error);

	if (result)
		return result == -ENOENT ? 0 : result;
	return ret_view->has_node && strcmp(ret_view->first, writer->node) == 0;
}

/* Counts a try that failed. Returns WORK_AGAIN, or WRITER_LEFT after the last try. */
static int work_missed(struct writer *writer, struct work *work, struct error *reason)
{
	if (++work->tries < TRIES) {
		work->pause_s = writer->config->first_delay_s ? retry_s[work->tries] : 1;
		error_move(&writer->round.why, reason);
		return WORK_AGAIN;
	}
	round_leave(&writer->round, reason);
	return WRITER_LEFT;
}

/* Returns 0 (stored), WORK_AGAIN, WRITER_LEFT or -errno. */
static int work_store(struct writer *writer, struct work *work, bool overdue, struct error *error)
{
	struct error reason = {0};
	int result = round_store(&writer->round, work->key, overdue ? STORE_ALONE : STORE_COMPLETE, &reason);

	if (result == 0 || (result == STORE_LEFT && overdue))
		return result;
	if (result == STORE_LEFT)
		return WORK_AGAIN;
	if (result < 0 && result != DBD_AWAY && result != -EPROTO && result != -EBUSY)
		return error_set(error, result, "%s", reason.text);
	return work_missed(writer, work, &reason);
}

/* Removes this node's record if it cannot be merged: without a shared spool only the job's first node's can. */
static void record_discard(struct writer *writer, const struct job_files_view *view, const char *key)
{
	if (writer->round.spool.shared < 0 && view->nodes_of > 0 && strcmp(view->first, writer->node) != 0)
		job_files_discard(&writer->round.spool, key, LOCK_WAIT_S);
}

/* Stores the job if this node merges it and its records are there or overdue. Returns as work_store. */
static int work_try(struct writer *writer, struct work *work, struct error *error)
{
	bool overdue = writer->round.spool.shared < 0 || clock_monotonic_ns() >= work->deadline_ns;
	struct job_files_view view = {0};
	int result = is_mine(writer, work->key, &view, error);

	if (result == 0)
		record_discard(writer, &view, work->key);
	if (result <= 0)
		return result;
	return overdue || view.files >= view.nodes_of ? work_store(writer, work, overdue, error) : WORK_AGAIN;
}

/*
 * Merges and stores a job on its first node, when all nodes' records are there or the deadline is over. Other nodes'
 * records arrive when their epilogs end, so the pauses between two tries grow. While slurmdbd takes nothing, no file is
 * read. Returns as work_store.
 */
static int work_play(struct writer *writer, struct work *work, struct error *error)
{
	struct error none = {""};
	int result;

	if (!writer->round.is_broken)
		turn_note(writer->turn, "the record \"%s\" into slurmdbd or \"%s\"", work->key,
		          writer->config->site->spool);
	result = writer->round.is_broken ? work_missed(writer, work, &none) : work_try(writer, work, error);
	work->due_ns = later_ns(work->pause_s);
	work->pause_s = fmin(work->pause_s * 1.5, PAUSE_MAX_S);
	return result;
}

/* Keeps the first error as the command's result, and logs further ones. */
static void result_note(struct writer *writer, int result, const struct error *error)
{
	if (result < 0 && writer->result < 0)
		round_line(&writer->round, error->text);
	else if (result < 0 || writer->result == 0)
		writer->result = error_set(writer->error, result, "%s", error->text);
}

/* Returns true if a stored record is still in the outbox, as in one that is read-only: it must not be stored again. */
static bool work_stays(const struct writer *writer, const struct work *work)
{
	return writer->round.spool.shared < 0 && outbox_has(writer->round.spool.outbox, work->key, writer->node);
}

static int key_compare(const void *key, const void *work)
{
	return strcmp(key, ((const struct work *)work)->key);
}

static int work_compare(const void *left, const void *right)
{
	return strcmp(((const struct work *)left)->key, ((const struct work *)right)->key);
}

static bool work_is_known(const struct writer *writer, const char *key)
{
	return writer->sorted > 0 &&
	       bsearch(key, writer->work, writer->sorted, sizeof(*writer->work), key_compare) != NULL;
}

static void work_sort(struct writer *writer)
{
	if (writer->sorted < writer->count)
		qsort(writer->work, writer->count, sizeof(*writer->work), work_compare);
	writer->sorted = writer->count;
}

static int work_add(struct writer *writer, const struct work *work)
{
	struct work *bigger = memory_more(writer->work, writer->count, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	writer->work = bigger;
	writer->work[writer->count++] = *work;
	return 0;
}

/*
 * Moves a record to the shared spool, if there is one. Returns 1 if this node has to merge the job, or may have to; 0
 * if not; or -errno.
 */
static int record_take(struct writer *writer, char key[OUTBOX_KEY_MAX])
{
	struct job_files_view view = {0};
	struct error error = {0};
	bool stores = writer->config->site->writer == SITE_WRITER_NODE;
	int result;

	if (writer->round.spool.shared < 0)
		return stores;
	result = round_move(&writer->round, key, writer->node, key, &error);
	if (!result && stores)
		result = is_mine(writer, key, &view, &error);
	if (result < 0 && error.text[0])
		result_note(writer, result, &error);
	return result;
}

/*
 * Returns true if earlier drains have tried the record and slurmdbd did not have the job. Each drain would ask slurmdbd
 * for all such jobs again. With a shared spool the record is only moved, which may be tried at any age.
 */
static bool is_sweeps(const struct writer *writer, const char *key)
{
	return writer->round.spool.shared < 0 && outbox_is_old(writer->round.spool.outbox, key, writer->node);
}

/* Leaves a record for the sweep, and counts it. */
static void record_leave(struct writer *writer)
{
	struct error why = {""};

	error_set(&why, 0, "they are older than a day");
	round_leave(&writer->round, &why);
	writer->result = writer->result ? writer->result : WRITER_LEFT;
}

/* Moves a record to the shared spool, and adds work if this node may have to merge the job. Returns 0 or -ENOMEM. */
static int record_begin(struct writer *writer, const char *key)
{
	struct work work = {.pause_s = 0.25};
	int result;

	strcpy(work.key, key);
	if (writer->round.spool.shared >= 0)
		turn_note(writer->turn, "the record \"%s\" into the spool \"%s\"", key, writer->config->site->spool);
	result = record_take(writer, work.key);
	if (result == 0 && writer->round.spool.shared >= 0)
		return 0;
	work.left = result <= 0 || is_sweeps(writer, work.key);
	if (result > 0 && work.left)
		record_leave(writer);
	work.due_ns = later_ns(first_delay_s(writer->config));
	work.deadline_ns = later_ns(writer->config->collect_s);
	return work_add(writer, &work);
}

/* Tries work that is due. Returns true if it stays in the list. */
static bool round_step(struct writer *writer, struct work *work)
{
	struct error error = {0};
	int result = work_play(writer, work, &error);

	if (result == WORK_AGAIN)
		return true;
	result_note(writer, result, &error);
	work->left = result == WRITER_LEFT || work_stays(writer, work);
	return work->left;
}

/* Tries all work that is due. Returns when the next is due; UINT64_MAX: there is none. */
static uint64_t round_play(struct writer *writer)
{
	uint64_t now_ns = clock_monotonic_ns(), next_ns = UINT64_MAX;
	size_t kept = 0;

	for (size_t i = 0; i < writer->count; i++) {
		struct work work = writer->work[i];

		if (!work.left && work.due_ns <= now_ns && !round_step(writer, &work))
			continue;
		if (!work.left)
			next_ns = work.due_ns < next_ns ? work.due_ns : next_ns;
		writer->work[kept++] = work; /* stays sorted */
	}
	writer->count = writer->sorted = kept;
	round_end(&writer->round);
	return next_ns;
}

/* A spool_visit. Returns 1 for a record of this node that is not in the list of work. */
static int outbox_has_new(void *context, const char *key, const char *node)
{
	const struct writer *writer = context;

	return strcmp(node, writer->node) == 0 && !work_is_known(writer, key);
}

/* A spool_visit. Begins the work for a record of this node that is not in the list of work. */
static int outbox_take(void *context, const char *key, const char *node)
{
	return outbox_has_new(context, key, node) ? record_begin(context, key) : 0;
}

static int outbox_each(struct writer *writer, spool_visit visit)
{
	return spool_each(&writer->round.spool, writer->round.spool.outbox, visit, writer);
}

/*
 * Calls visit for the records in the outbox, whose names `list` reads. Does not if other site arguments were noted: new
 * records are then for the writer that noted them.
 */
static int outbox_read(struct writer *writer, int (*list)(struct spool *spool), spool_visit visit)
{
	int result;

	turn_note(writer->turn, "the outbox \"%s\"", writer->round.spool.outbox_path);
	result = list(&writer->round.spool);
	if (result || !turn_is_ours(writer->turn))
		return result;
	result = outbox_each(writer, visit);
	work_sort(writer);
	return result;
}

/* Does all work until none is left, with records that come into the outbox meanwhile. */
static void writer_run(struct writer *writer)
{
	for (;;) {
		uint64_t next_ns;

		writer->round.unmoved = 0;
		writer->starved = outbox_read(writer, spool_refresh, outbox_take) < 0;
		next_ns = round_play(writer);
		if (next_ns == UINT64_MAX)
			return;
		sleep_until(next_ns);
	}
}

static int writer_begin(const struct writer_config *config, struct turn *turn, const char *node,
                        struct writer *ret_writer, struct error *error)
{
	*ret_writer = (struct writer){.config = config, .turn = turn, .node = node, .error = error};
	turn_note(turn, "spool_user \"%s\", the outbox and the spool \"%s\"", config->site->spool_user,
	          config->site->spool);
	return round_open(&ret_writer->round, config->site, config->outbox, error);
}

static int writer_end(struct writer *writer)
{
	round_close(&writer->round);
	free(writer->work);
	return writer->result;
}

/* Returns true if the outbox has records that the writer does not know yet. Relies on no date. */
static bool more_came(struct writer *writer)
{
	return !writer->starved && outbox_read(writer, spool_list, outbox_has_new) > 0;
}

int writer_drain(const struct writer_config *config, struct turn *turn, const char *node, struct error *error)
{
	struct writer writer;
	int result = turn_take(turn, TURN_WRITER);

	if (result)
		return 0;
	result = writer_begin(config, turn, node, &writer, error);
	if (result)
		return result;
	/* again after the release: a record may have come after the last read, whose own writer found the turn taken */
	do {
		writer_run(&writer);
		turn_leave(turn);
	} while (more_came(&writer) && turn_take(turn, TURN_WRITER) == 0);
	if (writer.starved && writer.result >= 0)
		writer.result =
		        error_set(error, -EIO, "the outbox \"%s\" could not be read", writer.round.spool.outbox_path);
	return writer_end(&writer);
}
