/*
 * Descriptors that the task was given, found again in any process below it.
 *
 * A number proves nothing: a shell or a launcher between slurmstepd and the rank may have closed it and opened
 * something else there. Device and inode do. The library looks at the descriptor's own number and at its spare one
 * (contract/config_format.h). A process that has neither opens it again through the task, by the same two numbers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/config_format.h"

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
