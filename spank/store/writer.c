#include "spank/store/writer.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/store/deliver.h"
#include "spank/store/job_files.h"
#include "spank/store/outbox.h"
#include "spank/store/spool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES       3                /* tries to store a job before it is left for the sweep */
#define LOCK_WAIT_S 5                /* longest wait for a job's lock */
#define SLOT_WAIT_S 60               /* longest wait for a permit to connect */
#define POLL_NS     SECOND_NS        /* longest time between two reads of the outbox */
#define PAUSE_MAX_S 5.0              /* longest time between two counts of a job's files */
#define FLUSH_S     20               /* how long flush sweeps */
#define IN_ROW_MAX  32               /* failures in a row after which slurmdbd, or the spool, counts as broken */
#define LINES_MAX   10               /* log lines for records that one process leaves */
#define QUIET_S     120              /* a file younger than this may still have its own writer */
#define MISSING_S   900              /* a node that has not reported after this time will not */
#define EXPIRED_S   (30 * 24 * 3600) /* a job that slurmdbd has not known for this time is given up */
#define WORK_AGAIN  3                /* a result: the work is tried again when it is due */

static const unsigned retry_s[TRIES] = {0, 15, 45}; /* pause before each try, the first excepted */

/* One job whose record this node has to move or to store. */
struct work {
	char key[OUTBOX_KEY_MAX];
	bool left;            /* nothing more is done with it here; it is left for the sweep */
	uint64_t due_ns;      /* when it is tried next */
	uint64_t deadline_ns; /* time up to which other nodes' records are waited for */
	double pause_s;       /* time until the next try */
	unsigned tries;       /* tries that failed */
	unsigned failures;    /* earlier sweeps that failed for a reason of the job's own */
};

/* The state of one process's command. A round stores all that is due, by one connection. */
struct writer {
	const struct writer_config *config;
	struct turn *turn; /* NULL in a sweep */
	struct spool spool;
	const char *node; /* this node's name; NULL in a sweep */
	struct dbd *dbd;  /* the round's connection; NULL: none yet */
	int slot;         /* the round's permit to connect; -1: none */
	bool broken;      /* slurmdbd takes nothing in this round */
	unsigned in_row;  /* jobs that slurmdbd refused since it last took one */
	unsigned unmoved; /* records that the spool refused since it last took one */
	size_t left;      /* records that are left for the sweep */
	struct error why; /* why the first of those is left */
	size_t lines;     /* log lines so far */
	bool starved;     /* the outbox could not be read, or there was no memory for its records */
	size_t sorted;    /* length of the part of `work` that is sorted by key */
	size_t count;
	struct work *work;
	time_t swept; /* when the sweep began, by the spool's clock */
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

/* Logs why one job is left. Logs LINES_MAX lines in all; lines_end then logs how many are missing. */
static void line_log(struct writer *writer, const char *text)
{
	if (++writer->lines <= LINES_MAX)
		log_error("%s", text);
}

/* Logs how many records were left for the sweep, and how many lines about them were left out. */
static void lines_end(struct writer *writer)
{
	if (writer->left > 0)
		log_error("%zu records are left for the sweep: %s", writer->left, writer->why.text);
	if (writer->lines > LINES_MAX)
		log_error("%zu more lines like these are left out", writer->lines - LINES_MAX);
	writer->left = writer->lines = 0;
	writer->why.text[0] = '\0';
}

/* Counts whether slurmdbd took a job. Returns false if it takes none: it is away, or refuses many in a row. */
static bool row_count(struct writer *writer, int result)
{
	if (result == 0)
		writer->in_row = 0;
	writer->in_row += result == -EPROTO;
	return result != DBD_AWAY && writer->in_row < IN_ROW_MAX;
}

/* Stores a job by the round's connection, for which it takes a permit first. Notes if slurmdbd takes nothing. */
static int round_store(struct writer *writer, const char *key, enum store_accept accept, struct error *error)
{
	int result;

	if (writer->spool.site->sink == SITE_SINK_SLURMDBD && writer->slot < 0)
		writer->slot = spool_slot_take(&writer->spool, SLOT_WAIT_S);
	if (writer->slot == -EBUSY) {
		writer->broken = true;
		return error_set(error, -EBUSY, "too many others are writing to slurmdbd");
	}
	result = store_job(&writer->spool, &writer->dbd, key, accept, LOCK_WAIT_S, error);
	writer->broken = !row_count(writer, result);
	return result;
}

/* Ends a round of jobs: closes the connection to slurmdbd and gives its permit back. */
static void round_end(struct writer *writer)
{
	dbd_close(writer->dbd);
	writer->dbd = NULL;
	if (writer->slot >= 0)
		close(writer->slot);
	writer->slot = -1;
	writer->broken = false;
	writer->in_row = 0;
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
	int result = job_files_count(&writer->spool, key, writer->node, ret_view, error);

	if (result)
		return result == -ENOENT ? 0 : result;
	return ret_view->has_node && strcmp(ret_view->first, writer->node) == 0;
}

/* Counts a try that failed. Returns WORK_AGAIN, or WRITER_LEFT after the last try. */
static int work_missed(struct writer *writer, struct work *work, struct error *reason)
{
	if (++work->tries < TRIES) {
		work->pause_s = writer->config->first_delay_s ? retry_s[work->tries] : 1;
		error_move(&writer->why, reason);
		return WORK_AGAIN;
	}
	writer->left++;
	error_move(&writer->why, reason);
	return WRITER_LEFT;
}

/* Returns 0 (stored), WORK_AGAIN, WRITER_LEFT or -errno. */
static int work_store(struct writer *writer, struct work *work, bool overdue, struct error *error)
{
	struct error reason = {0};
	int result = round_store(writer, work->key, overdue ? STORE_ALONE : STORE_COMPLETE, &reason);

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
	if (writer->spool.shared < 0 && view->nodes_of > 0 && strcmp(view->first, writer->node) != 0)
		job_files_discard(&writer->spool, key, LOCK_WAIT_S);
}

/* Stores the job if this node merges it and its records are there or overdue. Returns as work_store. */
static int work_try(struct writer *writer, struct work *work, struct error *error)
{
	bool overdue = writer->spool.shared < 0 || clock_monotonic_ns() >= work->deadline_ns;
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

	if (!writer->broken)
		turn_note(writer->turn, "the record \"%s\" into slurmdbd or \"%s\"", work->key,
		          writer->config->site->spool);
	result = writer->broken ? work_missed(writer, work, &none) : work_try(writer, work, error);
	work->due_ns = later_ns(work->pause_s);
	work->pause_s = fmin(work->pause_s * 1.5, PAUSE_MAX_S);
	return result;
}

/* Keeps the first error as the command's result, and logs further ones. */
static void result_note(struct writer *writer, int result, const struct error *error)
{
	if (result < 0 && writer->result < 0)
		line_log(writer, error->text);
	else if (result < 0 || writer->result == 0)
		writer->result = error_set(writer->error, result, "%s", error->text);
}

/* Returns true if a stored record is still in the outbox, as in one that is read-only: it must not be stored again. */
static bool work_stays(const struct writer *writer, const struct work *work)
{
	return writer->spool.shared < 0 && outbox_has(writer->spool.outbox, work->key, writer->node);
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
 * Moves a record to the shared spool, unless the spool has refused IN_ROW_MAX records in a row. Returns 0 or -errno;
 * error has a message if the move was tried.
 */
static int record_move(struct writer *writer, const char *key, const char *node, char ret_key[OUTBOX_KEY_MAX],
                       struct error *error)
{
	int result = -ENOSPC;

	if (writer->unmoved < IN_ROW_MAX) {
		result = spool_move(&writer->spool, key, node, ret_key, error);
	} else {
		writer->left++;
		error_set(&writer->why, 0, "the spool took none of the %d records before it", IN_ROW_MAX);
	}
	writer->unmoved = result == 0 ? 0 : writer->unmoved + spool_is_at_fault(result);
	return result;
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

	if (writer->spool.shared < 0)
		return stores;
	result = record_move(writer, key, writer->node, key, &error);
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
	return writer->spool.shared < 0 && outbox_is_old(writer->spool.outbox, key, writer->node);
}

/* Leaves a record for the sweep, and counts it. */
static void record_leave(struct writer *writer)
{
	struct error why = {""};

	error_set(&why, 0, "they are older than a day");
	writer->left++;
	error_move(&writer->why, &why);
	writer->result = writer->result ? writer->result : WRITER_LEFT;
}

/* Moves a record to the shared spool, and adds work if this node may have to merge the job. Returns 0 or -ENOMEM. */
static int record_begin(struct writer *writer, const char *key)
{
	struct work work = {.pause_s = 0.25};
	int result;

	strcpy(work.key, key);
	if (writer->spool.shared >= 0)
		turn_note(writer->turn, "the record \"%s\" into the spool \"%s\"", key, writer->config->site->spool);
	result = record_take(writer, work.key);
	if (result == 0 && writer->spool.shared >= 0)
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
	round_end(writer);
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
	return spool_each(&writer->spool, writer->spool.outbox, visit, writer);
}

/*
 * Calls visit for the records in the outbox, whose names `list` reads. Does not if other site arguments were noted: new
 * records are then for the writer that noted them.
 */
static int outbox_read(struct writer *writer, int (*list)(struct spool *spool), spool_visit visit)
{
	int result;

	turn_note(writer->turn, "the outbox \"%s\"", writer->spool.outbox_path);
	result = list(&writer->spool);
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

		writer->unmoved = 0;
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
	*ret_writer = (struct writer){.config = config, .turn = turn, .node = node, .slot = -1, .error = error};
	if (turn)
		turn_note(turn, "spool_user \"%s\", the outbox and the spool \"%s\"", config->site->spool_user,
		          config->site->spool);
	return spool_open(config->site, config->outbox, &ret_writer->spool, error);
}

static int writer_end(struct writer *writer)
{
	lines_end(writer);
	spool_close(&writer->spool);
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
		writer.result = error_set(error, -EIO, "the outbox \"%s\" could not be read", writer.spool.outbox_path);
	return writer_end(&writer);
}

/* Tidies the kept records. These may be many, so only a day's first sweep of a spool reads the names. */
static void done_tidy(const struct writer *writer, time_t before)
{
	cleanup_leave const struct spool *as_user = spool_enter(&writer->spool);
	cleanup_close int done = -1;

	if (before / FILES_STALE_S != writer->swept / FILES_STALE_S)
		done = store_done_open(&writer->spool, 0);
	if (done >= 0)
		files_tidy(done, writer->swept);
}

/* A spool_visit of a sweep. Moves a record to the shared spool, unless it may still have its own writer. */
static int outbox_move(void *context, const char *key, const char *node)
{
	struct writer *writer = context;
	struct error error = {0};
	char name[FILES_NAME_MAX + 1];

	if (outbox_name(key, node, name) ||
	    (!writer->config->at_once && outbox_age_s(writer->spool.outbox, name) < QUIET_S))
		return 0;
	if (record_move(writer, key, node, NULL, &error) == 0)
		return 0;
	if (error.text[0])
		line_log(writer, error.text);
	writer->result = WRITER_LEFT;
	return 0;
}

/* Gathers the jobs of a sweep. They are not stored at once, because that would change the directory that is read. */
static int key_add(void *context, const char *key, const char *node)
{
	struct writer *writer = context;
	struct work work = {.left = true, .failures = job_files_failures(&writer->spool, key)};

	(void)node;
	if (writer->count > 0 && strcmp(writer->work[writer->count - 1].key, key) == 0)
		return 0;
	strcpy(work.key, key);
	return work_add(writer, &work);
}

/* Sorts jobs that could not be stored before to the end, so that they hold up no others. */
static int sweep_compare(const void *left, const void *right)
{
	const struct work *a = left, *b = right;

	return a->failures != b->failures ? (a->failures > b->failures ? 1 : -1) : strcmp(a->key, b->key);
}

/*
 * Returns true if a job is old enough to be stored, with *ret_accept saying whether nodes may be missing. Ages are by
 * the spool's clock. A date in the future, by a wrong clock, counts by its distance from now.
 */
static bool is_ready(const struct writer *writer, const struct job_files_view *view, enum store_accept *ret_accept)
{
	bool whole =
	        view->files == 0 || writer->spool.shared < 0 || (view->nodes_of > 0 && view->files >= view->nodes_of);
	long long age_s = files_age_s(writer->swept, view->newest);

	*ret_accept = writer->config->partial || age_s >= MISSING_S ? STORE_ANY : STORE_COMPLETE;
	return writer->config->partial || (writer->config->at_once && whole) || age_s >= (whole ? QUIET_S : MISSING_S);
}

/* Returns 0, WRITER_LEFT or -errno with the reason. */
static int sweep_store(struct writer *writer, const char *key, struct job_files_view *view, struct error *reason)
{
	enum store_accept accept;
	int result = job_files_count(&writer->spool, key, NULL, view, reason);

	if (result)
		return result;
	if (!is_ready(writer, view, &accept))
		return error_set(reason, WRITER_LEFT, "the job is young, or not all of its nodes have reported");
	return store_job(&writer->spool, &writer->dbd, key, accept, 0, reason);
}

/*
 * Stores one job of the sweep. Returns 0, WRITER_LEFT (also for an error of the job's own, which does not stop the
 * sweep) or DBD_AWAY.
 */
static int sweep_key(struct writer *writer, const char *key, struct error *error)
{
	struct job_files_view view = {.newest = writer->swept};
	struct error reason = {0}, line = {0};
	int result = sweep_store(writer, key, &view, &reason);

	if (result == -ENOENT)
		return 0;
	if (result == -EPROTO)
		job_files_fail(&writer->spool, key);
	if (!row_count(writer, result))
		return error_set(error, DBD_AWAY, "\"%s\" is kept%s: %s", key,
		                 result == DBD_AWAY ? "" : ", and so are the jobs after it", reason.text);
	/* slurmdbd will not take after a month what it has not taken before */
	if (result && view.newest + EXPIRED_S < writer->swept && job_files_discard(&writer->spool, key, 0) == 0) {
		log_error("\"%s\" could not be stored for a month and is removed: %s", key, reason.text);
		return 0;
	}
	error_set(&line, 0, "\"%s\" is left for the next sweep: %s", key, reason.text);
	if (result < 0)
		line_log(writer, line.text);
	return result ? WRITER_LEFT : 0;
}

/* Moves the outbox's records to the shared spool, and gathers the jobs that are there. Returns 0 or -errno. */
static int sweep_gather(struct writer *writer)
{
	struct spool *spool = &writer->spool;
	int result = spool_list(spool);
	time_t before;

	writer->result = 0;
	writer->in_row = writer->unmoved = 0;
	writer->count = 0;
	writer->swept = spool_now(spool, &before);
	files_tidy(spool->outbox, time(NULL));
	done_tidy(writer, before);
	if (result || (spool->shared >= 0 && outbox_each(writer, outbox_move)))
		writer->result = WRITER_LEFT;
	if (!writer->config->only_moves)
		result = spool_each(spool, spool->shared >= 0 ? spool->shared : spool->outbox, key_add, writer);
	if (writer->count > 0)
		qsort(writer->work, writer->count, sizeof(*writer->work), sweep_compare);
	return result;
}

/* Stores each job that the sweep finds, in one round. Returns 0, WRITER_LEFT or -errno. */
static int sweep_once(struct writer *writer, struct error *error)
{
	int result = sweep_gather(writer);

	for (size_t i = 0; i < writer->count && result >= 0; i++) {
		result = sweep_key(writer, writer->work[i].key, error);
		writer->result = result ? result : writer->result;
	}
	round_end(writer);
	lines_end(writer);
	return result < 0 ? result : writer->result;
}

int writer_sweep(const struct writer_config *config, struct error *error)
{
	struct writer writer;
	uint64_t deadline_ns = later_ns(config->at_once ? FLUSH_S : 0);
	int result = writer_begin(config, NULL, NULL, &writer, error);

	if (result)
		return result;
	result = sweep_once(&writer, error);
	while (result == WRITER_LEFT && clock_monotonic_ns() < deadline_ns) {
		sleep(1);
		result = sweep_once(&writer, error);
	}
	writer_end(&writer);
	return result;
}
