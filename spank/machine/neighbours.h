/*
 * Neighbours: the CPUs that other jobs have on this node (occupants.h). A core that two jobs have must not be slowed
 * down for the wait of one.
 *
 * One step checks the node for all steps, and writes the result to a file in the node's state directory.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"

struct neighbours; /* NULL: no other job has a CPU; all functions but neighbours_share take it */

/*
 * Starts a thread that finds the job's neighbours. A check takes some 20 us per process of the node, too long for the
 * end of a wait. Returns 0, with *ret_neighbours to be freed by neighbours_end, or -errno.
 */
int neighbours_start(uint32_t job_id, struct neighbours **ret_neighbours, struct error *error);

/*
 * Shares checks with the node's other steps through the node's state directory, whose descriptor is copied. Before this
 * call, or if it fails, the step checks for itself.
 */
void neighbours_share(struct neighbours *neighbours, int node_directory);

/*
 * Notes, in the node's state directory, the PID namespace of this process, a prolog, which sees all processes of the
 * node.
 */
void neighbours_note_namespace(int node_directory);

/*
 * Returns false if this process runs in another PID namespace than the noted one: other jobs' processes are hidden from
 * it.
 */
bool neighbours_are_seen(const struct neighbours *neighbours);

/*
 * Prepares for a step that begins on these CPUs. Takes another step's result of the last second if it shows all of them
 * free; otherwise checks at once, because a job that had them may have ended.
 */
void neighbours_meet(struct neighbours *neighbours, hwloc_const_bitmap_t cpus);

/*
 * Returns true if another job has one of these CPUs by the latest result, or if that is unknown, and asks the thread
 * for a new check. All steps of the node together check at most once a second; if a check takes more than 50 ms, they
 * spend at most a twentieth of the time on it.
 */
bool neighbours_ask(struct neighbours *neighbours, hwloc_const_bitmap_t cpus);

/* Stops the thread, ending a check in progress, and frees. */
void neighbours_end(struct neighbours *neighbours);
