#include "spank/store/job_files.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/store/nodelist.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define NODES_MAX 65536

static bool in_outbox(const struct job_files *files)
{
	return files->spool->shared < 0;
}

/* What a node's file is called in there. */
static void file_name(const struct job_files *files, const char *node, char name[FILES_NAME_MAX + 1])
{
	snprintf(name, FILES_NAME_MAX + 1, "%s%s%s.json", in_outbox(files) ? files->key : "",
	         in_outbox(files) ? "." : "", node);
}

static void lock_name(const struct job_files *files, char name[FILES_NAME_MAX + 1])
{
	snprintf(name, FILES_NAME_MAX + 1, ".%s.lock", in_outbox(files) ? files->key : "job");
}

/* Whether that is a name of one of the job's files. */
static bool owns(const struct job_files *files, const char *name)
{
	size_t length = strlen(name), key_length = strlen(files->key);

	if (!files_name_ok(name) || length < 6 || strcmp(name + length - 5, ".json") != 0)
		return false;
	return !in_outbox(files) ||
	       (length > key_length && strncmp(name, files->key, key_length) == 0 && name[key_length] == '.');
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
	for (size_t i = 0; i < files->count; i++)
		record_node_free(files->entry[i].node);
	for (size_t i = 0; i < files->list_count; i++) {
		nodelist_free(files->list[i].names);
		free(files->list[i].text);
	}
	free(files->entry);
	free(files->node);
	cleanup_close_descriptor(&files->lock);
	cleanup_close_descriptor(&files->directory);
}

/* The file may not be the job's, or no record: then the next one is asked. */
static int list_look(const struct job_files *files, const char *name, struct job_files_view *view)
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

static int files_look(const struct job_files *files, const char *node, struct job_files_view *view)
{
	cleanup_leave const struct spool *as_user = spool_enter(files->spool);
	cleanup_closedir DIR *entries = files_entries(files->directory);
	const struct dirent *entry;
	char own[FILES_NAME_MAX + 1] = "";
	int result = 0;

	if (!entries)
		return -errno;
	if (node) {
		file_name(files, node, own);
		result = list_look(files, own, view);
	}
	while (!result && (errno = 0, entry = readdir(entries))) {
		if (!owns(files, entry->d_name))
			continue;
		view->files++;
		view->has_node |= strcmp(entry->d_name, own) == 0;
		result = list_look(files, entry->d_name, view);
		if (!node && date_of(files, entry->d_name) > view->newest)
			view->newest = date_of(files, entry->d_name);
	}
	if (view->files == 0)
		view->newest = date_of(files, ".");
	return result ? result : -errno;
}

int job_files_look(struct spool *spool, const char *key, const char *node, struct job_files_view *ret_view,
                   struct error *error)
{
	cleanup_job_files struct job_files files;
	struct job_files_view view = {0};
	int result = files_open(spool, key, &files);

	if (!result)
		result = files_look(&files, node, &view);
	if (result)
		return error_set(error, result, "\"%s\": %s", key, strerror(-result));
	*ret_view = view;
	return 0;
}

/* One try. -EAGAIN: who held it before has removed it with the job's files; -ENOENT: with the directory. */
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

/* What was being written when its writer died; and, where all goes, everything else. */
static void rest_remove(const struct job_files *files, bool all)
{
	cleanup_closedir DIR *entries = files_entries(files->directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if ((files_is_temporary(entry->d_name) && !in_outbox(files)) || (all && owns(files, entry->d_name)))
			unlinkat(files->directory, entry->d_name, 0);
}

/* The lock goes last: who opens it before that waits for us, who opens it after that finds nothing. */
static void lock_remove(const struct job_files *files)
{
	char name[FILES_NAME_MAX + 1];

	lock_name(files, name);
	unlinkat(files->directory, name, 0);
	if (!in_outbox(files))
		unlinkat(files->spool->shared, files->key, AT_REMOVEDIR);
}

void job_files_remove(struct job_files *files)
{
	cleanup_leave const struct spool *as_user = spool_enter(files->spool);
	char name[FILES_NAME_MAX + 1];

	for (size_t i = 0; i < files->count; i++) {
		file_name(files, files->node[i]->node, name);
		unlinkat(files->directory, name, 0);
	}
	rest_remove(files, false);
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
	rest_remove(&files, true);
	lock_remove(&files);
	return 0;
}

/* That the record belongs under this key and name. */
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

/* Gives the node our copy of its list, made if it is the first that says so. */
static int list_find(struct job_files *files, struct record_node *node, size_t *ret_list, struct error *error)
{
	size_t i = 0;

	while (i < files->list_count && strcmp(files->list[i].text, node->nodes) != 0)
		i++;
	if (i == JOB_FILES_LISTS)
		return error_set(error, -EINVAL, "too many different node lists");
	if (i == files->list_count) {
		files->list[i] = (struct job_list){.text = strdup(node->nodes), .names = nodelist_new(node->nodes)};
		files->list_count++;
	}
	if (!files->list[i].text)
		return -ENOMEM;
	node->nodes = files->list[i].text;
	*ret_list = i;
	return 0;
}

/* Takes the node over if it returns 0. */
static int entry_add(struct job_files *files, struct record_node *node, struct error *error)
{
	struct job_entry entry = {.node = node, .place = -1}, *bigger;
	int result = list_find(files, node, &entry.list, error);

	if (result)
		return result;
	bigger = memory_more(files->entry, files->count, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	if (files->list[entry.list].names)
		entry.place = nodelist_find(files->list[entry.list].names, node->node);
	files->entry = bigger;
	files->entry[files->count++] = entry;
	return 0;
}

static int file_read(struct job_files *files, const char *name, struct error *error)
{
	json_auto_t *json = NULL;
	struct record_node *node = NULL;
	int result = files_read_json(files->directory, name, NODE_RECORD_MAX, &json);

	if (result)
		return error_set(error, result, "%s", result == -EBADMSG ? "no JSON object" : strerror(-result));
	result = record_node_parse(json, &node, error);
	if (!result)
		result = node_check(files, node, name, error);
	if (!result)
		result = entry_add(files, node, error);
	if (result)
		record_node_free(node);
	return result;
}

/*
 * Which record is believed most about the job, of those that are in the list that they name (in_list) or know when the
 * job began: one of a node that is the first in its list, else any; of several, that of the node that was the last to
 * end (a job that gives nodes back ends on them earlier). NULL: there is none.
 */
static const struct job_entry *entry_best(const struct job_files *files, bool in_list)
{
	const struct job_entry *best = NULL;

	for (size_t i = 0; i < files->count; i++) {
		const struct job_entry *entry = &files->entry[i];

		if (in_list ? entry->place < 0 : entry->node->run.timeless)
			continue;
		if (!best || ((entry->place == 0) != (best->place == 0) ? entry->place == 0
		                                                        : entry->node->end_s > best->node->end_s))
			best = entry;
	}
	return best;
}

static int entry_compare(const void *left, const void *right)
{
	const struct job_entry *a = left, *b = right;

	if (a->list != b->list)
		return a->list < b->list ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

/* How many nodes of a list that is one are in another one, too. */
static int nodes_shared(struct job_files *files, size_t list, size_t other)
{
	int count = nodelist_shared(files->list[list].names, files->list[other].text);

	files->starved |= count < 0;
	return count;
}

/* The longest of the lists that name all that this one does and more, or -1. */
static int list_wider(struct job_files *files, size_t narrow)
{
	char first[RECORD_NODE_NAME_MAX];
	int count = nodelist_first(files->list[narrow].text, first, sizeof(first)), most = count, widest = -1;

	files->starved |= count == 0;
	for (size_t i = 0; i < files->list_count; i++) {
		const struct nodelist *names = files->list[i].names;

		if (names && nodelist_count(names) > most && nodelist_find(names, first) >= 0) {
			most = nodelist_count(names);
			widest = (int)i;
		}
	}
	return widest >= 0 && nodes_shared(files, (size_t)widest, narrow) == count ? widest : -1;
}

/* Widens the run by all records that are of it. Returns whether there were more. */
static bool run_widen(const struct job_files *files, struct job_run *run)
{
	bool more = false;

	for (size_t i = 0; i < files->count; i++) {
		struct job_entry *entry = &files->entry[i];
		const struct job_run *other = &entry->node->run;

		if (entry->is_of_run || !run_is_same(run, other))
			continue;
		entry->is_of_run = more = true;
		run->start_s = other->timeless ? run->start_s : fmin(run->start_s, other->start_s);
		run->end_s = other->timeless ? run->end_s : fmax(run->end_s, other->end_s);
	}
	return more;
}

/* What is of another run than the record that is believed most stays where it is, for the next that reads. */
static void runs_split(struct job_files *files)
{
	const struct job_entry *best = entry_best(files, false);
	struct job_run run;
	size_t count = files->count;

	if (!best)
		return;
	run = best->node->run;
	while (run_widen(files, &run))
		;
	files->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (files->entry[i].is_of_run)
			files->entry[files->count++] = files->entry[i];
		else
			record_node_free(files->entry[i].node);
	}
	files->others = count - files->count;
}

/* Whether a record says that list; first: whether the list's first node does. */
static bool list_is_said(const struct job_files *files, size_t list, bool first)
{
	for (size_t i = 0; i < files->count; i++)
		if (files->entry[i].list == list && (!first || files->entry[i].place == 0))
			return true;
	return false;
}

static void list_widen(struct job_files *files, size_t narrow, size_t wide)
{
	for (size_t i = 0; i < files->count; i++) {
		struct job_entry *entry = &files->entry[i];

		if (entry->list != narrow || entry->place < 0)
			continue;
		entry->list = wide;
		entry->place = nodelist_find(files->list[wide].names, entry->node->node);
		entry->node->nodes = files->list[wide].text;
	}
	nodelist_free(files->list[narrow].names);
	files->list[narrow].names = NULL;
}

/*
 * Nodes that have to abort the job, for example because they were lost and are back, are told of themselves alone by
 * slurmctld: a wider list holds for them too. What several nodes say gives way only to what the first of that list says
 * as well, or one file could make any job larger.
 */
static void lists_widen(struct job_files *files, bool single)
{
	for (size_t i = 0; i < files->list_count; i++) {
		int wide;

		if (!files->list[i].names || (nodelist_count(files->list[i].names) == 1) != single)
			continue;
		wide = list_wider(files, i);
		if (wide >= 0 && (single || list_is_said(files, (size_t)wide, true)))
			list_widen(files, i, (size_t)wide);
	}
}

/*
 * Which lists count, and how many nodes they name together: that which holds, and those that have no node in common
 * with it, of nodes that the job gave back.
 */
static void lists_judge(struct job_files *files, size_t chosen)
{
	for (size_t i = 0; i < files->list_count; i++) {
		struct job_list *list = &files->list[i];

		list->counts = i == chosen ||
		               (list->names && list_is_said(files, i, false) && nodes_shared(files, chosen, i) == 0);
		if (list->counts)
			files->nodes_of += (uint32_t)nodelist_count(list->names);
	}
}

static void entry_refuse(struct job_files *files, const struct job_entry *entry)
{
	char name[FILES_NAME_MAX + 1];

	files->refused++;
	file_name(files, entry->node->node, name);
	log_error("\"%s\" of \"%s\" left out: it is not in the job's node list, or names another list", name,
	          files->key);
	record_node_free(entry->node);
}

/* Keeps the entries that belong to the job, those of the list that holds first, each by its place. */
static int entries_place(struct job_files *files)
{
	const struct job_entry *best;
	size_t count, chosen;

	runs_split(files);
	lists_widen(files, true);
	lists_widen(files, false);
	best = entry_best(files, true);
	chosen = best ? best->list : 0;
	if (best)
		lists_judge(files, chosen);
	files->node = calloc(files->count + 1, sizeof(*files->node));
	if (!files->node || files->starved)
		return -ENOMEM; /* what is merely not compared must not count as another job's */
	count = files->count;
	files->count = 0;
	for (size_t i = 0; i < count; i++) {
		struct job_entry entry = files->entry[i];

		if (entry.place < 0 || !files->list[entry.list].counts) {
			entry_refuse(files, &entry);
			continue;
		}
		entry.list = entry.list == chosen ? 0 : entry.list + 1;
		files->entry[files->count++] = entry;
	}
	if (files->count > 0)
		qsort(files->entry, files->count, sizeof(*files->entry), entry_compare);
	for (size_t i = 0; i < files->count; i++)
		files->node[i] = files->entry[i].node;
	files->has_first = files->count > 0 && files->entry[0].list == 0 && files->entry[0].place == 0;
	return 0;
}

static int files_read_all(struct job_files *files)
{
	cleanup_leave const struct spool *as_user = spool_enter(files->spool);
	cleanup_closedir DIR *entries = files_entries(files->directory);
	const struct dirent *entry;

	if (!entries)
		return -errno;
	while ((errno = 0, entry = readdir(entries))) {
		struct error error = {0};
		int result;

		if (!owns(files, entry->d_name) || files->count >= NODES_MAX)
			continue;
		result = file_read(files, entry->d_name, &error);
		if (result && !files_is_bad(result))
			return result; /* what is merely not read must not count as missing */
		if (result)
			log_error("\"%s\" of \"%s\" left out: %s", entry->d_name, files->key, error.text);
		files->refused += result != 0;
	}
	return errno ? -errno : entries_place(files);
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
