#include "spank/store/nodelist.h"

#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns libslurm's hostlist, as a void pointer: its type differs between releases. */
static void *hosts_of(const struct nodelist *list)
{
	return (void *)list;
}

struct nodelist *nodelist_new(const char *text)
{
	void *hosts = text[0] ? slurm_hostlist_create(text) : NULL;

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
