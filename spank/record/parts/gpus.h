/*
 * Graphics processors in records: the energy of the devices that Slurm gave the job, by their own counters (meters.h).
 * Written by a node, read, added up over nodes, printed for the job. Pure.
 *
 * A node writes {"given", "counted", "present", "uj", "source", "why", "devices": [[number, name, uj], ...]}; nothing
 * if Slurm gave the job none.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/meters.h"

#define RECORD_GPUS_LIST_MAX 256     /* bytes of a list of devices, "0-3,8", with its NUL */
#define RECORD_GPUS_PARTS    "parts" /* instead of a list: Slurm gave the job parts of devices (gres/mps, gres/shard) */
#define RECORD_GPUS_SHOWN    16      /* devices that a record lists */

/* Counters of one node at the job's begin and end there. */
struct gpus_window {
	const char *list; /* Slurm's numbers of the job's devices, or RECORD_GPUS_PARTS; "": none */
	const struct meters *from;
	const struct meters *to;
	uint32_t present; /* number of devices in the node */
	bool simulated;
};

/* The GPUs of one node, or of a job. Zeros: none. */
struct record_gpus {
	double given;   /* devices that Slurm gave the job */
	double counted; /* given devices whose energy is in joules */
	double present; /* devices in the nodes that gave the job some */
	double joules;
	const char *source;       /* a name that gpus.c owns; NULL: nothing was read */
	char why[METERS_WHY_MAX]; /* why some did not count, from the first node that says so */
	json_t *devices;          /* list of devices as it is printed; NULL: none */
};

/* Returns true if the job has devices and each of them counts. json: a node's "gpus". */
bool record_gpus_are_counted(const json_t *json);

/* Returns a node's "gpus"; NULL if Slurm gave the job none, or without memory. */
json_t *record_gpus_write(const struct gpus_window *window);

/*
 * Reads the "gpus" of node `node`, hostile input; absent is none. *ret_gpus must be zeroed, and is freed with
 * record_gpus_free in any case. Returns true if a node can have written it.
 */
bool record_gpus_read(const json_t *json, const char *node, struct record_gpus *ret_gpus);

/* Frees what *gpus holds, but not *gpus itself. */
void record_gpus_free(struct record_gpus *gpus);

/* Adds the GPUs of a node to *sum, which keeps references to its devices. */
void record_gpus_add(struct record_gpus *sum, const struct record_gpus *from);

/*
 * Adds the job's devices to its energy, takes over `energy` and returns it. If `energy` is null, as on nodes without
 * other counters, and a device counts, the result is an energy of scope "gpus".
 */
json_t *record_gpus_print(const struct record_gpus *sum, json_t *energy);
