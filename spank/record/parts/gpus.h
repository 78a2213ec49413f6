/*
 * Graphics processors in records: the energy of those that Slurm gave the job, by counters of their own (meters.h).
 * Written by a node, read, added up over nodes, printed in the job's. Pure.
 *
 * A node's: {"given", "counted", "present", "uj", "source", "why", "devices": [[number, name, uj], ...]}, absent where
 * Slurm gave the job none.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/meters.h"

#define RECORD_GPUS_LIST_MAX 256 /* bytes of a list of devices, "0-3,8", its NUL included */
#define RECORD_GPUS_SHOWN    16  /* devices that a record names */

/* The counters of one node at the job's begin and end there. */
struct gpus_window {
	const char *list; /* Slurm's numbers of the job's devices, "": none */
	const struct meters *from;
	const struct meters *to;
	uint32_t present; /* how many devices the node has */
	bool simulated;
};

/* The GPUs of one node, or of a job. Zeros: none. */
struct record_gpus {
	double given;   /* devices that Slurm gave the job */
	double counted; /* those of them whose energy is in joules */
	double present; /* devices of these nodes */
	double joules;
	const char *source;       /* a name of gpus.c's own; NULL: nothing was read */
	char why[METERS_WHY_MAX]; /* why some were not counted, of the first node that says so */
	json_t *devices;          /* as they are printed, NULL: none */
};

/* Returns true if each device of the job's counts, and there is one. */
bool record_gpus_are_counted(const json_t *json);

/* NULL: Slurm gave the job none, or no memory. */
json_t *record_gpus_write(const struct gpus_window *window);

/* From "gpus" of that node, hostile input; absent: none. Returns whether it is what a node writes; zeros before. */
bool record_gpus_read(const json_t *json, const char *node, struct record_gpus *ret_gpus);
void record_gpus_free(struct record_gpus *gpus);

void record_gpus_add(struct record_gpus *sum, const struct record_gpus *from);

/*
 * Adds what there is to the job's energy, which is taken and returned. null, from nodes without other counters, becomes
 * an energy of scope "gpus" where a device counts.
 */
json_t *record_gpus_print(const struct record_gpus *sum, json_t *energy);
