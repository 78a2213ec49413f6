/*
 * Record: merges the records of a job's nodes into the line that sacct shows of the job. Pure.
 *
 * The line is one JSON object that validates against record.schema.json. It has at most RECORD_MAX bytes: slurmdbd's
 * column holds 65 535 and cuts longer text silently. A record that would be longer loses details in this order:
 *   1. how long each rank slept, then on which node it ran
 *   2. how long each rank waited; quantiles and extremes take its place
 *   3. message sizes, and all but the 256, 64, 16 steps that waited most
 *   4. all steps (their sum stays), and functions beyond the first 8
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/record/parse.h"

#define RECORD_MAX 60000

/* The record of one job. {0} is an empty one. */
struct record {
	json_t *json;
	char *line;
	double joules; /* the job's energy in joules; negative: unknown for some node */
};

/*
 * Merges the records of `count` >= 1 nodes of one job, in the order of its node list. The job has `nodes_of` nodes;
 * `why` says why the others are missing (may be NULL). The caller frees *ret_record with record_free. Returns 0,
 * -EINVAL or -ENOMEM.
 */
int record_merge(const struct record_node *const nodes[], size_t count, uint32_t nodes_of, const char *why,
                 struct record *ret_record, struct error *error);

/* Frees what *record holds, and empties it. */
void record_free(struct record *record);

#define cleanup_record __attribute__((cleanup(record_free)))

/* Returns true if an MPI rank was seen on any of the nodes. */
bool record_has_ranks(const struct record_node *const nodes[], size_t count);

/* Returns the seconds from the first node's begin to the last node's end. count >= 1. */
double record_elapsed_s(const struct record_node *const nodes[], size_t count);

/*
 * Puts the record into the text that a field of the job holds, as member "mpi_wait" of its JSON object. An empty field
 * gets the record's line. *ret_text is the caller's to free. Returns 0, or
 *   -EEXIST    the field holds somebody else's text, which must stay
 *   -EALREADY  the record in the field covers more nodes, or as many of a job of at least as many nodes
 *   -EFBIG     the result does not fit
 *   -ENOMEM
 */
int record_combine(const char *held, const struct record *record, char **ret_text);
