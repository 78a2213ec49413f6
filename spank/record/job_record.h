/*
 * Record: what sacct shows of a job, made of its nodes' records. Pure.
 *
 * One line of JSON that validates against record.schema.json and is at most RECORD_MAX bytes, because the column is
 * 65 535 and cut silently. Where it would be longer, detail goes in this order: how long each rank slept, on which node
 * it ran, how long each rank waited (quantiles and extremes instead), message sizes and all but the 256, 64, 16 steps
 * that waited most, all steps (their sum instead), functions beyond the first 8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/record/node.h"

#define RECORD_MAX 60000

/* A job's record, made. {0} is none. */
struct record {
	json_t *json;
	char *line;
	double joules; /* of the job; negative: not all nodes' are known */
};

/*
 * Merges the records of count >= 1 nodes of one job of nodes_of nodes, in the order of its node list. why (may be NULL)
 * says what became of the others. Freed by record_free. Returns 0, -EINVAL or -ENOMEM.
 */
int record_merge(const struct record_node *const nodes[], size_t count, uint32_t nodes_of, const char *why,
                 struct record *ret_record, struct error *error);
void record_free(struct record *record);

#define cleanup_record __attribute__((cleanup(record_free)))

/* Whether any of the nodes saw an MPI rank, and the time from the first begin to the last end. */
bool record_has_ranks(const struct record_node *const nodes[], size_t count);
double record_elapsed_s(const struct record_node *const nodes[], size_t count);

/*
 * Puts our record into what a field of the job holds already. Empty: the record; a JSON object: the object with our
 * key "mpi_wait" set; -EEXIST: somebody else's text, to be left alone; -EALREADY: the record that is there is of more
 * nodes, or of as many of a job of at least as many; -EFBIG: the result would not fit. *ret_text is the caller's to
 * free.
 */
int record_combine(const char *held, const struct record *record, char **ret_text);
