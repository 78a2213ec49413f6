/*
 * Reads the meters in a process of its own, so that no process of Slurm hangs with a driver, or crashes with a driver's
 * library.
 *
 * The process is mpi-wait-node. It starts with an empty environment but for PATH, so that the loader takes a driver's
 * library from the system's directories.
 *
 * A driver takes its time, and many jobs may begin or end at once, each with a GPU. So each answer is kept in
 * <directory>/meters, and serves all who asked before it was begun: however many ask, two readings are enough.
 */
#pragma once

#include "spank/energy/meters.h"

#define METERS_ALARM_S 3 /* seconds until the process ends itself, as soon as the kernel lets it */

/* The meters to read. */
struct meters_wanted {
	const char *sources; /* sources that the site names; "": all */
	bool gpus;           /* ask graphics processors too */
};

/*
 * Reads the wanted meters by a process that holds the lock <directory>/meters.lock: if a driver hangs, only one process
 * of the node hangs with it. Waits up to 3 s for the lock and 4 s for the answer. Without an answer, ret_meters->count
 * is 0 and ret_meters->why says why. No process is started if the node has none of the wanted sources, which is found
 * out without asking a driver.
 */
void meters_ask(int directory, const struct meters_wanted *wanted, struct meters *ret_meters);

/*
 * Reads those counters of GPUs that must be read every few minutes, if that is due (upkeep.h): they were read at a
 * job's begin and in time since then. Returns after 7 s at most.
 */
void meters_keep(int directory);
