/*
 * Notice: one line for the user whose policy is not what runs, or is not loaded. It is written by the step's first task
 * before its exec, on its own standard error, which srun prints. Nobody gets it for a policy of the site's.
 */
#pragma once

#include <stdbool.h>

#include "spank/plugin/inject.h"
#include "spank/policy/policy.h"

#define NOTICE_MAX 512

/* Makes the line, with its newline. Returns false if there is nothing to say. */
bool notice_make(const struct policy_use *use, enum inject_hindrance hindrance, char ret_line[NOTICE_MAX]);

/* Writes the line, if there is one. */
void notice_give(const struct policy_use *use, enum inject_hindrance hindrance);
