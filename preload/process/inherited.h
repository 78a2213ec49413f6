/*
 * Descriptors that the task was given, found again in any process below it.
 *
 * A number proves nothing: a shell or a launcher between slurmstepd and the rank may have closed it and opened
 * something else there. Device and inode do. Each one is open twice in the task: at its number, and, where the hard
 * limit allows, at a spare one above the usual soft limit of open files, which loops over "all" descriptors do not
 * reach. A process that has neither opens it again through the task, by the same two numbers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define INHERITED_FIRST 200  /* the plugin hands descriptors out from here on: a lower one is somebody else's */
#define INHERITED_SPARE 1000 /* the distance of a descriptor's spare number from its own */

struct inherited {
	int number; /* -1: none was given */
	uint64_t device;
	uint64_t inode;
	int32_t task; /* the task's process, 0: not known */
	int flags;    /* to open it again with: O_RDONLY or O_RDWR */
};

/*
 * Returns a descriptor, or -1. One that was inherited is closed on exec from now on, and stays the process's;
 * *ret_opened says that it was opened anew and is the caller's to close. errno may change.
 */
int inherited_find(const struct inherited *inherited, bool *ret_opened);
