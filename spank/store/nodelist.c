#include "spank/store/nodelist.h"

#include <slurm/slurm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MOST 131072 /* nodes of a list that is expanded: twice as many as Slurm can have */

/* Returns libslurm's hostlist, as a void pointer: its type differs between releases. */
static void *hosts_of(const struct nodelist *list)
{
	return (void *)list;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns how many numbers "0-3,8]" names, or more than NODES_MOST. Moves *at behind the bracket. */
static uint64_t numbers_count(const char **at)
{
	uint64_t count = 0;

	while (**at && **at != ']') {
		char *end;
		uint64_t low = strtoull(*at, &end, 10), high = *end == '-' ? strtoull(end + 1, &end, 10) : low;

		count += high > low ? least(high - low, NODES_MOST) + 1 : 1;
		*at = end + strcspn(end, ",]");
		*at += **at == ',';
	}
	*at += **at == ']';
	return least(count, NODES_MOST + 1);
}

/*
 * Returns true if the list names at most NODES_MOST nodes. libslurm would expand "n[0-65535][0-99][0-99]" in memory,
 * and a list may be forged.
 */
static bool is_bounded(const char *text)
{
	uint64_t sum = 0, product = 1;

	while (*text && sum + product <= NODES_MOST) {
		char letter = *text++;

		if (letter == '[') {
			product = least(product * numbers_count(&text), NODES_MOST + 1);
		} else if (letter == ',') {
			sum += product;
			product = 1;
		}
	}
	return sum + product <= NODES_MOST;
}

struct nodelist *nodelist_new(const char *text)
{
	void *hosts = text[0] && is_bounded(text) ? slurm_hostlist_create(text) : NULL;

	if (!hosts || slurm_hostlist_count(hosts) > 0)
		return hosts;
	slurm_hostlist_destroy(hosts);
	return NULL;
}

void nodelist_free(struct nodelist *list)
{
	if (list)
		slurm_hostlist_destroy(hosts_of(list));
}

int nodelist_count(const struct nodelist *list)
{
	return slurm_hostlist_count(hosts_of(list));
}

int nodelist_first(const char *text, char *buffer, size_t size)
{
	struct nodelist *list = nodelist_new(text);
	int count = list ? nodelist_count(list) : 0;
	char *name = list ? slurm_hostlist_shift(hosts_of(list)) : NULL;

	snprintf(buffer, size, "%s", name ? name : "");
	free(name);
	nodelist_free(list);
	return count;
}

int nodelist_shared(const struct nodelist *list, const char *text)
{
	struct nodelist *others = nodelist_new(text);
	int count = others ? 0 : -1;
	char *name;

	while (others && (name = slurm_hostlist_shift(hosts_of(others)))) {
		count += nodelist_find(list, name) >= 0;
		free(name);
	}
	nodelist_free(others);
	return count;
}

int nodelist_find(const struct nodelist *list, const char *node)
{
	return slurm_hostlist_find(hosts_of(list), node);
}
