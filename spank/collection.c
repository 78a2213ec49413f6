/* The node files of one job, read from the spool or the outbox as hostile input: the second half of spool.h. */
#include "spank/spool.h"

#include "spank/cleanup.h"
#include "spank/files.h"
#include "spank/log.h"
#include "spank/node_record.h"
#include "spank/nodelist.h"
#include "spank/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define NODES_MAX 65536

/* One file that parsed; place is its node's in the job's node list, from 0. */
struct entry {
	struct record_node *node;
	json_t *json; /* what node borrows from */
	int place;
};

/* Everything that reading one job's files needs. */
struct reading {
	struct collection *collection;
	size_t count;
	size_t room;
	struct entry *entry;
};

static void file_name(const struct collection *collection, const char *node, char name[FILES_NAME_MAX + 1])
{
	if (collection->in_outbox)
		snprintf(name, FILES_NAME_MAX + 1, "%s.%s.json", collection->key, node);
	else
		snprintf(name, FILES_NAME_MAX + 1, "%s.json", node);
}

static void lock_name(const struct collection *collection, char name[FILES_NAME_MAX + 1])
{
	snprintf(name, FILES_NAME_MAX + 1, ".%s.lock", collection->in_outbox ? collection->key : "job");
}

/* That the record belongs under this key and name. */
static int node_check(const struct collection *collection, const struct record_node *node, const char *name,
                      struct error *error)
{
	char own_key[OUTBOX_KEY_MAX], own_name[FILES_NAME_MAX + 1];

	if (outbox_key(node->cluster, node->job_id, node->restart_count, own_key, error))
		return -EINVAL;
	file_name(collection, node->node, own_name);
	if (strcmp(own_key, collection->key) != 0 || strcmp(own_name, name) != 0)
		return error_set(error, -EINVAL, "it says that it is node \"%s\" of \"%s\"", node->node, own_key);
	return strlen(node->nodes) < STATE_NODES_MAX ? 0 : error_set(error, -EINVAL, "its node list is too long");
}

/* Where a node stands in a node list; -1: not in it. */
static int place_in(const char *nodes, const char *node)
{
	struct nodelist *list = nodelist_new(nodes);
	int place = list ? nodelist_find(list, node) : -1;

	nodelist_free(list);
	return place;
}

/* Takes node and json over if it returns 0. */
static int entry_add(struct reading *reading, struct record_node *node, json_t *json)
{
	if (reading->count == reading->room) {
		size_t room = reading->room ? reading->room * 2 : 16;
		struct entry *bigger = realloc(reading->entry, room * sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		reading->entry = bigger;
		reading->room = room;
	}
	reading->entry[reading->count++] = (struct entry){.node = node, .json = json};
	return 0;
}

static int file_read(struct reading *reading, const char *name, struct error *error)
{
	struct collection *collection = reading->collection;
	json_auto_t *json = NULL;
	struct record_node *node = NULL;
	struct stat status;
	int result = files_read_json(collection->directory, name, NODE_RECORD_MAX, &json);

	if (result)
		return error_set(error, result, "%s", result == -EBADMSG ? "no JSON object" : strerror(-result));
	result = record_node_parse(json, &node, error);
	if (!result)
		result = node_check(collection, node, name, error);
	if (!result)
		result = entry_add(reading, node, json);
	if (result) {
		record_node_free(node);
		return result;
	}
	json = NULL;
	if (fstatat(collection->directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	    status.st_mtime > collection->newest)
		collection->newest = status.st_mtime;
	return 0;
}

/* The node list that holds: what a node says that is the first in it, else what any node says that is in it. */
static const char *list_choose(const struct reading *reading)
{
	const char *chosen = NULL;

	for (size_t i = 0; i < reading->count; i++) {
		const struct record_node *node = reading->entry[i].node;
		int place = place_in(node->nodes, node->node);

		if (place == 0)
			return node->nodes;
		if (place > 0 && !chosen)
			chosen = node->nodes;
	}
	return chosen;
}

static int entry_compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return (a->place > b->place) - (a->place < b->place);
}

static void entry_refuse(const struct reading *reading, struct entry *entry)
{
	char name[FILES_NAME_MAX + 1];

	file_name(reading->collection, entry->node->node, name);
	log_error("\"%s\" of \"%s\" left out: it is not in the job's node list, or names another list", name,
	          reading->collection->key);
	record_node_free(entry->node);
	json_decref(entry->json);
}

/* Moves the entries that belong to the job over to the collection, in the order of its node list. */
static int entries_place(struct reading *reading, const struct nodelist *list, const char *text)
{
	struct collection *collection = reading->collection;
	size_t kept = 0;

	collection->node = calloc(reading->count + 1, sizeof(*collection->node));
	collection->json = calloc(reading->count + 1, sizeof(*collection->json));
	if (!collection->node || !collection->json)
		return -ENOMEM;
	for (size_t i = 0; i < reading->count; i++) {
		struct entry *entry = &reading->entry[i];

		entry->place =
		        list && strcmp(entry->node->nodes, text) == 0 ? nodelist_find(list, entry->node->node) : -1;
		if (entry->place >= 0)
			reading->entry[kept++] = *entry;
		else
			entry_refuse(reading, entry);
	}
	reading->count = 0;
	if (kept > 0)
		qsort(reading->entry, kept, sizeof(*reading->entry), entry_compare);
	for (size_t i = 0; i < kept; i++) {
		collection->node[i] = reading->entry[i].node;
		collection->json[i] = reading->entry[i].json;
	}
	collection->count = kept;
	collection->has_first = kept > 0 && reading->entry[0].place == 0;
	return 0;
}

static int entries_finish(struct reading *reading)
{
	const char *chosen = list_choose(reading);
	cleanup_free char *text = strdup(chosen ? chosen : "");
	struct nodelist *list = text ? nodelist_new(text) : NULL;
	int result = text ? entries_place(reading, list, text) : -ENOMEM;

	reading->collection->nodes_of = list ? (uint32_t)nodelist_count(list) : 0;
	nodelist_free(list);
	return result;
}

static void reading_free(struct reading *reading)
{
	for (size_t i = 0; i < reading->count; i++) {
		record_node_free(reading->entry[i].node);
		json_decref(reading->entry[i].json);
	}
	free(reading->entry);
}

static bool is_ours(const struct collection *collection, const char *name)
{
	size_t length = strlen(name), key_length = strlen(collection->key);

	if (!files_name_ok(name) || length < 6 || strcmp(name + length - 5, ".json") != 0)
		return false;
	return !collection->in_outbox ||
	       (length > key_length && strncmp(name, collection->key, key_length) == 0 && name[key_length] == '.');
}

static int directory_read(struct reading *reading)
{
	struct collection *collection = reading->collection;
	int copy = openat(collection->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *entries = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;

	if (!entries && copy >= 0)
		close(copy);
	if (!entries)
		return -errno;
	while ((entry = readdir(entries))) {
		struct error error = {0};

		if (is_ours(collection, entry->d_name) && reading->count < NODES_MAX &&
		    file_read(reading, entry->d_name, &error))
			log_error("\"%s\" of \"%s\" left out: %s", entry->d_name, collection->key, error.text);
	}
	return entries_finish(reading);
}

static int collection_open(struct spool *spool, struct collection *collection)
{
	if (spool->shared < 0) {
		collection->in_outbox = true;
		collection->directory = fcntl(spool->outbox, F_DUPFD_CLOEXEC, 3);
		return collection->directory < 0 ? -errno : 0;
	}
	collection->directory = files_directory(spool->shared, collection->key, 0);
	return collection->directory < 0 ? collection->directory : 0;
}

int spool_collect(struct spool *spool, const char *key, struct collection **ret_collection, struct error *error)
{
	struct collection *collection = calloc(1, sizeof(*collection));
	struct reading reading = {.collection = collection};
	int result;

	if (!collection)
		return error_set(error, -ENOMEM, "out of memory");
	snprintf(collection->key, sizeof(collection->key), "%s", key);
	collection->directory = collection->lock = -1;
	spool_enter(spool);
	result = collection_open(spool, collection);
	if (!result)
		result = directory_read(&reading);
	spool_leave(spool);
	reading_free(&reading);
	if (result && result != -ENOENT) {
		collection_free(collection);
		return error_set(error, result, "\"%s\": %s", key, strerror(-result));
	}
	*ret_collection = collection;
	return 0;
}

void collection_free(struct collection *collection)
{
	if (!collection)
		return;
	for (size_t i = 0; i < collection->count; i++) {
		record_node_free(collection->node[i]);
		json_decref(collection->json[i]);
	}
	free(collection->node);
	free(collection->json);
	if (collection->lock >= 0)
		close(collection->lock);
	if (collection->directory >= 0)
		close(collection->directory);
	free(collection);
}

int collection_lock(struct spool *spool, struct collection *collection, unsigned wait_s)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	uint64_t deadline_ns = clock_monotonic_ns() + wait_s * UINT64_C(1000000000);
	cleanup_close int lock = -1;
	char name[FILES_NAME_MAX + 1];

	if (collection->lock >= 0)
		return 0;
	lock_name(collection, name);
	spool_enter(spool);
	lock = openat(collection->directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	spool_leave(spool);
	if (lock < 0)
		return -errno;
	while (flock(lock, LOCK_EX | LOCK_NB)) {
		if (clock_monotonic_ns() >= deadline_ns)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
	collection->lock = take_descriptor(&lock);
	return 0;
}

void collection_remove(struct spool *spool, struct collection *collection)
{
	char name[FILES_NAME_MAX + 1];

	spool_enter(spool);
	for (size_t i = 0; i < collection->count; i++) {
		file_name(collection, collection->node[i]->node, name);
		unlinkat(collection->directory, name, 0);
	}
	lock_name(collection, name);
	unlinkat(collection->directory, name, 0);
	if (!collection->in_outbox)
		unlinkat(spool->shared, collection->key, AT_REMOVEDIR);
	spool_leave(spool);
}
