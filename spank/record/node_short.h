/* A node's record that is longer than its part of what a job may take of the spool: less of its steps. Pure. */
#ifndef MPIWAIT_SPANK_RECORD_NODE_SHORT_H
#define MPIWAIT_SPANK_RECORD_NODE_SHORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* How long the record of one of so many nodes may be: a part of 256 MiB, from 64 KiB to NODE_RECORD_MAX. */
size_t node_short_most(uint32_t nodes);

/*
 * Takes details from the steps, then the last steps, until the record is at most so long, and counts what went. The
 * text is the caller's to free. NULL only without memory.
 */
char *node_short_print(json_t *record, size_t most);

#endif
