/*
 * Policies: what a rank may do while it waits. Pure but for policy_load and policy_load_apart, which read files.
 *
 * A policy is one JSON file (policies/policy.schema.json). This is its only parser. An unknown key, a wrong type or a
 * number out of range is refused; the message names file and key. The preload library gets the policy as the flat
 * string of preload/contract/config_format.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/contract/stats.h"
#include "spank/base/error.h"
#include "spank/policy/cpu.h"
#include "spank/policy/site.h"

#define POLICY_WHY_MAX     64
#define POLICY_COUNT_MAX   64
#define POLICY_CHOICES_MAX 8
#define POLICY_FLAT_MAX    512 /* bytes of the flat string, its NUL included */

/* Rungs whose deadlines are values of the time-stamp counter. */
#define POLICY_RUNGS_BY_TSC (1u << MPIWAIT_RUNG_UMWAIT | 1u << MPIWAIT_RUNG_MWAITX)

struct policy {
	uint32_t version; /* the file's version */
	char name[POLICY_NAME_MAX];
	char summary[96];
	bool inject;    /* false: the task is left alone ("off") */
	uint32_t rungs; /* a bit for each rung, by enum mpiwait_rung */
	uint32_t needs; /* rungs without which the policy falls back */
	/* The budget of a wait that has lasted w: 0 while w < spin, then min(relative * w + absolute, max). */
	uint32_t spin_ns;
	uint32_t relative_ppm;
	uint32_t absolute_ns;
	uint32_t max_ns;
	uint32_t rma_ns; /* max_ns inside MPI_Win_lock and its relatives, where other ranks may queue behind this one */
	uint32_t slowdown_ppm;     /* ppm of its time by which a rank may be late in all, if waits are forecast */
	enum site_threads threads; /* how a rank's OpenMP threads wait; SITE_THREADS_UNSAID: the file does not say */
	bool polls;                /* nap in loops of the program's own that only test or probe */
	bool ibarrier;             /* an Ibarrier before some collectives; set by the option only */
	bool sites;                /* sum waits by the place in the program that called MPI; set by the option only */
	uint32_t pstate_after_ns;  /* length of a wait from which on the rung pstate is used */
	char choose[POLICY_CHOICES_MAX][POLICY_NAME_MAX]; /* in place of rungs: the first one that the host supports */
	size_t choose_count;
	char fallback[POLICY_NAME_MAX]; /* policy for hosts that lack a rung of needs; "": profile */
};

struct policy_set {
	struct policy policy[POLICY_COUNT_MAX]; /* sorted by name */
	size_t count;
};

/* The rungs that a host supports. */
struct policy_support {
	uint32_t rungs;                 /* a bit for each rung that it supports */
	const char *why[MPIWAIT_RUNGS]; /* by rung, why it is not supported ("no waitpkg"); "": it is */
};

/* The policy that was asked for and the one in use: the record's "policy". */
struct policy_use {
	char asked[POLICY_NAME_MAX];
	char used[POLICY_NAME_MAX];
	char why[POLICY_WHY_MAX]; /* why another one is used; "": the one asked for is */
	char by[8];               /* author of the value: "job", "step", "program" or "site" */
};

/* Parses one policy from JSON text; `name` is the file's name without ".json". Returns 0, -EINVAL or -ENOMEM. */
int policy_parse(const char *text, size_t length, const char *name, struct policy *ret_policy, struct error *error);

/*
 * Reads every *.json of two directories: the site's own ("": none), and the shipped one. A policy of the site's own
 * hides a shipped one of the same name. A directory that does not exist is skipped. Files that cannot be read or parsed
 * are left out, and error names the first one: of all files, or, with `named`, of that policy's only. Always succeeds.
 */
void policy_load(const char *own, const char *shipped, const char *named, struct policy_set *ret_set,
                 struct error *error);

/*
 * As policy_load, for a caller that must not wait for a file server: another process reads the site's own directory and
 * is given two seconds. The shipped directory lies beside the plugin, which Slurm has loaded.
 */
void policy_load_apart(const char *own, const char *shipped, struct policy_set *ret_set, struct error *error);

/* Returns the policy of that name, or NULL. */
const struct policy *policy_find(const struct policy_set *set, const char *name);

/*
 * Follows choose and fallback from `asked` to a policy that the host supports, and fills in asked, used and why of
 * *ret_use. A chain that ends without one ends at "profile", which only measures. Returns the policy, or NULL if
 * `asked` is unknown.
 */
const struct policy *policy_resolve(const struct policy_set *set, const char *asked,
                                    const struct policy_support *support, struct policy_use *ret_use);

/* Finds the rungs that this build supports on a host with that processor under the site's grant=. */
void policy_probe(const struct cpu *cpu, enum site_grant grant, struct policy_support *ret_support);

/* Returns the name of a rung ("nap"). */
const char *policy_rung_name(unsigned rung);

/*
 * Writes the policy's part of the flat string: "v=1;rungs=pause+nap;spin_ns=...;...;shared=S;profile=P", and facts
 * about the processor that the rungs need. A policy with `inject` false has "off=1". Returns its length, or -ENOSPC.
 */
int policy_flatten(const struct policy *policy, const struct cpu *cpu, bool shared, bool profile, char *buffer,
                   size_t size);
