#include "spank/store/job_files.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/store/nodelist.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define NODES_MAX    65536 /* files of one job that are read */
#define FAILURES_MAX 3     /* failures that are counted */

/* Returns true if the site has no shared spool, so that the job's files lie in the outbox. */
static bool in_outbox(const struct job_files *files)
{
	return files->spool->shared < 0;
}

/* Writes the name of a node's file in the job's directory. */
static void file_name(const struct job_files *files, const char *node, char name[FILES_NAME_MAX + 1])
{
	snprintf(name, FILES_NAME_MAX + 1, "%s%s%s.json", in_outbox(files) ? files->key : "",
	         in_outbox(files) ? "." : "", node);
}

static void lock_name(const struct job_files *files, char name[FILES_NAME_MAX + 1])
{
	snprintf(name, FILES_NAME_MAX + 1, ".%s.lock", in_outbox(files) ? files->key : "job");
}

/* Writes the name of the file whose length is how often the job could not be stored. */
static void mark_name(const struct job_files *files, char name[FILES_NAME_MAX + 1])
{
	snprintf(name, FILES_NAME_MAX + 1, ".%s.failed", in_outbox(files) ? files->key : "job");
}

/* Returns true if `name` is that of a record of the job. */
static bool owns(const struct job_files *files, const char *name)
{
	size_t length = strlen(name), key_length = strlen(files->key);

	if (!files_name_ok(name) || length < 6 || strcmp(name + length - 5, ".json") != 0)
		return false;
	return !in_outbox(files) ||
	       (length > key_length && strncmp(name, files->key, key_length) == 0 && name[key_length] == '.');
}

/* The names of a job's files, from its directory or from the outbox's listing, which is read once for all jobs. */
struct names {
	DIR *entries; /* the directory; NULL: the listing is used */
	size_t at;    /* index of the next name in the listing */
	int result;   /* 0, or the -errno with which reading ended */
};

static void names_close(struct names *names)
{
	cleanup_close_directory(&names->entries);
}

#define cleanup_names __attribute__((cleanup(names_close)))

static int names_open(const struct job_files *files, struct names *ret_names)
{
	struct spool *spool = files->spool;

	*ret_names = (struct names){.entries = NULL};
	if (!in_outbox(files)) {
		ret_names->entries = files_entries(files->directory);
		ret_names->result = ret_names->entries ? 0 : -errno;
		return ret_names->result;
	}
	ret_names->result = spool->listing.is_read ? 0 : spool_list(spool);
	ret_names->at = listing_find(&spool->listing, files->key);
	return ret_names->result;
}

/* Returns the next name of a file that is still there, or NULL. */
static const char *names_next(const struct job_files *files, struct names *names)
{
	const struct listing *listing = &files->spool->listing;
	const struct dirent *entry;

	while (names->entries && (errno = 0, entry = readdir(names->entries)))
		if (owns(files, entry->d_name))
			return entry->d_name;
	if (names->entries)
		names->result = -errno;
	while (!names->entries && names->at < listing->count) {
		const char *name = listing->name[names->at++];

		if (strncmp(name, files->key, strlen(files->key)) != 0)
			break;
		if (owns(files, name) && faccessat(files->directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return name;
	}
	return NULL;
}

static int files_open(struct spool *spool, const char *key, struct job_files *ret_files)
{
	cleanup_leave const struct spool *as_user = spool_enter(spool);

	*ret_files = (struct job_files){.spool = spool, .key = key, .lock = -1};
	ret_files->directory =
	        in_outbox(ret_files) ? files_directory(spool->outbox, ".", 0) : files_directory(spool->shared, key, 0);
	return ret_files->directory < 0 ? ret_files->directory : 0;
}

void job_files_free(struct job_files *files)
{
	job_entries_free(&files->entries);
	cleanup_close_descriptor(&files->lock);
	cleanup_close_descriptor(&files->directory);
}

/* Reads the node list from a file, unless one was read before. A file that is bad or no record is skipped. */
static int list_read(const struct job_files *files, const char *name, struct job_files_view *view)
{
	json_auto_t *json = NULL;
	const char *nodes;
	int result = view->nodes_of > 0 ? 0 : files_read_json(files->directory, name, NODE_RECORD_MAX, &json);

	if (result)
		return files_is_bad(result) ? 0 : result;
	nodes = json_string_value(json_object_get(json, "nodes"));
	if (nodes && strlen(nodes) < RECORD_NODE_LIST_MAX)
		view->nodes_of = (uint32_t)nodelist_first(nodes, view->first, sizeof(view->first));
	return 0;
}

static time_t date_of(const struct job_files *files, const char *name)
{
	struct stat status;

	return fstatat(files->directory, name, &status, AT_SYMLINK_NOFOLLOW) ? 0 : status.st_mtime;
}

/*
 * Counts the job's files, and reads the node's or, if that cannot be read, the first that can. Only the job's first
 * node counts: if each node of a large job read all names, the file server would list the square of their number.
 */
static int files_count(const struct job_files *files, const char *node, struct job_files_view *view)
{
	cleanup_leave const struct spool *as_user = spool_enter(files->spool);
	cleanup_names struct names names;
	char own[FILES_NAME_MAX + 1] = "";
	const char *name;
	int result = names_open(files, &names);

	if (!result && node) {
		file_name(files, node, own);
		result = list_read(files, own, view);
		if (view->nodes_of > 0 && strcmp(view->first, node) != 0)
			return result;
	}
	while (!result && (name = names_next(files, &names))) {
		view->files++;
		view->has_node |= strcmp(name, own) == 0;
		result = list_read(files, name, view);
		if (!node && date_of(files, name) > view->newest)
			view->newest = date_of(files, name);
	}
	if (view->files == 0)
		view->newest = date_of(files, ".");
	return result ? result : names.result;
}

int job_files_count(struct spool *spool, const char *key, const char *node, struct job_files_view *ret_view,
                    struct error *error)
{
	cleanup_job_files struct job_files files;
	struct job_files_view view = {0};
	int result = files_open(spool, key, &files);

	if (!result)
		result = files_count(&files, node, &view);
	if (result)
		return error_set(error, result, "\"%s\": %s", key, strerror(-result));
	*ret_view = view;
	return 0;
}

/*
 * Tries once to take the job's lock. Returns 0, -EBUSY, -EAGAIN (its last holder has removed the lock's file), -ENOENT
 * (the directory too) or another -errno.
 */
static int lock_try(struct job_files *files)
{
	cleanup_close int lock = -1;
	struct stat status;
	char name[FILES_NAME_MAX + 1];

	lock_name(files, name);
	lock = spool_lock(files->spool, files->directory, name);
	if (lock < 0)
		return lock == -ESTALE ? -ENOENT : lock;
	if (fstat(lock, &status) || status.st_nlink == 0)
		return -EAGAIN;
	files->lock = take_descriptor(&lock);
	return 0;
}

/* Takes the job's lock, waiting wait_s seconds at most. Returns 0, -EBUSY or another -errno. */
static int lock_take(struct job_files *files, unsigned wait_s)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	uint64_t deadline_ns = clock_monotonic_ns() + wait_s * SECOND_NS;
	int result = lock_try(files);

	while (result == -EAGAIN || (result == -EBUSY && clock_monotonic_ns() < deadline_ns)) {
		if (result == -EBUSY)
			nanosleep(&pause, NULL);
		result = lock_try(files);
	}
	return result;
}

/* Removes all files of the job. */
static void all_remove(const struct job_files *files)
{
	cleanup_names struct names names;
	const char *name;

	if (names_open(files, &names))
		return;
	while ((name = names_next(files, &names)))
		unlinkat(files->directory, name, 0);
}

/* Removes temporary files that killed writers have left in the job's directory. */
static void temporaries_remove(const struct job_files *files)
{
	cleanup_closedir DIR *entries = in_outbox(files) ? NULL : files_entries(files->directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (files_is_temporary(entry->d_name))
			unlinkat(files->directory, entry->d_name, 0);
}

/*
 * Removes the lock's file, after all others. A process that opens it before that waits for this one; one that comes
 * later finds no files.
 */
static void lock_remove(const struct job_files *files)
{
	char name[FILES_NAME_MAX + 1];

	temporaries_remove(files);
	mark_name(files, name);
	unlinkat(files->directory, name, 0);
	lock_name(files, name);
	unlinkat(files->directory, name, 0);
	if (!in_outbox(files))
		unlinkat(files->spool->shared, files->key, AT_REMOVEDIR);
}

void job_files_remove(struct job_files *files)
{
	cleanup_leave const struct spool *as_user = spool_enter(files->spool);
	char name[FILES_NAME_MAX + 1];

	for (size_t i = 0; i < files->entries.count; i++) {
		file_name(files, files->entries.node[i]->node, name);
		unlinkat(files->directory, name, 0);
	}
	lock_remove(files);
}

int job_files_discard(struct spool *spool, const char *key, unsigned wait_s)
{
	cleanup_job_files struct job_files files;
	cleanup_leave const struct spool *as_user = spool_enter(spool);
	int result = files_open(spool, key, &files);

	if (!result)
		result = lock_take(&files, wait_s);
	if (result)
		return result;
	all_remove(&files);
	lock_remove(&files);
	return 0;
}

/* Checks that the record belongs under this key and file name. Returns 0 or -EINVAL. */
static int node_check(const struct job_files *files, const struct record_node *node, const char *name,
                      struct error *error)
{
	char own_key[OUTBOX_KEY_MAX], own_name[FILES_NAME_MAX + 1];

	if (outbox_key(node->cluster, node->job_id, node->restart_count, own_key, error))
		return -EINVAL;
	file_name(files, node->node, own_name);
	if (strcmp(own_key, files->key) != 0 || strcmp(own_name, name) != 0)
		return error_set(error, -EINVAL, "it says that it is node \"%s\" of \"%s\"", node->node, own_key);
	return strlen(node->nodes) < RECORD_NODE_LIST_MAX ? 0 : error_set(error, -EINVAL, "its node list is too long");
}

/* Reads a node's record, checks it, and adds it to the entries. */
static int file_read(struct job_files *files, const char *name, struct error *error)
{
	json_auto_t *json = NULL;
	struct record_node *node = NULL;
	int result = files_read_json(files->directory, name, NODE_RECORD_MAX, &json);

	if (result)
		return error_set(error, result, "%s", result == -EBADMSG ? "not a JSON object" : strerror(-result));
	result = record_node_parse(json, &node, error);
	if (!result)
		result = node_check(files, node, name, error);
	if (!result)
		result = job_entries_add(&files->entries, node, error);
	if (result)
		record_node_free(node);
	else if (node->left_out[0])
		log_error("\"%s\" of \"%s\": %s: no node writes that; the record is stored without it", name,
		          files->key, node->left_out);
	return result;
}

/* Judges the entries, and names those that are left out in the log. */
static int entries_judge(struct job_files *files)
{
	struct job_entries *entries = &files->entries;
	int result = job_entries_judge(entries);

	for (size_t i = 0; !result && i < entries->left_out; i++) {
		char name[FILES_NAME_MAX + 1];

		file_name(files, entries->entry[entries->count + i].node->node, name);
		log_error("\"%s\" of \"%s\" left out: it is not in the job's node list, or names another list", name,
		          files->key);
	}
	files->refused += entries->left_out;
	return result;
}

/* Reads all of the job's files into entries. A bad one is refused and named in the log. */
static int files_read_all(struct job_files *files)
{
	cleanup_leave const struct spool *as_user = spool_enter(files->spool);
	cleanup_names struct names names;
	const char *name;

	if (names_open(files, &names))
		return names.result;
	while (files->entries.count < NODES_MAX && (name = names_next(files, &names))) {
		struct error error = {0};
		int result = file_read(files, name, &error);

		if (result && !files_is_bad(result))
			return result; /* a file that cannot be read now must not count as missing */
		if (result)
			log_error("\"%s\" of \"%s\" left out: %s", name, files->key, error.text);
		files->refused += result != 0;
	}
	return names.result ? names.result : entries_judge(files);
}

int job_files_take(struct spool *spool, const char *key, unsigned wait_s, struct job_files *ret_files,
                   struct error *error)
{
	int result = files_open(spool, key, ret_files);

	if (!result)
		result = lock_take(ret_files, wait_s);
	if (!result)
		result = files_read_all(ret_files);
	return result ? error_set(error, result, "\"%s\": %s", key, strerror(-result)) : 0;
}

unsigned job_files_failures(struct spool *spool, const char *key)
{
	cleanup_leave const struct spool *as_user = spool_enter(spool);
	struct job_files files = {.spool = spool, .key = key};
	char name[FILES_NAME_MAX + 1], path[2 * FILES_NAME_MAX + 3];
	struct stat status;

	mark_name(&files, name);
	snprintf(path, sizeof(path), "%s%s%s", in_outbox(&files) ? "" : key, in_outbox(&files) ? "" : "/", name);
	if (fstatat(in_outbox(&files) ? spool->outbox : spool->shared, path, &status, AT_SYMLINK_NOFOLLOW))
		return 0;
	return status.st_size < FAILURES_MAX ? (unsigned)status.st_size : FAILURES_MAX;
}

void job_files_fail(struct spool *spool, const char *key)
{
	const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	cleanup_job_files struct job_files files = {.directory = -1, .lock = -1};
	cleanup_leave const struct spool *as_user = spool_enter(spool);
	char name[FILES_NAME_MAX + 1];
	cleanup_close int mark = -1;

	if (job_files_failures(spool, key) >= FAILURES_MAX || files_open(spool, key, &files))
		return;
	mark_name(&files, name);
	mark = openat(files.directory, name, flags, 0600);
	if (mark >= 0 && write(mark, "!", 1) < 0)
		log_debug("\"%s\": %s", key, strerror(errno));
}
