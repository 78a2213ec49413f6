/*
 * Reads the meters in a process apart: no process of Slurm's hangs with a driver, or crashes with a driver's library.
 *
 * The process is mpi-wait-node, started without a variable of anybody's environment, so that the loader takes a
 * driver's library from the system's own directories.
 */
#pragma once

#include "spank/energy/meters.h"

#define METERS_ALARM_S 3 /* the process ends itself after so long, as soon as the kernel lets it */

struct meters_wanted {
	const char *sources; /* as the site names them, "": all */
	bool gpus;           /* else no device is asked */
};

/*
 * Asks such a process, under the lock <directory>/meters.lock, so that of a node with a driver that hangs one process
 * hangs. Waits for a second for the lock and for four for the answer. Where there is none, count is 0 and why says so.
 * Where the node has none that is wanted, by what is there without asking a driver, no process is started.
 */
void meters_ask(int directory, const struct meters_wanted *wanted, struct meters *ret_meters);
