/*
 * Reserved: a node's specialised cores (CoreSpecCount, CpuSpecList), which slurm.conf keeps from all jobs.
 *
 * slurmd reads the same file. No job can have these cores, so that a job with all others has the whole node. Reserved
 * memory (MemSpecLimit) is ignored: no share goes by memory.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#define RESERVED_LIST_MAX 1024

/* The reserved cores of a node, as slurm.conf has them. */
struct reserved {
	uint32_t core_count;          /* CoreSpecCount=, 0: none */
	char cpus[RESERVED_LIST_MAX]; /* CpuSpecList=, "": none; goes before core_count */
	uint32_t node_cpus;           /* CPUs=, 0: not given */
	uint32_t cores_per_socket;    /* CoresPerSocket=, 1 if not given, as in Slurm */
	uint32_t threads_per_core;    /* ThreadsPerCore=, 1 if not given */
	bool first;                   /* spec_cores_first: count from each socket's first core on, not from its last */
};

/*
 * Reads from slurm.conf, and the files that it includes, what is reserved on the node. Returns false if they do not
 * name the node, as with a dynamic one, which has nothing reserved as far as is known.
 */
bool reserved_read(const char *path, const char *node, struct reserved *ret_reserved);

/* Returns true if the list of names, "a,c[1-4,07-09]", contains the node. Pure. */
bool reserved_names(const char *list, const char *node);

/* Finds the reserved cores of a node with `cores` cores, by the rules of slurmd and slurmctld. Pure. */
void reserved_cores(const struct reserved *reserved, unsigned cores, hwloc_bitmap_t ret_cores);
