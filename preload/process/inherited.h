/*
 * Inherited: finds the descriptors that the task was given, in any process below it.
 *
 * A descriptor's number proves nothing: a shell or a launcher between slurmstepd and the rank may have closed it and
 * opened something else. Device and inode do. The library checks the descriptor's own number and its spare one
 * (contract/config_format.h). A process that has neither opens it again through the task, by the same two numbers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/config_format.h"

/* A descriptor that the task was given. */
struct inherited {
	int number; /* -1: none */
	uint64_t device;
	uint64_t inode;
	int32_t task; /* the task's process, 0: unknown */
	int flags;    /* O_RDONLY or O_RDWR, to open it again with */
};

/*
 * Finds the descriptor. Returns it, or -1. An inherited one is set close-on-exec and stays the process's. If
 * *ret_opened is true, it was opened again and is the caller's to close. errno may change.
 */
int inherited_find(const struct inherited *inherited, bool *ret_opened);
