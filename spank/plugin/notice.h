/*
 * Notice: one line for the user whose policy is not what runs, or is not loaded. It is written by the step's first task
 * before its exec, on its own standard error, which srun prints. Nobody gets it for a policy of the site's.
 */
#pragma once

#include "spank/plugin/inject.h"
#include "spank/policy/policy.h"

/* Writes the line, if there is something to say. */
void notice_give(const struct policy_use *use, enum inject_hindrance hindrance);
