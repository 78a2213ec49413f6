#include "spank/store/spool.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/record/node.h"
#include "spank/store/nodelist.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define TRIES       3
#define WRITER_FILE ".writer" /* its lock, and the site arguments that it goes by */
#define WORDS_MAX   65536
#define RUNS_MAX    4  /* of a job, that wait to be merged */
#define LOOK_MAX    64 /* files of other runs in one directory that are read to find one of a run */

void spool_enter(const struct spool *spool)
{
	/* stays root where it cannot change: then the checks decide, not the identity */
	if (spool->user != 0 && getuid() == 0 && seteuid(spool->user))
		log_error("cannot act as uid %u: %s", (unsigned)spool->user, strerror(errno));
}

void spool_leave(const struct spool *spool)
{
	if (spool->user != 0 && getuid() == 0 && seteuid(0))
		log_error("cannot act as root again: %s", strerror(errno));
}

static int user_find(const struct site *site, uid_t *ret_user, struct error *error)
{
	const struct passwd *user;

	*ret_user = 0;
	if (!site->spool_user[0])
		return 0;
	user = getpwnam(site->spool_user);
	if (!user)
		return error_set(error, -EINVAL, "spool_user \"%s\" is no user of this host", site->spool_user);
	*ret_user = user->pw_uid;
	return 0;
}

static int shared_check(const struct site *site, int directory, uid_t user, struct error *error)
{
	const char *owner = site->spool_user[0] ? site->spool_user : "root";
	struct stat status;

	if (fstat(directory, &status))
		return error_set(error, -errno, "spool \"%s\": %s", site->spool, strerror(errno));
	if (status.st_uid != 0 && status.st_uid != user)
		return error_set(error, -EPERM, "spool \"%s\" belongs to uid %u, not to %s: not used; chown %s \"%s\"",
		                 site->spool, (unsigned)status.st_uid, owner, owner, site->spool);
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(error, -EPERM,
		                 "spool \"%s\" has mode %04o, writable by others than %s: not used; chmod go-w \"%s\"",
		                 site->spool, (unsigned)(status.st_mode & 07777), owner, site->spool);
	return 0;
}

static int shared_open(const struct site *site, struct spool *spool, struct error *error)
{
	int result = user_find(site, &spool->user, error);

	if (result || !site->spool[0])
		return result;
	snprintf(spool->shared_path, sizeof(spool->shared_path), "%s", site->spool);
	spool_enter(spool);
	spool->shared = open(site->spool, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (spool->shared < 0)
		result = error_set(error, -errno, "spool \"%s\": %s%s", site->spool, strerror(errno),
		                   errno == ENOTDIR || errno == ELOOP ? " (it must be a directory and no link)" : "");
	else
		result = shared_check(site, spool->shared, spool->user, error);
	spool_leave(spool);
	return result;
}

int spool_open(const struct site *site, const char *outbox, struct spool *ret_spool, struct error *error)
{
	struct spool spool = {.outbox = -1, .shared = -1};
	int result;

	snprintf(spool.outbox_path, sizeof(spool.outbox_path), "%s", outbox ? outbox : OUTBOX_DIRECTORY);
	spool.outbox = files_directory_path(spool.outbox_path, 0700);
	if (spool.outbox < 0)
		return error_set(error, spool.outbox, "outbox \"%s\": %s", spool.outbox_path, strerror(-spool.outbox));
	result = shared_open(site, &spool, error);
	if (result) {
		spool_close(&spool);
		return result;
	}
	*ret_spool = spool;
	return 0;
}

void spool_close(struct spool *spool)
{
	if (spool->outbox >= 0)
		close(spool->outbox);
	if (spool->shared >= 0)
		close(spool->shared);
	spool->outbox = spool->shared = -1;
}

static int shared_put(struct spool *spool, const char *key, const char *node, const char *text, size_t length)
{
	cleanup_close int directory = files_directory(spool->shared, key, 0700);
	char name[FILES_NAME_MAX + 1];

	if (directory < 0)
		return directory;
	snprintf(name, sizeof(name), "%s.json", node);
	return files_write(directory, name, 0600, text, length, true);
}

/* Whether a directory has records of that run, or of others only, or none; or that cannot be told. */
enum verdict { VERDICT_NONE, VERDICT_SAME, VERDICT_OTHER, VERDICT_UNREAD };

static enum verdict directory_judge(int directory, const struct job_run *run)
{
	cleanup_closedir DIR *entries = files_entries(directory);
	const struct dirent *entry;
	enum verdict verdict = VERDICT_NONE;

	for (int files = 0; files < LOOK_MAX && entries && (entry = readdir(entries));) {
		json_auto_t *json = NULL;
		struct job_run other;
		int result;

		if (!files_name_ok(entry->d_name))
			continue;
		result = files_read_json(directory, entry->d_name, NODE_RECORD_MAX, &json);
		if (result && !files_is_bad(result))
			return VERDICT_UNREAD;
		if (result || !run_read(json, &other))
			continue;
		if (run_is_same(run, &other))
			return VERDICT_SAME;
		verdict = VERDICT_OTHER;
		files++;
	}
	return verdict;
}

static enum verdict key_judge(const struct spool *spool, const char *key, const struct job_run *run)
{
	cleanup_close int directory = files_directory(spool->shared, key, 0);

	return directory < 0 ? VERDICT_NONE : directory_judge(directory, run);
}

/*
 * Finds the run's number in the spool: that under which other nodes have put it already, which may be near the one that
 * this node would choose, else the first that is free. Returns 0, -EINVAL or -EEXIST.
 */
static int number_find(const struct spool *spool, const char *key, const struct job_run *run, uint32_t *ret_number,
                       struct error *error)
{
	char cluster[64], tried[OUTBOX_KEY_MAX];
	bool is_free = false;
	uint32_t job_id, first;

	if (outbox_key_parse(key, cluster, &job_id, &first))
		return error_set(error, -EINVAL, "\"%s\" is no key", key);
	for (uint32_t i = 0; i <= RUNS_MAX; i++) {
		uint32_t number = i < RUNS_MAX ? first + i : first - 1; /* an epilog may have counted one too many */
		enum verdict verdict;

		if (i == RUNS_MAX && first == 0)
			break;
		outbox_key(cluster, job_id, number, tried, error);
		verdict = key_judge(spool, tried, run);
		if (verdict == VERDICT_UNREAD)
			return error_set(error, -EIO, "\"%s\" cannot be read", tried);
		if (verdict == VERDICT_SAME || (verdict == VERDICT_NONE && i < RUNS_MAX && !is_free))
			*ret_number = number;
		if (verdict == VERDICT_SAME)
			return 0;
		is_free |= verdict == VERDICT_NONE && i < RUNS_MAX;
	}
	return is_free ? 0 : error_set(error, -EEXIST, "%d runs of job %u wait in the spool", RUNS_MAX, job_id);
}

/* How long the record may be. A list that cannot be read is refused when it is merged. */
static size_t length_most(const json_t *json)
{
	const char *nodes = json_string_value(json_object_get(json, "nodes"));
	char first[RECORD_NODE_NAME_MAX];
	int count = nodes ? nodelist_first(nodes, first, sizeof(first)) : 0;

	return node_short_most(count > 0 ? (uint32_t)count : 1);
}

/* The key under which the record is to lie, and the record that says so, no longer than it may be. */
static int record_prepare(const struct spool *spool, char key[OUTBOX_KEY_MAX], char **text, size_t *length,
                          struct error *error)
{
	unsigned failures = memory_failures();
	json_auto_t *json = memory_json(*text, *length, 0);
	uint32_t number, job_id;
	char cluster[64];
	struct job_run run;
	int result;

	if (memory_failures() != failures)
		return error_set(error, -ENOMEM, "out of memory");
	if (!run_read(json, &run)) /* what is no record at all is told apart when it is merged */
		return 0;
	number = run.count;
	result = number_find(spool, key, &run, &number, error);
	if (result || (number == run.count && *length <= length_most(json)))
		return result;
	outbox_key_parse(key, cluster, &job_id, &run.count);
	outbox_key(cluster, job_id, number, key, error);
	json_object_set_new(json, "restart_count", json_integer((json_int_t)number));
	free(*text);
	*text = node_short_print(json, length_most(json));
	*length = *text ? strlen(*text) : 0;
	return memory_failures() == failures ? 0 : error_set(error, -ENOMEM, "out of memory");
}

static int record_move(struct spool *spool, const char *name, const char *node, char key[OUTBOX_KEY_MAX],
                       struct error *error)
{
	cleanup_free char *text = NULL;
	size_t length = 0;
	int result = files_read(spool->outbox, name, NODE_RECORD_MAX, &text, &length), tries = 0;

	if (result == -ENOENT)
		return 0; /* a sweep was faster */
	if (result)
		return error_set(error, result, "\"%s/%s\": %s", spool->outbox_path, name, strerror(-result));
	spool_enter(spool);
	result = record_prepare(spool, key, &text, &length, error);
	if (!result)
		do
			result = shared_put(spool, key, node, text, length);
		while (result == -ENOENT && ++tries < TRIES); /* who has stored the job is removing its directory */
	spool_leave(spool);
	if (result)
		return error_set(error, result, "spool \"%s/%s\": %s; the record stays in \"%s\"", spool->shared_path,
		                 key, strerror(-result), spool->outbox_path);
	if (unlinkat(spool->outbox, name, 0) && errno != ENOENT)
		return error_set(error, -errno, "\"%s/%s\" cannot be removed: %s", spool->outbox_path, name,
		                 strerror(errno));
	return 0;
}

int spool_move(struct spool *spool, const char *key, const char *node, char ret_key[OUTBOX_KEY_MAX],
               struct error *error)
{
	char name[FILES_NAME_MAX + 1], moved[OUTBOX_KEY_MAX];
	int result;

	if ((size_t)snprintf(name, sizeof(name), "%s.%s.json", key, node) >= sizeof(name) ||
	    strlen(key) >= sizeof(moved))
		return error_set(error, -ENAMETOOLONG, "\"%s\" of node \"%s\": name too long", key, node);
	strcpy(moved, key);
	result = record_move(spool, name, node, moved, error);
	if (!result && ret_key)
		strcpy(ret_key, moved);
	return result;
}

/* Every entry of a directory that is a name of ours. */
static int each_name(int directory, int (*visit)(struct spool *spool, const char *name, spool_visit, void *context),
                     struct spool *spool, spool_visit inner, void *context)
{
	cleanup_closedir DIR *entries = NULL;
	const struct dirent *entry;
	int result = 0;

	if (directory == spool->shared)
		spool_enter(spool);
	entries = files_entries(directory);
	if (directory == spool->shared)
		spool_leave(spool);
	if (!entries)
		return -errno;
	while (result == 0 && (errno = 0, entry = readdir(entries)))
		if (files_name_ok(entry->d_name))
			result = visit(spool, entry->d_name, inner, context);
	return result ? result : -errno;
}

static int outbox_name(struct spool *spool, const char *name, spool_visit visit, void *context)
{
	char key[FILES_NAME_MAX + 1], cluster[64], *node, *suffix;
	uint32_t job_id, restart_count;
	size_t offset;

	(void)spool;
	strcpy(key, name);
	suffix = key + strlen(key) - strlen(".json");
	if (suffix <= key || strcmp(suffix, ".json") != 0)
		return 0;
	*suffix = '\0';
	/* a cluster's name and a node's may both contain dots: the key ends at the first one after which it parses */
	for (offset = 0; (node = strchr(key + offset, '.')); offset = (size_t)(node - key) + 1) {
		*node = '\0';
		if (outbox_key_parse(key, cluster, &job_id, &restart_count) == 0)
			return visit(context, key, node + 1);
		*node = '.';
	}
	return 0;
}

static int shared_name(struct spool *spool, const char *name, spool_visit visit, void *context)
{
	char cluster[64];
	uint32_t job_id, restart_count;

	(void)spool;
	return outbox_key_parse(name, cluster, &job_id, &restart_count) ? 0 : visit(context, name, NULL);
}

/* Held while the lock is taken and the words are noted, so that no note is lost between the two, or read half written.
 */
static void note_guard(int file, short how)
{
	struct flock first = {.l_type = how, .l_whence = SEEK_SET, .l_len = 1};

	while (fcntl(file, F_OFD_SETLKW, &first) && errno == EINTR)
		;
}

/* Guarded until it is closed. */
static int writer_file(struct spool *spool)
{
	int file = openat(spool->outbox, WRITER_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (file >= 0)
		note_guard(file, F_WRLCK);
	return file;
}

static void note_write(int file, const char *words)
{
	if (ftruncate(file, 0) || pwrite(file, words, strlen(words), 0) < 0)
		log_error("the site arguments of the node's writer could not be noted: %s", strerror(errno));
}

static bool note_is(struct spool *spool, const char *words)
{
	cleanup_free char *text = NULL;
	size_t length;

	return files_read(spool->outbox, WRITER_FILE, WORDS_MAX, &text, &length) || strcmp(text, words) == 0;
}

bool spool_writer_noted(struct spool *spool, const char *words)
{
	cleanup_close int guard = writer_file(spool);

	(void)guard; /* until the note is read */
	return note_is(spool, words);
}

bool spool_writer_note(struct spool *spool, const char *words)
{
	cleanup_close int file = writer_file(spool);

	if (note_is(spool, words))
		return true;
	if (file >= 0)
		note_write(file, words);
	return false;
}

int spool_writer_lock(struct spool *spool, const char *words)
{
	cleanup_close int lock = writer_file(spool);

	if (lock < 0)
		return errno == EBUSY ? -EIO : -errno;
	if (flock(lock, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	note_write(lock, words);
	note_guard(lock, F_UNLCK);
	return take_descriptor(&lock);
}

int spool_each_outbox(struct spool *spool, spool_visit visit, void *context)
{
	return each_name(spool->outbox, outbox_name, spool, visit, context);
}

int spool_each_shared(struct spool *spool, spool_visit visit, void *context)
{
	return spool->shared < 0 ? 0 : each_name(spool->shared, shared_name, spool, visit, context);
}
