/* Policy in records: which one was asked for, which one was used and why, in a node's record and in the job's. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "spank/policy/policy.h"

/* Returns "policy" of a node's record; NULL only without memory. */
json_t *record_policy_write(const struct policy_use *use);

/*
 * Reads the member "policy" of `object`, hostile input; asked "" means none. Returns true if a node can have written
 * it.
 */
bool record_policy_read(const json_t *object, struct policy_use *ret_use);

/* Returns "policy" of the job's record; NULL only without memory. */
json_t *record_policy_print(const struct policy_use *use);

/*
 * Reads a reason in words. Characters that a record should not hold become spaces: a record is not refused for them.
 * Returns false if there is no such string.
 */
bool record_reason_read(const json_t *object, const char *key, char *buffer, size_t size);
