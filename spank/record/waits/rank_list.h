/*
 * The list of a record's ranks, and of the worlds that they are in: ranks.h reads, writes and prints the ones, worlds.h
 * the others. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_RANK_MAX  ((1 << 24) - 1)
#define RECORD_US_MAX    INT64_C(1000000000000000000) /* of a sum of waits */
#define WORLD_LAUNCH_MAX INT64_C(0xffffffffffff)      /* what is kept of a launch's number */
#define WORLD_NONE       UINT32_MAX                   /* the world of a rank that a node has not listed */

/* SINGLETONS: programs of one rank each, that nobody launched as one. UNKNOWN: may be several. */
enum world_kind { WORLD_LAUNCHED, WORLD_SINGLETONS, WORLD_UNKNOWN };

struct record_world {
	uint64_t launch;
	uint32_t size;  /* 0: not known */
	uint32_t index; /* place in its node's table, first of all in the job's */
	uint32_t node;
	uint32_t step;  /* index of the first step in the job's */
	uint32_t place; /* where it went when the job's were put in order */
	double ranks;
	enum world_kind kind;
	bool spans;    /* its ranks came by several steps */
	bool by_task;  /* a rank's number is that of its Slurm task */
	bool numbered; /* all numbers are known, and no two alike but those of tasks */
	bool whole;    /* numbers are 0, 1, ... without a gap */
	size_t first;  /* place of its first rank in the job's list */
	size_t listed; /* how many of its ranks are there */
};

struct record_rank {
	int32_t rank;   /* -1: not known */
	uint32_t node;  /* index of the node, in the job's */
	uint32_t step;  /* index of the step, in the job's */
	uint32_t world; /* index of its world, in the step's on a node or the job's; WORLD_NONE: not known */
	int32_t task;   /* of Slurm's, -1: not known */
	int32_t number; /* under which it is shown, in its world */
	double wait_s;
	double asleep_s;
};

/* The ranks of one step on one node, or summed over a step or a job. */
struct record_ranks {
	size_t count; /* the job's: step after step, each by rank; by rank alone where one world is there whole */
	struct record_rank *rank;
	size_t world_count;
	struct record_world *world;
	bool worldless; /* some nodes do not tell worlds */
	bool several;   /* worlds are to be told: record_worlds_settle */
	bool apart; /* of these, or of ranks whose world is not known, there are several: numbers alone say nothing */
	double omitted; /* ranks that are in the sums but not in the list */
	double wait_s;  /* of one step on one node: of those that are omitted; else of all */
	double asleep_s;
	struct record_rank min;
	struct record_rank max;
};

/* Names by the indexes in struct record_rank. */
struct record_names {
	const char **node;
	const char **step; /* NULL: not to be told, there is one only */
	bool ranks_apart;  /* ranks are of several worlds: a rank's number alone says nothing */
};

/* How many, listed or not. */
static inline double record_ranks_count(const struct record_ranks *ranks)
{
	return (double)ranks->count + ranks->omitted;
}
