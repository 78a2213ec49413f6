#include "spank/store/nodelist.h"

#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>

/* Slurm's own type is a pointer in some releases and a struct in others. */
struct nodelist {
	void *hosts;
};

struct nodelist *nodelist_new(const char *text)
{
	struct nodelist *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	list->hosts = text[0] ? slurm_hostlist_create(text) : NULL;
	if (!list->hosts || nodelist_count(list) <= 0) {
		nodelist_free(list);
		return NULL;
	}
	return list;
}

void nodelist_free(struct nodelist *list)
{
	if (!list)
		return;
	if (list->hosts)
		slurm_hostlist_destroy(list->hosts);
	free(list);
}

int nodelist_count(const struct nodelist *list)
{
	return slurm_hostlist_count(list->hosts);
}

char *nodelist_shift(struct nodelist *list)
{
	return slurm_hostlist_shift(list->hosts);
}

int nodelist_first(const char *text, char *buffer, size_t size)
{
	struct nodelist *list = nodelist_new(text);
	int count = list ? nodelist_count(list) : 0;
	char *name = list ? nodelist_shift(list) : NULL;

	snprintf(buffer, size, "%s", name ? name : "");
	free(name);
	nodelist_free(list);
	return count;
}

int nodelist_find(const struct nodelist *list, const char *node)
{
	return slurm_hostlist_find(list->hosts, node);
}
