/* The files of one job, read as hostile input, and put into the order of its node list: half of job_files.h. */
#include "spank/store/job_files.h"

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/store/nodelist.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define NODES_MAX 65536

/* One file that parsed. */
struct entry {
	struct record_node *node; /* its node list is one of the collection's */
	size_t list;
	int place; /* of the node in its own list, from 0; -1: not in it */
};

/* Everything that reading one job's files needs. */
struct reading {
	struct job_files *collection;
	struct nodelist *list[COLLECTION_LISTS]; /* of the collection's texts; NULL: that one is no node list */
	size_t count;
	size_t room;
	struct entry *entry;
	bool starved; /* there was no memory to compare lists */
};

/* That the record belongs under this key and name. */
static int node_check(const struct job_files *collection, const struct record_node *node, const char *name,
                      struct error *error)
{
	char own_key[OUTBOX_KEY_MAX], own_name[FILES_NAME_MAX + 1];

	if (outbox_key(node->cluster, node->job_id, node->restart_count, own_key, error))
		return -EINVAL;
	job_files_file_name(collection, node->node, own_name);
	if (strcmp(own_key, collection->key) != 0 || strcmp(own_name, name) != 0)
		return error_set(error, -EINVAL, "it says that it is node \"%s\" of \"%s\"", node->node, own_key);
	return strlen(node->nodes) < RECORD_NODE_LIST_MAX ? 0 : error_set(error, -EINVAL, "its node list is too long");
}

/* Gives the node the collection's copy of its list, made if it is the first that says so. */
static int list_find(struct reading *reading, struct record_node *node, size_t *ret_list, struct error *error)
{
	struct job_files *collection = reading->collection;
	size_t i = 0;

	while (i < collection->list_count && strcmp(collection->list[i], node->nodes) != 0)
		i++;
	if (i == COLLECTION_LISTS)
		return error_set(error, -EINVAL, "too many different node lists");
	if (i == collection->list_count) {
		collection->list[i] = strdup(node->nodes);
		if (!collection->list[i])
			return -ENOMEM;
		reading->list[i] = nodelist_new(node->nodes);
		collection->list_count++;
	}
	node->nodes = collection->list[i];
	*ret_list = i;
	return 0;
}

/* Takes the node over if it returns 0. */
static int entry_add(struct reading *reading, struct record_node *node, size_t list)
{
	struct nodelist *names = reading->list[list];

	if (reading->count == reading->room) {
		size_t room = reading->room ? reading->room * 2 : 16;
		struct entry *bigger = realloc(reading->entry, room * sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		reading->entry = bigger;
		reading->room = room;
	}
	reading->entry[reading->count++] =
	        (struct entry){.node = node, .list = list, .place = names ? nodelist_find(names, node->node) : -1};
	return 0;
}

static int file_read(struct reading *reading, const char *name, struct error *error)
{
	struct job_files *collection = reading->collection;
	json_auto_t *json = NULL;
	struct record_node *node = NULL;
	size_t list = 0;
	int result = files_read_json(collection->directory, name, NODE_RECORD_MAX, &json);

	if (result)
		return error_set(error, result, "%s", result == -EBADMSG ? "no JSON object" : strerror(-result));
	result = record_node_parse(json, &node, error);
	if (!result)
		result = node_check(collection, node, name, error);
	if (!result)
		result = list_find(reading, node, &list, error);
	if (!result)
		result = entry_add(reading, node, list);
	if (result)
		record_node_free(node);
	return result;
}

/* Which of two entries is better to be believed about the job's node list: see list_choose. */
static bool is_better(const struct entry *a, const struct entry *b)
{
	if ((a->place == 0) != (b->place == 0))
		return a->place == 0;
	return a->node->end_s > b->node->end_s;
}

/*
 * The node list that holds: what a node says that is the first in it, else what any node says that is in it; of
 * several, what the node says that was the last to end (a job that gives nodes back ends on them earlier). -1: none.
 */
static int list_choose(const struct reading *reading)
{
	const struct entry *best = NULL;

	for (size_t i = 0; i < reading->count; i++) {
		const struct entry *entry = &reading->entry[i];

		if (entry->place >= 0 && (!best || is_better(entry, best)))
			best = entry;
	}
	return best ? (int)best->list : -1;
}

static int entry_compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->list != b->list)
		return a->list < b->list ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

static void entry_refuse(const struct reading *reading, struct entry *entry)
{
	char name[FILES_NAME_MAX + 1];

	reading->collection->refused++;
	job_files_file_name(reading->collection, entry->node->node, name);
	log_error("\"%s\" of \"%s\" left out: it is not in the job's node list, or names another list", name,
	          reading->collection->key);
	record_node_free(entry->node);
}

/* Whether all (wanted) or none (!wanted) of the nodes of one of the lists are in the other. */
static bool all_are(struct reading *reading, const struct nodelist *other, size_t list, bool wanted)
{
	struct nodelist *copy = nodelist_new(reading->collection->list[list]);
	char *name;
	bool all = copy != NULL;

	reading->starved |= !copy;
	while (all && (name = nodelist_shift(copy))) {
		all = (nodelist_find(other, name) >= 0) == wanted;
		free(name);
	}
	nodelist_free(copy);
	return all;
}

/* The longest of the lists that name all that this one does and more, or -1. */
static int list_wider(struct reading *reading, size_t narrow)
{
	char first[RECORD_NODE_NAME_MAX];
	int most = nodelist_first(reading->collection->list[narrow], first, sizeof(first)), widest = -1;

	reading->starved |= most == 0;
	for (size_t i = 0; i < reading->collection->list_count; i++) {
		const struct nodelist *list = reading->list[i];

		if (list && nodelist_count(list) > most && nodelist_find(list, first) >= 0) {
			most = nodelist_count(list);
			widest = (int)i;
		}
	}
	return widest >= 0 && all_are(reading, reading->list[widest], narrow, true) ? widest : -1;
}

/* Widens the run by all records that are of it. Returns whether there were more. */
static bool run_widen(const struct reading *reading, struct job_run *run, bool *is_of)
{
	bool more = false;

	for (size_t i = 0; i < reading->count; i++) {
		const struct job_run *other = &reading->entry[i].node->run;

		if (is_of[i] || !run_is_same(run, other))
			continue;
		is_of[i] = more = true;
		if (other->timeless)
			continue;
		run->start_s = other->start_s < run->start_s ? other->start_s : run->start_s;
		run->end_s = other->end_s > run->end_s ? other->end_s : run->end_s;
	}
	return more;
}

/*
 * What is of another run than the record that is believed most stays where it is, for the next that reads. -ENOMEM: it
 * cannot be told.
 */
static int runs_split(struct reading *reading)
{
	cleanup_free bool *is_of = calloc(reading->count + 1, sizeof(*is_of));
	const struct entry *best = NULL;
	struct job_run run;
	size_t kept = 0;

	if (!is_of)
		return -ENOMEM;
	for (size_t i = 0; i < reading->count; i++)
		if (!reading->entry[i].node->run.timeless && (!best || is_better(&reading->entry[i], best)))
			best = &reading->entry[i];
	if (!best)
		return 0;
	run = best->node->run;
	while (run_widen(reading, &run, is_of))
		;
	for (size_t i = 0; i < reading->count; i++) {
		if (is_of[i])
			reading->entry[kept++] = reading->entry[i];
		else
			record_node_free(reading->entry[i].node);
	}
	reading->collection->others = reading->count - kept;
	reading->count = kept;
	return 0;
}

static bool list_is_used(const struct reading *reading, size_t list)
{
	for (size_t i = 0; i < reading->count; i++)
		if (reading->entry[i].list == list)
			return true;
	return false;
}

static bool is_vouched_for(const struct reading *reading, size_t list)
{
	for (size_t i = 0; i < reading->count; i++)
		if (reading->entry[i].list == list && reading->entry[i].place == 0)
			return true;
	return false;
}

static void list_widen(struct reading *reading, size_t narrow, size_t wide)
{
	for (size_t i = 0; i < reading->count; i++) {
		struct entry *entry = &reading->entry[i];

		if (entry->list != narrow || entry->place < 0)
			continue;
		entry->list = wide;
		entry->place = nodelist_find(reading->list[wide], entry->node->node);
		entry->node->nodes = reading->collection->list[wide];
	}
	nodelist_free(reading->list[narrow]);
	reading->list[narrow] = NULL;
}

/*
 * Nodes that have to abort the job, for example because they were lost and are back, are told of themselves alone by
 * slurmctld: a wider list holds for them too. What several nodes say gives way only to what the first of that list says
 * as well, or one file could make any job larger.
 */
static void lists_widen(struct reading *reading, bool single)
{
	for (size_t i = 0; i < reading->collection->list_count; i++) {
		int wide;

		if (!reading->list[i] || (nodelist_count(reading->list[i]) == 1) != single)
			continue;
		wide = list_wider(reading, i);
		if (wide >= 0 && (single || is_vouched_for(reading, (size_t)wide)))
			list_widen(reading, i, (size_t)wide);
	}
}

/* Which lists count, and how many nodes they name together. The chosen one becomes the first in order. */
static void lists_judge(struct reading *reading, int chosen, bool ret_counts[COLLECTION_LISTS])
{
	struct job_files *collection = reading->collection;

	for (size_t i = 0; chosen >= 0 && i < collection->list_count; i++) {
		/* a list of nodes that the job gave back has none in common with the one that holds */
		ret_counts[i] = (int)i == chosen || (reading->list[i] && list_is_used(reading, i) &&
		                                     all_are(reading, reading->list[chosen], i, false));
		if (ret_counts[i])
			collection->nodes_of += (uint32_t)nodelist_count(reading->list[i]);
	}
}

/* Moves the entries that belong to the job over to the collection: those of the chosen list first, each by its place.
 */
static int entries_place(struct reading *reading)
{
	struct job_files *collection = reading->collection;
	bool counts[COLLECTION_LISTS] = {false};
	size_t kept = 0;
	int chosen;

	collection->node = calloc(reading->count + 1, sizeof(*collection->node));
	if (!collection->node || runs_split(reading))
		return -ENOMEM;
	lists_widen(reading, true);
	lists_widen(reading, false);
	chosen = list_choose(reading);
	lists_judge(reading, chosen, counts);
	if (reading->starved)
		return -ENOMEM; /* what is merely not compared must not count as another job's */
	for (size_t i = 0; i < reading->count; i++) {
		struct entry *entry = &reading->entry[i];

		if (entry->place < 0 || !counts[entry->list]) {
			entry_refuse(reading, entry);
			continue;
		}
		entry->list = (int)entry->list == chosen ? 0 : entry->list + 1;
		reading->entry[kept++] = *entry;
	}
	reading->count = 0;
	if (kept > 0)
		qsort(reading->entry, kept, sizeof(*reading->entry), entry_compare);
	for (size_t i = 0; i < kept; i++)
		collection->node[i] = reading->entry[i].node;
	collection->count = kept;
	collection->has_first = kept > 0 && reading->entry[0].list == 0 && reading->entry[0].place == 0;
	return 0;
}

static void reading_free(struct reading *reading)
{
	for (size_t i = 0; i < reading->count; i++)
		record_node_free(reading->entry[i].node);
	for (size_t i = 0; i < reading->collection->list_count; i++)
		nodelist_free(reading->list[i]);
	free(reading->entry);
}

static int directory_read(struct reading *reading)
{
	struct job_files *collection = reading->collection;
	cleanup_closedir DIR *entries = files_entries(collection->directory);
	const struct dirent *entry;

	if (!entries)
		return -errno;
	while ((errno = 0, entry = readdir(entries))) {
		struct error error = {0};
		int result;

		if (!job_files_owns(collection, entry->d_name) || reading->count >= NODES_MAX)
			continue;
		result = file_read(reading, entry->d_name, &error);
		if (result && !files_is_bad(result))
			return result; /* what is merely not read must not count as missing */
		if (result)
			log_error("\"%s\" of \"%s\" left out: %s", entry->d_name, collection->key, error.text);
		collection->refused += result != 0;
	}
	return errno ? -errno : entries_place(reading);
}

int job_files_read(struct spool *spool, struct job_files *collection, struct error *error)
{
	struct reading reading = {.collection = collection};
	int result;

	spool_enter(spool);
	result = directory_read(&reading);
	spool_leave(spool);
	reading_free(&reading);
	return result ? error_set(error, result, "\"%s\": %s", collection->key, strerror(-result)) : 0;
}
