/* The lists of a record's ranks and of their worlds. ranks.h reads, writes and prints ranks, worlds.h worlds. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_RANK_MAX  ((1 << 24) - 1)
#define RECORD_US_MAX    INT64_C(1000000000000000000) /* bound of a sum of waits, in us */
#define WORLD_LAUNCH_MAX INT64_C(0xffffffffffff)      /* the kept bits of a launch's number */
#define WORLD_NONE       UINT32_MAX                   /* world of a rank whose node did not list it */

/* How ranks of a world belong together. */
enum world_kind {
	WORLD_LAUNCHED,   /* one MPI_COMM_WORLD */
	WORLD_SINGLETONS, /* programs of one rank each, not launched as one */
	WORLD_UNKNOWN,    /* may be several worlds */
};

/* A world, or the part of it that one node's step knows. */
struct record_world {
	uint64_t launch; /* the same number on all nodes of a world, 0: unknown */
	uint32_t size;   /* ranks of its MPI_COMM_WORLD, 0: unknown */
	uint32_t index;  /* index in its node's table, in a job's list that of its first part */
	uint32_t node;   /* index of the first node, in the job's */
	uint32_t step;   /* index of the first step, in the job's */
	uint32_t former; /* index before the job's worlds were sorted */
	double ranks;    /* ranks seen */
	enum world_kind kind;
	bool spans;    /* several steps started its ranks */
	bool by_task;  /* its ranks are numbered by Slurm's tasks */
	bool numbered; /* all numbers are known and differ, but for those of tasks */
	bool whole;    /* numbers are 0, 1, 2, ... without a gap */
	size_t first;  /* index of its first rank in the job's list */
	size_t listed; /* number of its ranks in the job's list */
};

/* A rank and its wait. */
struct record_rank {
	int32_t rank;   /* rank in MPI_COMM_WORLD, -1: unknown */
	uint32_t node;  /* index of the node, in the job's */
	uint32_t step;  /* index of the step, in the job's */
	uint32_t world; /* index of its world, in the step's table on a node or in the job's; WORLD_NONE: unknown */
	int32_t task;   /* Slurm's task, -1: unknown */
	int32_t number; /* number that it is shown under, in its world */
	double wait_s;
	double asleep_s;
};

/* Ranks of one step on one node, or summed over a step or a job. */
struct record_ranks {
	size_t count; /* ranks in the list; a job's are sorted by step and rank, or by rank if one world is complete */
	struct record_rank *rank;
	size_t world_count;
	struct record_world *world;
	bool worldless;         /* some nodes did not write worlds */
	bool several;           /* the record must show worlds (record_worlds_settle) */
	bool apart;             /* a rank's number alone is ambiguous: several worlds, or ranks of unknown ones */
	double omitted;         /* ranks in the sums, but not in the list */
	double wait_s;          /* summed wait; on a node only that of omitted ranks */
	double asleep_s;        /* the part of wait_s that was slept */
	struct record_rank min; /* the rank that waited least */
	struct record_rank max; /* the rank that waited most */
};

/* Names of nodes and steps, by the indexes in struct record_rank. */
struct record_names {
	const char **node;
	const char **step; /* NULL: the job has one step, which needs no name */
	bool ranks_apart;  /* see record_ranks.apart */
};

/* Returns the number of ranks, listed or omitted. */
static inline double record_ranks_count(const struct record_ranks *ranks)
{
	return (double)ranks->count + ranks->omitted;
}
