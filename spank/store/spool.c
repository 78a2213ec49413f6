#include "spank/store/spool.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/record/parse.h"
#include "spank/store/nodelist.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define TRIES    3
#define RUNS_MAX 4  /* runs of a job that may wait to be merged */
#define READ_MAX 64 /* files of other runs that are read in one directory to find one of a run */

const struct spool *spool_enter(const struct spool *spool)
{
	/* if seteuid fails the process stays root; the checks of owner and mode hold all the same */
	if (spool->user == 0 || getuid() != 0 || geteuid() != 0)
		return NULL;
	if (seteuid(spool->user))
		log_error("cannot act as uid %u: %s", (unsigned)spool->user, strerror(errno));
	return spool;
}

void spool_leave(const struct spool **entered)
{
	if (*entered && seteuid(0))
		log_error("cannot act as root again: %s", strerror(errno));
}

/* Returns 0, or an error if a user other than root and spool_user owns the spool or may write to it. */
static int shared_check(const struct spool *spool, struct error *error)
{
	const char *path = spool->site->spool, *owner = spool->site->spool_user;
	struct stat status;

	owner = owner[0] ? owner : "root";
	if (fstat(spool->shared, &status))
		return error_set(error, -errno, "spool \"%s\": %s", path, strerror(errno));
	if (status.st_uid != 0 && status.st_uid != spool->user)
		return error_set(error, -EPERM, "spool \"%s\" belongs to uid %u, not to %s: not used; chown %s \"%s\"",
		                 path, (unsigned)status.st_uid, owner, owner, path);
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(error, -EPERM,
		                 "spool \"%s\" has mode %04o, writable by others than %s: not used; chmod go-w \"%s\"",
		                 path, (unsigned)(status.st_mode & 07777), owner, path);
	return 0;
}

/* Opens the site's shared spool as spool_user, and checks it. Called only at a site that has one. */
static int shared_open(struct spool *spool, struct error *error)
{
	cleanup_leave const struct spool *as_user = spool_enter(spool);

	spool->shared = open(spool->site->spool, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (spool->shared >= 0)
		return shared_check(spool, error);
	return error_set(error, -errno, "spool \"%s\": %s%s", spool->site->spool, strerror(errno),
	                 errno == ENOTDIR || errno == ELOOP ? " (it must be a directory and no link)" : "");
}

int spool_open(const struct site *site, const char *outbox, struct spool *ret_spool, struct error *error)
{
	const struct passwd *user = site->spool_user[0] ? getpwnam(site->spool_user) : NULL;
	struct spool spool = {.site = site, .outbox_path = outbox ? outbox : OUTBOX_DIRECTORY, .shared = -1};
	int result = 0;

	spool.outbox = files_directory_path(spool.outbox_path, 0700);
	if (spool.outbox < 0)
		return error_set(error, spool.outbox, "outbox \"%s\": %s", spool.outbox_path, strerror(-spool.outbox));
	if (site->spool_user[0] && !user)
		result = error_set(error, -EINVAL,
		                   "spool_user \"%s\" is no user of this host; records stay in the outbox until it is",
		                   site->spool_user);
	spool.user = user && site->spool[0] ? user->pw_uid : 0;
	if (!result && site->spool[0])
		result = shared_open(&spool, error);
	if (result)
		spool_close(&spool);
	else
		*ret_spool = spool;
	return result;
}

void spool_close(struct spool *spool)
{
	if (spool->outbox >= 0)
		close(spool->outbox);
	if (spool->shared >= 0)
		close(spool->shared);
	spool->outbox = spool->shared = -1;
	listing_free(&spool->listing);
}

/* Returns OUTBOX_SAME if the job's directory has a record of the run; else what its other files are. */
static enum outbox_verdict key_judge(const struct spool *spool, const char *key, const struct job_run *run)
{
	cleanup_close int directory = files_directory(spool->shared, key, 0);
	cleanup_closedir DIR *entries = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;
	enum outbox_verdict verdict = OUTBOX_NONE;

	for (int others = 0; others < READ_MAX && entries && (entry = readdir(entries));) {
		enum outbox_verdict found = OUTBOX_NONE;

		if (files_name_ok(entry->d_name))
			found = outbox_judge(directory, entry->d_name, run);
		if (found == OUTBOX_SAME || found == OUTBOX_UNREAD)
			return found;
		verdict = found == OUTBOX_OTHER ? found : verdict;
		others += found == OUTBOX_OTHER;
	}
	return verdict;
}

/*
 * Finds the key, and the restart count in it, under which the run lies in the spool: the one that other nodes have
 * used, which may differ a little from this node's, else the first free one. Returns 0, -EINVAL, -EIO or -EEXIST.
 */
static int key_find(const struct spool *spool, const struct job_run *run, char key[OUTBOX_KEY_MAX],
                    uint32_t *ret_number, struct error *error)
{
	char cluster[64], tried[OUTBOX_KEY_MAX], found[OUTBOX_KEY_MAX] = "";
	enum outbox_verdict verdict = OUTBOX_NONE;
	uint32_t job_id, first;

	if (outbox_key_parse(key, cluster, &job_id, &first))
		return error_set(error, -EINVAL, "\"%s\" is not a key", key);
	for (uint32_t i = 0; i <= RUNS_MAX && verdict != OUTBOX_SAME; i++) {
		bool is_last = i == RUNS_MAX; /* tries first - 1: an epilog may have counted one restart too many */
		uint32_t number = is_last ? first - 1 : first + i;

		if (is_last && first == 0)
			break;
		outbox_key(cluster, job_id, number, tried, error);
		verdict = key_judge(spool, tried, run);
		if (verdict == OUTBOX_UNREAD)
			return error_set(error, -EIO, "\"%s\" cannot be read", tried);
		if (verdict == OUTBOX_SAME || (verdict == OUTBOX_NONE && !is_last && !found[0])) {
			*ret_number = number;
			strcpy(found, tried);
		}
	}
	if (!found[0])
		return error_set(error, -EEXIST, "%d runs of job %u wait in the spool", RUNS_MAX, job_id);
	strcpy(key, found);
	return 0;
}

/* Returns how long the record may be. One without a valid node list is refused when the job is merged. */
static size_t length_most(const json_t *json)
{
	const char *nodes = json_string_value(json_object_get(json, "nodes"));
	char first[RECORD_NODE_NAME_MAX];
	int count = nodes ? nodelist_first(nodes, first, sizeof(first)) : 0;

	return node_short_most(count > 0 ? (uint32_t)count : 1);
}

/*
 * Sets the key under which the record will lie (key_find). Replaces *text if the record must then name another run, or
 * is longer than it may be.
 */
static int record_prepare(const struct spool *spool, char key[OUTBOX_KEY_MAX], char **text, struct error *error)
{
	unsigned failures = memory_failures();
	size_t length = strlen(*text);
	json_auto_t *json = memory_json(*text, length, 0);
	struct job_run run;
	uint32_t number;
	int result;

	if (memory_failures() != failures)
		return error_set(error, -ENOMEM, "out of memory");
	if (!run_read(json, &run)) /* no record: it is refused when the job is merged */
		return 0;
	number = run.count;
	result = key_find(spool, &run, key, &number, error);
	if (result || (number == run.count && length <= length_most(json)))
		return result;
	json_object_set_new(json, "restart_count", json_integer((json_int_t)number));
	free(*text);
	*text = node_short_print(json, length_most(json));
	return memory_failures() == failures ? 0 : error_set(error, -ENOMEM, "out of memory");
}

/* Writes a record durably into the directory of its key, which is made if necessary. */
static int file_put(const struct spool *spool, const char *key, const char *node, const char *text)
{
	cleanup_close int directory = files_directory(spool->shared, key, 0700);
	char name[FILES_NAME_MAX + 1];

	snprintf(name, sizeof(name), "%s.json", node);
	return directory < 0 ? directory : files_write(directory, name, 0600, text, strlen(text), true);
}

/* Puts a record into the shared spool, as spool_user. Changes key and text if they have to be (record_prepare). */
static int record_put(const struct spool *spool, char key[OUTBOX_KEY_MAX], const char *node, char **text,
                      struct error *error)
{
	cleanup_leave const struct spool *as_user = spool_enter(spool);
	int result = record_prepare(spool, key, text, error), tries = 0;

	if (result)
		return result;
	do
		result = file_put(spool, key, node, *text);
	while (result == -ENOENT && ++tries < TRIES); /* the process that stored the job is removing the directory */
	return result;
}

int spool_move(struct spool *spool, const char *key, const char *node, char ret_key[OUTBOX_KEY_MAX],
               struct error *error)
{
	char name[FILES_NAME_MAX + 1], moved[OUTBOX_KEY_MAX];
	cleanup_free char *text = NULL;
	size_t length;
	int result;

	if (outbox_name(key, node, name) || strlen(key) >= sizeof(moved))
		return error_set(error, -ENAMETOOLONG, "\"%s\" of node \"%s\": name too long", key, node);
	strcpy(moved, key);
	result = files_read(spool->outbox, name, NODE_RECORD_MAX, &text, &length);
	if (result == -ENOENT)
		return 0; /* a sweep was faster */
	if (result)
		return error_set(error, result, "\"%s/%s\": %s", spool->outbox_path, name, strerror(-result));
	result = record_put(spool, moved, node, &text, error);
	if (result)
		return error_set(error, result, "spool \"%s/%s\": %s; the record stays in \"%s\"", spool->site->spool,
		                 moved, strerror(-result), spool->outbox_path);
	if (unlinkat(spool->outbox, name, 0) && errno != ENOENT)
		return error_set(error, -errno, "\"%s/%s\" cannot be removed: %s", spool->outbox_path, name,
		                 strerror(errno));
	if (ret_key)
		strcpy(ret_key, moved);
	return 0;
}

/*
 * Cuts the name of a record's file to its key, and has *ret_node point to the node; or checks that a directory's name
 * is a key, with *ret_node NULL. Returns false for any other name.
 */
static bool name_parse(char *name, bool is_file, const char **ret_node)
{
	char cluster[64], *suffix = name + strlen(name) - strlen(".json");
	uint32_t job_id, restart_count;

	*ret_node = NULL;
	if (!is_file)
		return outbox_key_parse(name, cluster, &job_id, &restart_count) == 0;
	if (suffix <= name || strcmp(suffix, ".json") != 0)
		return false;
	*suffix = '\0';
	/* the names of cluster and node may have dots: the key ends at the first dot before which it is a valid key */
	for (char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		*dot = '\0';
		*ret_node = dot + 1;
		if (outbox_key_parse(name, cluster, &job_id, &restart_count) == 0)
			return true;
		*dot = '.';
	}
	return false;
}

int spool_list(struct spool *spool)
{
	return listing_read(spool->outbox, &spool->listing);
}

int spool_refresh(struct spool *spool)
{
	return listing_refresh(spool->outbox, &spool->listing);
}

/* spool_each for the outbox. */
static int outbox_each(struct spool *spool, spool_visit visit, void *context)
{
	int result = spool->listing.is_read ? 0 : spool_list(spool);

	for (size_t i = 0; !result && i < spool->listing.count; i++) {
		char name[FILES_NAME_MAX + 1];
		const char *node;

		strcpy(name, spool->listing.name[i]);
		if (name_parse(name, true, &node))
			result = visit(context, name, node);
	}
	return result;
}

/* Opens the shared spool's list of names, as spool_user. Returns NULL with errno on failure. */
static DIR *shared_entries(const struct spool *spool)
{
	cleanup_leave const struct spool *as_user = spool_enter(spool);

	return files_entries(spool->shared);
}

/* spool_each for the shared spool. visit runs as root again, if the process is root. */
static int shared_each(struct spool *spool, spool_visit visit, void *context)
{
	cleanup_closedir DIR *entries = shared_entries(spool);
	const struct dirent *entry;
	int result = 0;

	if (!entries)
		return -errno;
	while (result == 0 && (errno = 0, entry = readdir(entries))) {
		char name[FILES_NAME_MAX + 1];
		const char *node;

		if (!files_name_ok(entry->d_name))
			continue;
		strcpy(name, entry->d_name);
		if (name_parse(name, false, &node))
			result = visit(context, name, node);
	}
	return result ? result : -errno;
}

int spool_each(struct spool *spool, int directory, spool_visit visit, void *context)
{
	return directory == spool->outbox ? outbox_each(spool, visit, context) : shared_each(spool, visit, context);
}

time_t spool_now(const struct spool *spool, time_t *ret_before)
{
	cleanup_leave const struct spool *as_user = spool_enter(spool);
	const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	cleanup_close int clock = spool->shared < 0 ? -1 : openat(spool->shared, ".clock", flags, 0600);
	struct stat status;

	*ret_before = clock >= 0 && fstat(clock, &status) == 0 ? status.st_mtime : 0;
	return clock >= 0 && futimens(clock, NULL) == 0 && fstat(clock, &status) == 0 ? status.st_mtime : time(NULL);
}

bool spool_is_at_fault(int result)
{
	static const int faults[] = {-ENOSPC, -EDQUOT, -EROFS, -EIO, -ESTALE, -EACCES, -EPERM};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (result == faults[i])
			return true;
	return false;
}

int spool_lock(const struct spool *spool, int directory, const char *name)
{
	cleanup_leave const struct spool *as_user = directory == spool->outbox ? NULL : spool_enter(spool);
	cleanup_close int lock = openat(directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return take_descriptor(&lock);
}

int spool_slot_take(const struct spool *spool, unsigned wait_s)
{
	uint64_t deadline_ns = clock_monotonic_ns() + wait_s * SECOND_NS;

	for (;;) {
		uint64_t now_ns = clock_monotonic_ns(); /* its last digits spread processes over slots and pauses */
		struct timespec pause = {.tv_nsec = 100000000 + (long)(now_ns % 400000000)};

		for (unsigned i = 0; i < SPOOL_SLOTS; i++) {
			char name[16];
			int slot;

			snprintf(name, sizeof(name), ".slot.%u", (unsigned)((now_ns + i) % SPOOL_SLOTS));
			slot = spool_lock(spool, spool->shared >= 0 ? spool->shared : spool->outbox, name);
			if (slot != -EBUSY)
				return slot < 0 ? -ENOTSUP : slot;
		}
		if (now_ns >= deadline_ns)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
}
