/*
 * Neighbours: the processes of other jobs on this node, and which CPUs they have (occupants.h). A core that two jobs
 * have is not to be slowed down for the wait of one of them.
 *
 * One step looks for all steps of the node, and notes what it saw in a file of the node's state directory.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"

struct neighbours; /* NULL where one is given: no other job has any CPU */

/*
 * For a job, whose neighbours they are. A look costs some twenty microseconds for each process of the node, which is no
 * time that the end of a wait may take: a thread of its own looks. Returns 0 with *ret_neighbours to be freed by
 * neighbours_end, or negative errno.
 */
int neighbours_start(uint32_t job_id, struct neighbours **ret_neighbours, struct error *error);

/*
 * Shares looks with the other steps of the node, whose state directory that is; its descriptor is copied. Before, or
 * where that cannot be done, each look is this step's own.
 */
void neighbours_share(struct neighbours *neighbours, int node_directory);

/* Notes in that directory the PID namespace in which this process, a prolog, sees all of the node's processes. */
void neighbours_note_namespace(int node_directory);

/* Returns false in another PID namespace than the one that was noted: the processes of other jobs are not seen there.
 */
bool neighbours_are_seen(const struct neighbours *neighbours);

/* Looks at the processes at once, and tells the other steps. */
void neighbours_look(struct neighbours *neighbours);

/*
 * For a step that begins on these CPUs: takes what other steps have seen within a second where that shows none of the
 * CPUs taken; else looks at once, since a job that took them may have ended by now.
 */
void neighbours_meet(struct neighbours *neighbours, hwloc_const_bitmap_t cpus);

/*
 * Whether another job has one of these CPUs, by what was seen last; and has the thread look again. All steps of the
 * node together look once a second at most, and where a look takes longer than 50 ms, for a twentieth of the time. What
 * cannot be told is "yes".
 */
bool neighbours_have(struct neighbours *neighbours, hwloc_const_bitmap_t cpus);

/* Waits for no look. */
void neighbours_end(struct neighbours *neighbours);
