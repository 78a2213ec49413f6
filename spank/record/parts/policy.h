/* What policy was asked for and what came of it, in a node's record and in the job's. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "spank/policy/policy.h"

json_t *record_policy_write(const struct policy_use *use);

/* From an object's "policy", hostile input; one with asked "" is none. Returns whether it is what a node writes. */
bool record_policy_read(const json_t *object, struct policy_use *ret_use);

json_t *record_policy_print(const struct policy_use *use);

/* A reason in words: what a record should not hold is replaced, the record is not refused for it. */
bool record_reason_read(const json_t *object, const char *key, char *buffer, size_t size);
