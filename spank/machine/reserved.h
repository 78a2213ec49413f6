/*
 * Specialised cores (CoreSpecCount, CpuSpecList), which slurm.conf keeps from all jobs on a node.
 *
 * slurmd reads the same file. No job can have these cores, so a job with all others has the whole node. Memory that is
 * kept back (MemSpecLimit) changes nothing here: no share goes by memory.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#define RESERVED_LIST_MAX 1024

struct reserved {
	uint32_t core_count;          /* CoreSpecCount=, 0: none */
	char cpus[RESERVED_LIST_MAX]; /* CpuSpecList=, "": none; it goes before the count */
	uint32_t node_cpus;           /* CPUs=, 0: not said */
	uint32_t cores_per_socket;    /* 1 where it is not said, as in Slurm */
	uint32_t threads_per_core;    /* likewise */
	bool first; /* spec_cores_first: counted from the first core of each socket on, else from the last */
};

/*
 * Reads slurm.conf and the files that it includes for what they say of the node. Returns true if they name it; a node
 * that they do not name (a dynamic one) has nothing reserved as far as is known.
 */
bool reserved_read(const char *path, const char *node, struct reserved *ret_reserved);

/* Returns true if the text is a list of names, "a,c[1-4,07-09]", that has this one. Pure. */
bool reserved_names(const char *list, const char *node);

/* Finds the reserved ones of a node's cores, by the rules by which slurmd and slurmctld choose them. Pure. */
void reserved_cores(const struct reserved *reserved, unsigned cores, hwloc_bitmap_t ret_cores);
