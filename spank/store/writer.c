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
#define HAND_OVER_S 300 /* longer than any task takes */
#define FLUSH_S     20
#define WORDS_MAX   65536
#define LOCK_FILE   ".writer"        /* of the outbox */
#define NOTE_FILE   ".writer.words"  /* the site arguments by which it is to be drained */
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
};

/* One process's work. The connection is that of one round, in which all that is due is stored. */
struct writer {
	const struct writer_config *config;
	struct spool spool;
	const char *node;
	struct account *account;
	int slot;
	bool broken;  /* slurmdbd took nothing in this round */
	bool starved; /* the outbox could not be read, or its records not be kept in mind */
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

static int round_store(struct writer *writer, const char *key, enum store_accept accept, struct error *error)
{
	int result;

	if (writer->broken)
		return error_set(error, -EIO, "slurmdbd took nothing");
	if (writer->spool.site->sink == SITE_SINK_SLURMDBD && writer->slot < 0)
		writer->slot = spool_slot_take(&writer->spool, SLOT_WAIT_S);
	if (writer->slot == -EBUSY) {
		writer->broken = true;
		return error_set(error, -EBUSY, "too many others are writing to slurmdbd");
	}
	result = store_job(&writer->spool, &writer->account, key, accept, LOCK_WAIT_S, error);
	writer->broken = result == -EIO;
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
}

/* Not all at once: the end of a large array is the end of many jobs. No two of them see one nanosecond. */
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

/* Returns 0 (stored), TASK_AGAIN, WRITER_LEFT or -errno. */
static int task_store(struct writer *writer, struct task *task, bool late, struct error *error)
{
	struct error reason = {0};
	int result = round_store(writer, task->key, late ? STORE_ALONE : STORE_COMPLETE, &reason);

	if (result == 0 || (result == STORE_LEFT && late))
		return result;
	if (result == STORE_LEFT)
		return TASK_AGAIN;
	if (result < 0 && result != -EIO && result != -EBUSY)
		return error_set(error, result, "%s", reason.text);
	if (++task->tries < TRIES) {
		task->pause_s = writer->config->first_delay_s ? retry_s[task->tries] : 1;
		return TASK_AGAIN;
	}
	if (reason.text[0])
		log_error("\"%s\" is left for the sweep: %s", task->key, reason.text);
	return WRITER_LEFT;
}

/*
 * On the job's first node: merges and stores it once all nodes' files are there, or time is up. The others' files
 * arrive as their epilogs end: looked for ever more seldom. Returns as task_store.
 */
static int task_play(struct writer *writer, struct task *task, struct error *error)
{
	bool late = writer->spool.shared < 0 || clock_monotonic_ns() >= task->deadline_ns;
	struct job_files_view view = {0};
	int result = is_mine(writer, task->key, &view, error);

	if (result <= 0)
		return result;
	result = late || view.files >= view.nodes_of ? task_store(writer, task, late, error) : TASK_AGAIN;
	task->due_ns = later_ns(task->pause_s);
	task->pause_s = fmin(task->pause_s * 1.5, PAUSE_MAX_S);
	return result;
}

/* The first of what went wrong is said by the process, the rest in the log. */
static void result_note(struct writer *writer, int result, const struct error *error)
{
	if (result < 0 && writer->result < 0)
		log_error("%s", error->text);
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

static bool task_is_known(const struct writer *writer, const char *key)
{
	for (size_t i = 0; i < writer->count; i++)
		if (strcmp(writer->task[i].key, key) == 0)
			return true;
	return false;
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

/*
 * Takes a record out of the outbox, where it can be. Without a shared spool nobody who merges can ever see the files of
 * other nodes than the first. Returns 1: there is more to be done with it, 0 or -errno.
 */
static int record_take(struct writer *writer, char key[OUTBOX_KEY_MAX], struct error *error)
{
	struct job_files_view view = {0};
	bool is_shared = writer->spool.shared >= 0;
	int result = is_shared ? spool_move(&writer->spool, key, writer->node, key, error) : 0;

	if (result || writer->config->site->writer != SITE_WRITER_NODE)
		return result;
	result = is_mine(writer, key, &view, error);
	if (result == 0 && !is_shared && view.nodes_of > 0 && strcmp(view.first, writer->node) != 0)
		job_files_discard(&writer->spool, key, LOCK_WAIT_S);
	return result;
}

static int record_begin(struct writer *writer, const char *key)
{
	struct task task = {.pause_s = 0.25};
	struct error error = {0};
	int result;

	strcpy(task.key, key);
	result = record_take(writer, task.key, &error);
	result_note(writer, result < 0 ? result : 0, &error);
	if (result == 0 && writer->spool.shared >= 0)
		return 0;
	task.left = result <= 0;
	task.due_ns = later_ns(first_delay_s(writer->config));
	task.deadline_ns = later_ns(writer->config->collect_s);
	return task_add(writer, &task);
}

/* All that is due. Returns when something is still to be done, or UINT64_MAX. */
static uint64_t round_play(struct writer *writer)
{
	uint64_t now_ns = clock_monotonic_ns(), next_ns = UINT64_MAX;

	for (size_t i = 0; i < writer->count; i++) {
		struct task *task = &writer->task[i];
		struct error error = {0};
		int result = TASK_AGAIN;

		if (task->left)
			continue;
		if (task->due_ns <= now_ns)
			result = task_play(writer, task, &error);
		if (result == TASK_AGAIN) {
			next_ns = task->due_ns < next_ns ? task->due_ns : next_ns;
			continue;
		}
		result_note(writer, result, &error);
		task->left = task_stays(writer, task);
		if (!task->left)
			writer->task[i--] = writer->task[--writer->count];
	}
	round_end(writer);
	return next_ns;
}

/* Whether the outbox is to be drained by our site arguments: 0; 1: by others; -errno: that cannot be read. */
static int note_read(const struct writer *writer)
{
	cleanup_free char *words = NULL;
	size_t length;
	int result = files_read(writer->spool.outbox, NOTE_FILE, WORDS_MAX, &words, &length);

	return result ? result : strcmp(words, writer->config->words) != 0;
}

/*
 * That this process drains the outbox. One that does it by other arguments takes no more once ours are noted, and is
 * waited for. Returns a descriptor; -EBUSY: another does it, or will; another -errno: the file system has no locks.
 */
static int lock_take(const struct writer *writer)
{
	const char *words = writer->config->words;
	uint64_t deadline_ns = later_ns(HAND_OVER_S);
	bool was_noted = note_read(writer) == 0;
	int lock, result = 0;

	if (!was_noted)
		result = files_write(writer->spool.outbox, NOTE_FILE, 0600, words, strlen(words), false);
	if (result)
		log_error("the site arguments of the node's writer could not be noted: %s", strerror(-result));
	lock = spool_lock(&writer->spool, writer->spool.outbox, LOCK_FILE);
	while (lock == -EBUSY && !was_noted && clock_monotonic_ns() < deadline_ns) {
		sleep_s(LOOK_S);
		lock = spool_lock(&writer->spool, writer->spool.outbox, LOCK_FILE);
	}
	return lock;
}

static int outbox_look(void *context, const char *key, const char *node)
{
	const struct writer *writer = context;

	return strcmp(node, writer->node) == 0 && !task_is_known(writer, key);
}

/* A record that came after other site arguments were noted is not this writer's. */
static int outbox_take(void *context, const char *key, const char *node)
{
	return outbox_look(context, key, node) && note_read(context) <= 0 ? record_begin(context, key) : 0;
}

static int outbox_each(struct writer *writer, spool_visit visit)
{
	return spool_each(&writer->spool, writer->spool.outbox, visit, writer);
}

/* Until nothing is left to be done, with what comes into the outbox meanwhile, where that is drained. */
static void work(struct writer *writer, bool drains)
{
	for (;;) {
		uint64_t next_ns;
		double pause_s;

		writer->starved = drains && outbox_each(writer, outbox_take) < 0;
		next_ns = round_play(writer);
		if (next_ns == UINT64_MAX)
			return;
		pause_s = ((double)next_ns - (double)clock_monotonic_ns()) / 1e9;
		sleep_s(drains ? fmin(pause_s, LOOK_S) : pause_s);
	}
}

static int writer_begin(const struct writer_config *config, const char *node, struct writer *ret_writer,
                        struct error *error)
{
	*ret_writer = (struct writer){.config = config, .node = node, .slot = -1, .error = error};
	return spool_open(config->site, config->outbox, &ret_writer->spool, error);
}

static int writer_end(struct writer *writer)
{
	spool_close(&writer->spool);
	free(writer->task);
	return writer->result;
}

int writer_write(const struct writer_config *config, const char *key, const char *node, struct error *error)
{
	struct writer writer;
	int result = writer_begin(config, node, &writer, error);

	if (result)
		return result;
	if (strlen(key) >= OUTBOX_KEY_MAX)
		writer.result = error_set(error, -EINVAL, "\"%s\" is no key", key);
	else if (record_begin(&writer, key))
		writer.result = error_set(error, -ENOMEM, "out of memory");
	else
		work(&writer, false);
	return writer_end(&writer);
}

static bool more_came(struct writer *writer)
{
	return !writer->starved && note_read(writer) <= 0 && outbox_each(writer, outbox_look) > 0;
}

int writer_drain(const struct writer_config *config, const char *node, struct error *error)
{
	struct writer writer;
	int result = writer_begin(config, node, &writer, error);

	if (result)
		return result;
	/* what came when we no longer looked, and whose writer found the lock held, is seen after the release */
	do {
		int lock = lock_take(&writer);

		if (lock == -EBUSY)
			break;
		work(&writer, true);
		if (lock >= 0) {
			flock(lock, LOCK_UN);
			close(lock);
		}
	} while (more_came(&writer));
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
		if ((files_is_temporary(entry->d_name) || strstr(entry->d_name, NOTE_FILE ".")) &&
		    outbox_age_s(writer, entry->d_name) > STALE_S)
			unlinkat(writer->spool.outbox, entry->d_name, 0);
}

static int outbox_move(void *context, const char *key, const char *node)
{
	struct writer *writer = context;
	struct error error = {0};
	char name[FILES_NAME_MAX + 1];

	if (outbox_name(key, node, name) || (!writer->config->at_once && outbox_age_s(writer, name) < QUIET_S))
		return 0;
	if (spool_move(&writer->spool, key, node, NULL, &error)) {
		log_error("%s", error.text);
		writer->result = WRITER_LEFT;
	}
	return 0;
}

/* They are gathered first, because looking at them removes them. */
static int key_add(void *context, const char *key, const char *node)
{
	struct writer *writer = context;
	struct task task = {.left = true};

	(void)node;
	if (writer->count > 0 && strcmp(writer->task[writer->count - 1].key, key) == 0)
		return 0;
	strcpy(task.key, key);
	return task_add(writer, &task);
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

/* Returns 0, WRITER_LEFT or -EIO (slurmdbd: no use going on). */
static int sweep_key(struct writer *writer, const char *key, struct error *error)
{
	struct job_files_view view = {.newest = writer->swept};
	struct error reason = {0};
	enum store_accept accept;
	int result = job_files_look(&writer->spool, key, NULL, &view, &reason);

	if (result == -ENOENT)
		return 0;
	if (!result)
		result = is_ready(writer, &view, &accept)
		                 ? store_job(&writer->spool, &writer->account, key, accept, 0, &reason)
		                 : WRITER_LEFT;
	if (result == -EIO)
		return error_set(error, result, "\"%s\" is kept: %s", key, reason.text);
	/* what slurmdbd has not taken for so long, it never will */
	if (result && view.newest + EXPIRED_S < writer->swept && job_files_discard(&writer->spool, key, 0) == 0) {
		log_error("\"%s\" could not be stored for a month and is removed: %s", key, reason.text);
		return 0;
	}
	if (result < 0)
		log_error("\"%s\" is left: %s", key, reason.text);
	return result ? WRITER_LEFT : 0;
}

static int sweep_once(struct writer *writer, struct error *error)
{
	struct spool *spool = &writer->spool;
	int result = 0;

	writer->result = 0;
	writer->count = 0;
	writer->swept = spool_now(spool);
	outbox_tidy(writer);
	if (spool->shared >= 0 && outbox_each(writer, outbox_move))
		writer->result = WRITER_LEFT;
	if (!writer->config->only_moves)
		result = spool_each(spool, spool->shared >= 0 ? spool->shared : spool->outbox, key_add, writer);
	for (size_t i = 0; i < writer->count && result >= 0; i++) {
		result = sweep_key(writer, writer->task[i].key, error);
		writer->result = result ? result : writer->result;
	}
	round_end(writer);
	return result < 0 ? result : writer->result;
}

int writer_sweep(const struct writer_config *config, struct error *error)
{
	struct writer writer;
	uint64_t deadline_ns = later_ns(config->at_once ? FLUSH_S : 0);
	int result = writer_begin(config, NULL, &writer, error);

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
