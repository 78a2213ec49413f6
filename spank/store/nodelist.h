/* A job's node list, expanded by Slurm's own library: only in mpi-wait-node, because the plugin does not link it. */
#pragma once

#include <stddef.h>

struct nodelist;

/* NULL where the text is no node list, or names nobody. */
struct nodelist *nodelist_new(const char *text);
void nodelist_free(struct nodelist *list);

int nodelist_count(const struct nodelist *list);

/* How many nodes a text names, 0 where it is no node list; the first one's name goes into buffer. */
int nodelist_first(const char *text, char *buffer, size_t size);

/* How many of the nodes that a text names are in the list, or -1 where the text is no node list. */
int nodelist_shared(const struct nodelist *list, const char *text);

/* The node's place in the list, from 0, or -1. */
int nodelist_find(const struct nodelist *list, const char *node);
