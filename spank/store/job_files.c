#include "spank/store/job_files.h"

#include "spank/base/cleanup.h"
#include "spank/store/nodelist.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

void job_files_file_name(const struct job_files *collection, const char *node, char name[FILES_NAME_MAX + 1])
{
	if (collection->in_outbox)
		snprintf(name, FILES_NAME_MAX + 1, "%s.%s.json", collection->key, node);
	else
		snprintf(name, FILES_NAME_MAX + 1, "%s.json", node);
}

static void lock_name(const struct job_files *collection, char name[FILES_NAME_MAX + 1])
{
	snprintf(name, FILES_NAME_MAX + 1, ".%s.lock", collection->in_outbox ? collection->key : "job");
}

bool job_files_owns(const struct job_files *collection, const char *name)
{
	size_t length = strlen(name), key_length = strlen(collection->key);

	if (!files_name_ok(name) || length < 6 || strcmp(name + length - 5, ".json") != 0)
		return false;
	return !collection->in_outbox ||
	       (length > key_length && strncmp(name, collection->key, key_length) == 0 && name[key_length] == '.');
}

static int directory_open(struct spool *spool, struct job_files *collection)
{
	if (spool->shared < 0) {
		collection->in_outbox = true;
		collection->directory = fcntl(spool->outbox, F_DUPFD_CLOEXEC, 3);
		return collection->directory < 0 ? -errno : 0;
	}
	spool_enter(spool);
	collection->directory = files_directory(spool->shared, collection->key, 0);
	spool_leave(spool);
	return collection->directory < 0 ? collection->directory : 0;
}

int job_files_open(struct spool *spool, const char *key, struct job_files **ret_collection, struct error *error)
{
	struct job_files *collection = calloc(1, sizeof(*collection));
	int result;

	if (!collection)
		return error_set(error, -ENOMEM, "out of memory");
	snprintf(collection->key, sizeof(collection->key), "%s", key);
	collection->directory = collection->lock = -1;
	result = directory_open(spool, collection);
	if (result) {
		job_files_free(collection);
		return error_set(error, result, "\"%s\": %s", key, strerror(-result));
	}
	*ret_collection = collection;
	return 0;
}

static void nodes_free(struct job_files *collection)
{
	for (size_t i = 0; collection->node && i < collection->count; i++)
		record_node_free(collection->node[i]);
	free(collection->node);
	collection->node = NULL;
	for (size_t i = 0; i < collection->list_count; i++)
		free(collection->list[i]);
	collection->list_count = 0;
}

void job_files_free(struct job_files *collection)
{
	if (!collection)
		return;
	nodes_free(collection);
	if (collection->lock >= 0)
		close(collection->lock);
	if (collection->directory >= 0)
		close(collection->directory);
	free(collection);
}

/* The file may not be the job's, or no record: then the next one is asked. */
static int list_look(const struct job_files *collection, const char *name, struct job_files_view *view)
{
	json_auto_t *json = NULL;
	const char *nodes;
	int result = view->nodes_of > 0 ? 0 : files_read_json(collection->directory, name, NODE_RECORD_MAX, &json);

	if (result)
		return files_is_bad(result) ? 0 : result;
	nodes = json_string_value(json_object_get(json, "nodes"));
	if (nodes && strlen(nodes) < RECORD_NODE_LIST_MAX)
		view->nodes_of = (uint32_t)nodelist_first(nodes, view->first, sizeof(view->first));
	return 0;
}

static void date_look(const struct job_files *collection, const char *name, struct job_files_view *view)
{
	struct stat status;

	if (fstatat(collection->directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_mtime > view->newest)
		view->newest = status.st_mtime;
}

static int files_look(const struct job_files *collection, bool dated, struct job_files_view *view)
{
	cleanup_closedir DIR *entries = files_entries(collection->directory);
	const struct dirent *entry;
	int result = 0;

	if (!entries)
		return -errno;
	while (!result && (errno = 0, entry = readdir(entries))) {
		if (!job_files_owns(collection, entry->d_name))
			continue;
		view->files++;
		result = list_look(collection, entry->d_name, view);
		if (dated)
			date_look(collection, entry->d_name, view);
	}
	return result ? result : -errno;
}

static int first_look(const struct job_files *collection, struct job_files_view *view)
{
	char name[FILES_NAME_MAX + 1];

	if (view->nodes_of == 0)
		return 0;
	job_files_file_name(collection, view->first, name);
	view->has_first = faccessat(collection->directory, name, F_OK, AT_SYMLINK_NOFOLLOW | AT_EACCESS) == 0;
	return view->has_first || errno == ENOENT || errno == ELOOP ? 0 : -errno;
}

static int look(const struct job_files *collection, const char *node, struct job_files_view *view)
{
	char name[FILES_NAME_MAX + 1];
	struct stat status;
	int result = 0;

	if (fstat(collection->directory, &status))
		return -errno;
	if (node) {
		job_files_file_name(collection, node, name);
		result = list_look(collection, name, view);
	}
	if (!result)
		result = files_look(collection, !node, view);
	if (view->files == 0)
		view->newest = status.st_mtime;
	return result ? result : first_look(collection, view);
}

int job_files_look(struct spool *spool, const struct job_files *collection, const char *node,
                   struct job_files_view *ret_view)
{
	struct job_files_view view = {0};
	int result;

	spool_enter(spool);
	result = look(collection, node, &view);
	spool_leave(spool);
	if (!result)
		*ret_view = view;
	return result;
}

/*
 * One try. -EAGAIN: the lock that was taken is no longer the job's, because who held it before has removed it with the
 * job's files; -ENOENT: with the directory.
 */
static int lock_try(struct spool *spool, struct job_files *collection)
{
	cleanup_close int lock = -1;
	struct stat status;
	char name[FILES_NAME_MAX + 1];

	lock_name(collection, name);
	spool_enter(spool);
	lock = openat(collection->directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	spool_leave(spool);
	if (lock < 0)
		return errno == ESTALE ? -ENOENT : -errno;
	if (flock(lock, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fstat(lock, &status) || status.st_nlink == 0)
		return -EAGAIN;
	collection->lock = take_descriptor(&lock);
	return 0;
}

int job_files_lock(struct spool *spool, struct job_files *collection, unsigned wait_s)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	uint64_t deadline_ns = clock_monotonic_ns() + wait_s * SECOND_NS;
	int result = lock_try(spool, collection);

	while (result == -EAGAIN || (result == -EBUSY && clock_monotonic_ns() < deadline_ns)) {
		if (result == -EBUSY)
			nanosleep(&pause, NULL);
		result = lock_try(spool, collection);
	}
	return result;
}

bool job_files_is_complete(const struct job_files *collection)
{
	return collection->count > 0 && collection->count == collection->nodes_of;
}

/* What was being written when its writer died; and, where all goes, everything else. */
static void rest_remove(const struct job_files *collection, bool all)
{
	cleanup_closedir DIR *entries = files_entries(collection->directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if ((files_is_temporary(entry->d_name) && !collection->in_outbox) ||
		    (all && job_files_owns(collection, entry->d_name)))
			unlinkat(collection->directory, entry->d_name, 0);
}

/* The lock goes last: who opens it before that waits for us, who opens it after that finds nothing. */
static void lock_remove(struct spool *spool, const struct job_files *collection)
{
	char name[FILES_NAME_MAX + 1];

	lock_name(collection, name);
	unlinkat(collection->directory, name, 0);
	if (!collection->in_outbox)
		unlinkat(spool->shared, collection->key, AT_REMOVEDIR);
}

void job_files_remove(struct spool *spool, struct job_files *collection)
{
	char name[FILES_NAME_MAX + 1];

	spool_enter(spool);
	for (size_t i = 0; i < collection->count; i++) {
		job_files_file_name(collection, collection->node[i]->node, name);
		unlinkat(collection->directory, name, 0);
	}
	rest_remove(collection, false);
	lock_remove(spool, collection);
	spool_leave(spool);
}

void job_files_discard(struct spool *spool, struct job_files *collection)
{
	spool_enter(spool);
	rest_remove(collection, true);
	lock_remove(spool, collection);
	spool_leave(spool);
}
