/* Node lists, expanded by libslurm. Only in mpi-wait-node: the plugin does not link libslurm. */
#pragma once

#include <stddef.h>

struct nodelist;

/*
 * Returns the nodes of a list such as "n[1-4]", for nodelist_free to free. NULL: no node list, an empty one, or one of
 * more nodes than Slurm can have.
 */
struct nodelist *nodelist_new(const char *text);
/* Frees the list, which may be NULL. */
void nodelist_free(struct nodelist *list);

/* Returns the number of nodes in the list. */

int nodelist_count(const struct nodelist *list);

/* Returns how many nodes the text names, with the first one's name in buffer; 0 with "" if it is no node list. */
int nodelist_first(const char *text, char *buffer, size_t size);

/* Returns how many of the nodes that the text names are in the list; -1: the text is no node list. */
int nodelist_shared(const struct nodelist *list, const char *text);

/* Returns the node's index in the list, from 0 on; -1: it is not there. */
int nodelist_find(const struct nodelist *list, const char *node);
