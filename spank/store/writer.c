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
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES       3
#define LOCK_WAIT_S 5
#define SLOT_WAIT_S 60
#define LOOK_S      1.0 /* how often the outbox is looked at, at least */
#define PAUSE_MAX_S 5.0
#define FLUSH_S     20
#define IN_ROW_MAX  32               /* failures in a row after which slurmdbd, or the spool, is not well for anybody */
#define LINES_MAX   10               /* in the log for what one process leaves */
#define STALE_S     (24 * 3600)      /* nobody writes one file for so long */
#define QUIET_S     120              /* a younger file may still have its own writer */
#define MISSING_S   900              /* nodes that have not reported by then will not */
#define EXPIRED_S   (30 * 24 * 3600) /* the job will not appear in slurmdbd any more */
#define TASK_AGAIN  3                /* it is to be tried again, when it is due */

static const unsigned retry_s[TRIES] = {0, 15, 45};

/* A record that this node has handed on, or is about to. */
struct task {
	char key[OUTBOX_KEY_MAX];
	bool left; /* nothing more is done with it here: the sweep's */
	uint64_t due_ns;
	uint64_t deadline_ns; /* until then the other nodes are waited for */
	double pause_s;
	unsigned tries;
	unsigned failures; /* of earlier sweeps, for a reason of the job's own */
};

/* One process's work. The connection is that of one round, in which all that is due is stored. */
struct writer {
	const struct writer_config *config;
	struct turn *turn; /* NULL: a sweep has none */
	struct spool spool;
	const char *node;
	struct account *account;
	int slot;
	bool broken;      /* slurmdbd takes nothing in this round */
	unsigned in_row;  /* jobs that slurmdbd did not take, since it took one */
	unsigned unmoved; /* records that the spool did not take, since it took one */
	size_t left;      /* records that are left for the sweep, */
	struct error why; /* and why the first of them is */
	size_t lines;     /* in the log */
	bool starved;     /* the outbox could not be read, or its records not be kept in mind */
	size_t sorted;    /* tasks, from the first on, that are in the order of their keys */
	size_t count;
	struct task *task;
	time_t swept; /* when the sweep began, by the spool's clock */
	int result;
	struct error *error;
};

static void sleep_s(double seconds)
{
	struct timespec left = clock_timespec((uint64_t)(fmax(seconds, 0) * 1e9));

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static uint64_t later_ns(double seconds)
{
	return clock_monotonic_ns() + (uint64_t)(seconds * 1e9);
}

/* Logs what one job is left for; of many jobs the first lines, and then only their number (lines_end). */
static void line_log(struct writer *writer, const char *text)
{
	if (++writer->lines <= LINES_MAX)
		log_error("%s", text);
}

static void lines_end(struct writer *writer)
{
	if (writer->left > 0)
		log_error("%zu records are left for the sweep: %s", writer->left, writer->why.text);
	if (writer->lines > LINES_MAX)
		log_error("%zu more lines like these are left out", writer->lines - LINES_MAX);
	writer->left = writer->lines = 0;
	writer->why.text[0] = '\0';
}

/* Notes whether slurmdbd took a job. Returns false where it takes none: it is away, or not well. */
static bool row_count(struct writer *writer, int result)
{
	if (result == 0)
		writer->in_row = 0;
	writer->in_row += result == -EPROTO;
	return result != ACCOUNT_AWAY && writer->in_row < IN_ROW_MAX;
}

static int round_store(struct writer *writer, const char *key, enum store_accept accept, struct error *error)
{
	int result;

	if (writer->spool.site->sink == SITE_SINK_SLURMDBD && writer->slot < 0)
		writer->slot = spool_slot_take(&writer->spool, SLOT_WAIT_S);
	if (writer->slot == -EBUSY) {
		writer->broken = true;
		return error_set(error, -EBUSY, "too many others are writing to slurmdbd");
	}
	result = store_job(&writer->spool, &writer->account, key, accept, LOCK_WAIT_S, error);
	writer->broken = !row_count(writer, result);
	return result;
}

static void round_end(struct writer *writer)
{
	account_close(writer->account);
	writer->account = NULL;
	if (writer->slot >= 0)
		close(writer->slot);
	writer->slot = -1;
	writer->broken = false;
	writer->in_row = 0;
}

/* Not all at once, for the end of a large array is the end of many jobs: stretched by the last digits of a clock. */
static double first_delay_s(const struct writer_config *config)
{
	double stretch = 1 + 0.5 * (double)(clock_monotonic_ns() % SECOND_NS) / SECOND_NS;

	return config->site->sink == SITE_SINK_SLURMDBD ? config->first_delay_s * stretch : 0;
}

/*
 * Whether the job's merging is this node's. Returns 1 with what is to be seen of it; 0: another's, or it is done;
 * -errno.
 */
static int is_mine(struct writer *writer, const char *key, struct job_files_view *ret_view, struct error *error)
{
	int result = job_files_look(&writer->spool, key, writer->node, ret_view, error);

	if (result)
		return result == -ENOENT ? 0 : result;
	return ret_view->has_node && strcmp(ret_view->first, writer->node) == 0;
}

/* Counts a try that failed. Returns TASK_AGAIN, or WRITER_LEFT after the last one. */
static int task_missed(struct writer *writer, struct task *task, struct error *reason)
{
	if (++task->tries < TRIES) {
		task->pause_s = writer->config->first_delay_s ? retry_s[task->tries] : 1;
		error_move(&writer->why, reason);
		return TASK_AGAIN;
	}
	writer->left++;
	error_move(&writer->why, reason);
	return WRITER_LEFT;
}

/* Returns 0 (stored), TASK_AGAIN, WRITER_LEFT or -errno. */
static int task_store(struct writer *writer, struct task *task, bool late, struct error *error)
{
	struct error reason = {0};
	int result = round_store(writer, task->key, late ? STORE_ALONE : STORE_COMPLETE, &reason);

	if (result == 0 || (result == STORE_LEFT && late))
		return result;
	if (result == STORE_LEFT)
		return TASK_AGAIN;
	if (result < 0 && result != ACCOUNT_AWAY && result != -EPROTO && result != -EBUSY)
		return error_set(error, result, "%s", reason.text);
	return task_missed(writer, task, &reason);
}

/*
 * Without a shared spool nobody who merges can ever see the files of other nodes than the first. Another node's record
 * is removed, if this one is of a node that is not the first.
 */
static void record_discard(struct writer *writer, const struct job_files_view *view, const char *key)
{
	if (writer->spool.shared < 0 && view->nodes_of > 0 && strcmp(view->first, writer->node) != 0)
		job_files_discard(&writer->spool, key, LOCK_WAIT_S);
}

static int task_try(struct writer *writer, struct task *task, struct error *error)
{
	bool late = writer->spool.shared < 0 || clock_monotonic_ns() >= task->deadline_ns;
	struct job_files_view view = {0};
	int result = is_mine(writer, task->key, &view, error);

	if (result == 0)
		record_discard(writer, &view, task->key);
	if (result <= 0)
		return result;
	return late || view.files >= view.nodes_of ? task_store(writer, task, late, error) : TASK_AGAIN;
}

/*
 * On the job's first node: merges and stores it once all nodes' files are there, or time is up. The others' files
 * arrive as their epilogs end: looked for ever more seldom. While slurmdbd takes nothing, no file is read for it.
 * Returns as task_store.
 */
static int task_play(struct writer *writer, struct task *task, struct error *error)
{
	struct error none = {""};
	int result;

	if (!writer->broken)
		turn_note(writer->turn, "the record \"%s\" into slurmdbd or \"%s\"", task->key,
		          writer->config->site->spool);
	result = writer->broken ? task_missed(writer, task, &none) : task_try(writer, task, error);
	task->due_ns = later_ns(task->pause_s);
	task->pause_s = fmin(task->pause_s * 1.5, PAUSE_MAX_S);
	return result;
}

/* The first of what went wrong is said by the process, the rest in the log. */
static void result_note(struct writer *writer, int result, const struct error *error)
{
	if (result < 0 && writer->result < 0)
		line_log(writer, error->text);
	else if (result < 0 || writer->result == 0)
		writer->result = error_set(writer->error, result, "%s", error->text);
}

/* Where the outbox has become read-only what was stored stays there, and would be stored again and again. */
static bool task_stays(const struct writer *writer, const struct task *task)
{
	char name[FILES_NAME_MAX + 1];

	return writer->spool.shared < 0 && outbox_name(task->key, writer->node, name) == 0 &&
	       faccessat(writer->spool.outbox, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int key_compare(const void *key, const void *task)
{
	return strcmp(key, ((const struct task *)task)->key);
}

static int task_compare(const void *left, const void *right)
{
	return strcmp(((const struct task *)left)->key, ((const struct task *)right)->key);
}

static bool task_is_known(const struct writer *writer, const char *key)
{
	return writer->sorted > 0 &&
	       bsearch(key, writer->task, writer->sorted, sizeof(*writer->task), key_compare) != NULL;
}

static void tasks_sort(struct writer *writer)
{
	if (writer->sorted < writer->count)
		qsort(writer->task, writer->count, sizeof(*writer->task), task_compare);
	writer->sorted = writer->count;
}

static int task_add(struct writer *writer, const struct task *task)
{
	struct task *bigger = memory_more(writer->task, writer->count, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	writer->task = bigger;
	writer->task[writer->count++] = *task;
	return 0;
}

/* Returns whether that is an error of the spool's, which every other record would have too. */
static bool is_spools(int result)
{
	static const int faults[] = {-ENOSPC, -EDQUOT, -EROFS, -EIO, -ESTALE, -EACCES, -EPERM};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (result == faults[i])
			return true;
	return false;
}

/* Moves a record to the shared spool, unless that takes none. Returns 0 or -errno, mostly with the reason. */
static int record_move(struct writer *writer, const char *key, const char *node, char ret_key[OUTBOX_KEY_MAX],
                       struct error *error)
{
	int result = -ENOSPC;

	if (writer->unmoved < IN_ROW_MAX) {
		result = spool_move(&writer->spool, key, node, ret_key, error);
	} else {
		writer->left++;
		error_set(&writer->why, 0, "the spool has taken none of the %d before", IN_ROW_MAX);
	}
	writer->unmoved = result == 0 ? 0 : writer->unmoved + is_spools(result);
	return result;
}

/*
 * Takes a record out of the outbox, where it can be: without a shared spool it is looked at when it is due. Returns 1:
 * there is more to be done with it, 0 or -errno.
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

static int record_begin(struct writer *writer, const char *key)
{
	struct task task = {.pause_s = 0.25};
	int result;

	strcpy(task.key, key);
	if (writer->spool.shared >= 0)
		turn_note(writer->turn, "the record \"%s\" into the spool \"%s\"", key, writer->config->site->spool);
	result = record_take(writer, task.key);
	if (result == 0 && writer->spool.shared >= 0)
		return 0;
	task.left = result <= 0;
	task.due_ns = later_ns(first_delay_s(writer->config));
	task.deadline_ns = later_ns(writer->config->collect_s);
	return task_add(writer, &task);
}

/* One task that is due. Returns whether more is to be done with it. */
static bool round_step(struct writer *writer, struct task *task)
{
	struct error error = {0};
	int result = task_play(writer, task, &error);

	if (result == TASK_AGAIN)
		return true;
	result_note(writer, result, &error);
	task->left = result == WRITER_LEFT || task_stays(writer, task);
	return task->left;
}

/* All that is due. Returns when something is still to be done, or UINT64_MAX. */
static uint64_t round_play(struct writer *writer)
{
	uint64_t now_ns = clock_monotonic_ns(), next_ns = UINT64_MAX;
	size_t kept = 0;

	for (size_t i = 0; i < writer->count; i++) {
		struct task task = writer->task[i];

		if (!task.left && task.due_ns <= now_ns && !round_step(writer, &task))
			continue;
		if (!task.left)
			next_ns = task.due_ns < next_ns ? task.due_ns : next_ns;
		writer->task[kept++] = task; /* in their order */
	}
	writer->count = writer->sorted = kept;
	round_end(writer);
	return next_ns;
}

static int outbox_look(void *context, const char *key, const char *node)
{
	const struct writer *writer = context;

	return strcmp(node, writer->node) == 0 && !task_is_known(writer, key);
}

static int outbox_take(void *context, const char *key, const char *node)
{
	return outbox_look(context, key, node) ? record_begin(context, key) : 0;
}

static int outbox_each(struct writer *writer, spool_visit visit)
{
	return spool_each(&writer->spool, writer->spool.outbox, visit, writer);
}

/* Takes what has come. A record that came after other site arguments were noted is not this writer's. */
static int outbox_read(struct writer *writer, spool_visit visit)
{
	int result;

	turn_note(writer->turn, "the outbox \"%s\"", writer->spool.outbox_path);
	result = spool_list(&writer->spool);
	if (result || !turn_is_ours(writer->turn))
		return result;
	result = outbox_each(writer, visit);
	tasks_sort(writer);
	return result;
}

/* Until nothing is left to be done, with what comes into the outbox meanwhile. */
static void work(struct writer *writer)
{
	for (;;) {
		uint64_t next_ns;
		double pause_s;

		writer->unmoved = 0;
		writer->starved = outbox_read(writer, outbox_take) < 0;
		next_ns = round_play(writer);
		if (next_ns == UINT64_MAX)
			return;
		pause_s = ((double)next_ns - (double)clock_monotonic_ns()) / 1e9;
		sleep_s(fmin(pause_s, LOOK_S));
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
	free(writer->task);
	return writer->result;
}

static bool more_came(struct writer *writer)
{
	return !writer->starved && outbox_read(writer, outbox_look) > 0;
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
	/* what came when we no longer looked, and whose writer found the turn taken, is seen after the release */
	do {
		work(&writer);
		turn_leave(turn);
	} while (more_came(&writer) && turn_take(turn, TURN_WRITER) == 0);
	if (writer.starved && writer.result >= 0)
		writer.result = error_set(error, -EIO, "the outbox \"%s\" could not be read", writer.spool.outbox_path);
	return writer_end(&writer);
}

/* The time by the clock that dates the spool's files: a file server has its own. */
static time_t spool_now(const struct spool *spool)
{
	cleanup_leave const struct spool *as_user = spool_enter(spool);
	const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	cleanup_close int clock = spool->shared < 0 ? -1 : openat(spool->shared, ".clock", flags, 0600);
	struct stat status;

	return clock >= 0 && futimens(clock, NULL) == 0 && fstat(clock, &status) == 0 ? status.st_mtime : time(NULL);
}

/* How old a file of the outbox is. One of the future is no young one: the clock that dated it was wrong. */
static long long outbox_age_s(const struct writer *writer, const char *name)
{
	struct stat status;

	if (fstatat(writer->spool.outbox, name, &status, AT_SYMLINK_NOFOLLOW))
		return 0;
	return llabs((long long)time(NULL) - (long long)status.st_mtime);
}

/* Removes what writers that were killed have left in the outbox. */
static void outbox_tidy(const struct writer *writer)
{
	cleanup_closedir DIR *entries = files_entries(writer->spool.outbox);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (files_is_temporary(entry->d_name) && outbox_age_s(writer, entry->d_name) > STALE_S)
			unlinkat(writer->spool.outbox, entry->d_name, 0);
}

static int outbox_move(void *context, const char *key, const char *node)
{
	struct writer *writer = context;
	struct error error = {0};
	char name[FILES_NAME_MAX + 1];

	if (outbox_name(key, node, name) || (!writer->config->at_once && outbox_age_s(writer, name) < QUIET_S))
		return 0;
	if (record_move(writer, key, node, NULL, &error) == 0)
		return 0;
	if (error.text[0])
		line_log(writer, error.text);
	writer->result = WRITER_LEFT;
	return 0;
}

/* They are gathered first, because looking at them removes them. */
static int key_add(void *context, const char *key, const char *node)
{
	struct writer *writer = context;
	struct task task = {.left = true, .failures = job_files_failures(&writer->spool, key)};

	(void)node;
	if (writer->count > 0 && strcmp(writer->task[writer->count - 1].key, key) == 0)
		return 0;
	strcpy(task.key, key);
	return task_add(writer, &task);
}

/* Jobs that could not be stored before come last, so that none of them holds up others. */
static int sweep_compare(const void *left, const void *right)
{
	const struct task *a = left, *b = right;

	return a->failures != b->failures ? (a->failures > b->failures ? 1 : -1) : strcmp(a->key, b->key);
}

/*
 * Whether it is time for that job, and then which nodes may be missing. Its age is by the spool's clock; a file of the
 * future is no young one: the clock that dated it was wrong.
 */
static bool is_ready(const struct writer *writer, const struct job_files_view *view, enum store_accept *ret_accept)
{
	bool whole =
	        view->files == 0 || writer->spool.shared < 0 || (view->nodes_of > 0 && view->files >= view->nodes_of);
	long long age_s = llabs((long long)writer->swept - (long long)view->newest);

	*ret_accept = writer->config->partial || age_s >= MISSING_S ? STORE_ANY : STORE_COMPLETE;
	return writer->config->partial || (writer->config->at_once && whole) || age_s >= (whole ? QUIET_S : MISSING_S);
}

/* Returns 0, WRITER_LEFT or -errno with the reason. */
static int sweep_store(struct writer *writer, const char *key, struct job_files_view *view, struct error *reason)
{
	enum store_accept accept;
	int result = job_files_look(&writer->spool, key, NULL, view, reason);

	if (result)
		return result;
	if (!is_ready(writer, view, &accept))
		return error_set(reason, WRITER_LEFT, "it is young, or not all of its nodes have reported");
	return store_job(&writer->spool, &writer->account, key, accept, 0, reason);
}

/* One job of the sweep: what is wrong with it is its own affair. Returns 0, WRITER_LEFT or ACCOUNT_AWAY. */
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
		return error_set(error, ACCOUNT_AWAY, "\"%s\" is kept%s: %s", key,
		                 result == ACCOUNT_AWAY ? "" : ", and so is what comes after it", reason.text);
	/* what slurmdbd has not taken for so long, it never will */
	if (result && view.newest + EXPIRED_S < writer->swept && job_files_discard(&writer->spool, key, 0) == 0) {
		log_error("\"%s\" could not be stored for a month and is removed: %s", key, reason.text);
		return 0;
	}
	error_set(&line, 0, "\"%s\" is left: %s", key, reason.text);
	if (result < 0)
		line_log(writer, line.text);
	return result ? WRITER_LEFT : 0;
}

static int sweep_gather(struct writer *writer)
{
	struct spool *spool = &writer->spool;
	int result = spool_list(spool);

	writer->result = 0;
	writer->in_row = writer->unmoved = 0;
	writer->count = 0;
	writer->swept = spool_now(spool);
	outbox_tidy(writer);
	if (result || (spool->shared >= 0 && outbox_each(writer, outbox_move)))
		writer->result = WRITER_LEFT;
	if (!writer->config->only_moves)
		result = spool_each(spool, spool->shared >= 0 ? spool->shared : spool->outbox, key_add, writer);
	if (writer->count > 0)
		qsort(writer->task, writer->count, sizeof(*writer->task), sweep_compare);
	return result;
}

static int sweep_once(struct writer *writer, struct error *error)
{
	int result = sweep_gather(writer);

	for (size_t i = 0; i < writer->count && result >= 0; i++) {
		result = sweep_key(writer, writer->task[i].key, error);
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
