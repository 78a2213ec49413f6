#include "spank/store/job_entries.h"

#include "spank/base/memory.h"
#include "spank/store/nodelist.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_OUT SIZE_MAX /* instead of a list's index: the entry is in none of the job's lists */

void job_entries_free(struct job_entries *entries)
{
	for (size_t i = 0; i < entries->count + entries->left_out; i++)
		record_node_free(entries->entry[i].node);
	for (size_t i = 0; i < entries->list_count; i++) {
		nodelist_free(entries->list[i].names);
		free(entries->list[i].text);
	}
	free(entries->entry);
	free(entries->node);
}

/*
 * Finds the node's list among the entries' lists, or adds it. node->nodes then points to the entries' copy of the text;
 * the old text stays with the node's JSON. Returns 0 with the list's index, -EINVAL (too many lists) or -ENOMEM.
 */
static int list_find_or_add(struct job_entries *entries, struct record_node *node, size_t *ret_list,
                            struct error *error)
{
	size_t i = 0;

	while (i < entries->list_count && strcmp(entries->list[i].text, node->nodes) != 0)
		i++;
	if (i == JOB_LISTS)
		return error_set(error, -EINVAL, "too many different node lists");
	if (i == entries->list_count) {
		entries->list[i] = (struct job_list){.text = strdup(node->nodes), .names = nodelist_new(node->nodes)};
		entries->list_count++;
	}
	if (!entries->list[i].text)
		return -ENOMEM;
	node->nodes = entries->list[i].text;
	*ret_list = i;
	return 0;
}

int job_entries_add(struct job_entries *entries, struct record_node *node, struct error *error)
{
	struct job_entry entry = {.node = node, .index = -1}, *bigger;
	int result = list_find_or_add(entries, node, &entry.list, error);

	if (result)
		return result;
	bigger = memory_more(entries->entry, entries->count, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	if (entries->list[entry.list].names)
		entry.index = nodelist_find(entries->list[entry.list].names, node->node);
	entries->entry = bigger;
	entries->entry[entries->count++] = entry;
	return 0;
}

/*
 * Returns the most credible entry, or NULL. Only entries count whose node is in its own list (in_list), or which know
 * when the job began (else). A first node of a list goes before the others; of several, the one that ended last wins,
 * because a job ends earlier on nodes that it gives back.
 */
static const struct job_entry *entry_best(const struct job_entries *entries, bool in_list)
{
	const struct job_entry *best = NULL;

	for (size_t i = 0; i < entries->count; i++) {
		const struct job_entry *entry = &entries->entry[i];

		if (in_list ? entry->index < 0 : entry->node->run.timeless)
			continue;
		if (!best || ((entry->index == 0) != (best->index == 0) ? entry->index == 0
		                                                        : entry->node->end_s > best->node->end_s))
			best = entry;
	}
	return best;
}

/* Sorts by list, the chosen list (0) first and LEFT_OUT last, and within a list by the node's index. */
static int entry_compare(const void *left, const void *right)
{
	const struct job_entry *a = left, *b = right;

	if (a->list != b->list)
		return a->list < b->list ? -1 : 1;
	return (a->index > b->index) - (a->index < b->index);
}

/* Returns how many nodes of `other` are in `list` too, or a negative number, and sets starved, without memory. */
static int nodes_shared(struct job_entries *entries, size_t list, size_t other)
{
	int count = nodelist_shared(entries->list[list].names, entries->list[other].text);

	entries->starved |= count < 0;
	return count;
}

/* Returns the index of the longest list that names all nodes of this one and more, or -1. */
static int list_wider(struct job_entries *entries, size_t narrow)
{
	char first[RECORD_NODE_NAME_MAX];
	int count = nodelist_first(entries->list[narrow].text, first, sizeof(first)), most = count, widest = -1;

	entries->starved |= count == 0;
	for (size_t i = 0; i < entries->list_count; i++) {
		const struct nodelist *names = entries->list[i].names;

		if (names && nodelist_count(names) > most && nodelist_find(names, first) >= 0) {
			most = nodelist_count(names);
			widest = (int)i;
		}
	}
	return widest >= 0 && nodes_shared(entries, (size_t)widest, narrow) == count ? widest : -1;
}

/* Marks the entries that are of the run, and widens the run by their times. Returns true if any were added. */
static bool run_widen(const struct job_entries *entries, struct job_run *run)
{
	bool more = false;

	for (size_t i = 0; i < entries->count; i++) {
		struct job_entry *entry = &entries->entry[i];
		const struct job_run *other = &entry->node->run;

		if (entry->is_of_run || !run_is_same(run, other))
			continue;
		entry->is_of_run = more = true;
		run->start_s = other->timeless ? run->start_s : fmin(run->start_s, other->start_s);
		run->end_s = other->timeless ? run->end_s : fmax(run->end_s, other->end_s);
	}
	return more;
}

/* Frees the entries of other runs than the most credible entry's. Their files stay for the process that reads next. */
static void runs_split(struct job_entries *entries)
{
	const struct job_entry *best = entry_best(entries, false);
	struct job_run run;
	size_t count = entries->count;

	if (!best)
		return;
	run = best->node->run;
	while (run_widen(entries, &run))
		;
	entries->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (entries->entry[i].is_of_run)
			entries->entry[entries->count++] = entries->entry[i];
		else
			record_node_free(entries->entry[i].node);
	}
	entries->others = count - entries->count;
}

/* Returns true if a node's record has that list. With `first`, only the record of the list's first node counts. */
static bool list_has_entry(const struct job_entries *entries, size_t list, bool first)
{
	for (size_t i = 0; i < entries->count; i++)
		if (entries->entry[i].list == list && (!first || entries->entry[i].index == 0))
			return true;
	return false;
}

/* Moves the entries of a narrow list to a wider one, and drops the narrow list. */
static void entries_move(struct job_entries *entries, size_t narrow, size_t wide)
{
	for (size_t i = 0; i < entries->count; i++) {
		struct job_entry *entry = &entries->entry[i];

		if (entry->list != narrow || entry->index < 0)
			continue;
		entry->list = wide;
		entry->index = nodelist_find(entries->list[wide].names, entry->node->node);
		entry->node->nodes = entries->list[wide].text;
	}
	nodelist_free(entries->list[narrow].names);
	entries->list[narrow].names = NULL;
}

/*
 * Replaces narrow lists by wider ones that name all their nodes and more: with of_one, lists of one node, else those of
 * several. A node that aborts the job, such as one that was lost and is back, is told by slurmctld that the job has
 * this node only. So a list of one node always gives way. A list of several nodes gives way only if the record of the
 * wider list's first node has the wider list: else one forged file could make any job larger.
 */
static void narrow_lists_replace(struct job_entries *entries, bool of_one)
{
	for (size_t i = 0; i < entries->list_count; i++) {
		int wide;

		if (!entries->list[i].names || (nodelist_count(entries->list[i].names) == 1) != of_one)
			continue;
		wide = list_wider(entries, i);
		if (wide >= 0 && (of_one || list_has_entry(entries, (size_t)wide, true)))
			entries_move(entries, i, (size_t)wide);
	}
}

/*
 * Decides which lists count, and sums up their nodes: the chosen list, and lists that have no node in common with it,
 * which are those of nodes that the job gave back.
 */
static void lists_judge(struct job_entries *entries, size_t chosen)
{
	for (size_t i = 0; i < entries->list_count; i++) {
		struct job_list *list = &entries->list[i];

		list->counts = i == chosen || (list->names && list_has_entry(entries, i, false) &&
		                               nodes_shared(entries, chosen, i) == 0);
		if (list->counts)
			entries->nodes_of += (uint32_t)nodelist_count(list->names);
	}
}

int job_entries_judge(struct job_entries *entries)
{
	const struct job_entry *best;
	size_t chosen;

	runs_split(entries);
	narrow_lists_replace(entries, true);
	narrow_lists_replace(entries, false);
	best = entry_best(entries, true);
	chosen = best ? best->list : 0;
	if (best)
		lists_judge(entries, chosen);
	entries->node = calloc(entries->count + 1, sizeof(*entries->node));
	if (!entries->node || entries->starved)
		return -ENOMEM; /* lists that could not be compared must not count as another job's */
	for (size_t i = 0; i < entries->count; i++) {
		struct job_entry *entry = &entries->entry[i];
		bool belongs = entry->index >= 0 && entries->list[entry->list].counts;

		entry->list = !belongs ? LEFT_OUT : entry->list == chosen ? 0 : entry->list + 1;
		entries->left_out += !belongs;
	}
	if (entries->count > 0)
		qsort(entries->entry, entries->count, sizeof(*entries->entry), entry_compare);
	entries->count -= entries->left_out;
	for (size_t i = 0; i < entries->count; i++)
		entries->node[i] = entries->entry[i].node;
	entries->has_first = entries->count > 0 && entries->entry[0].list == 0 && entries->entry[0].index == 0;
	return 0;
}
