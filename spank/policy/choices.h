/*
 * Choices: the policies from which each rank of a step chooses by its own program's name, because the step's command
 * line does not tell which program runs. Pure but for choices_load, which reads the site's file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/policy/policy.h"
#include "spank/policy/programs.h"
#include "spank/policy/site.h"

/* One of the policies. */
struct choice {
	struct policy policy; /* the policy in use on this host, with the options applied */
	struct policy_use use;
	bool profile; /* every call is timed */
};

struct choices {
	struct programs programs;                 /* names, by which ranks choose, and the site's wrappers */
	struct choice choice[CONFIG_CHOICES_MAX]; /* by index of programs.policy */
};

/*
 * Reads the site's file (programs_load) and checks that its policies exist. Returns choices that the caller frees, or
 * NULL with an error.
 */
struct choices *choices_load(const struct site *site, const struct policy_set *set, struct error *error);

/*
 * Takes away the names from the index `end` on, and fills in the policies. Returns true if a rank may choose a policy
 * under which it would not be left alone, or if `acts`, which means that the step's own policy does not leave it alone,
 * any policy.
 */
bool choices_settle(struct choices *choices, size_t end, bool acts, const struct policy_set *set,
                    const struct site *site, const struct policy_support *support);

/*
 * Returns the end of MPI_WAIT_CONFIG that offers the choices, which the caller frees; NULL without memory. shared: the
 * tasks share their cores.
 */
char *choices_flatten(const struct choices *choices, const struct cpu *cpu, bool shared);
