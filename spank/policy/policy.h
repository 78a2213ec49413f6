/*
 * Policies: what a rank may do while it waits. Pure but for policy_load, which reads files.
 *
 * A policy is one JSON file (policies/policy.schema.json); this is the only parser of it. It is strict: an unknown key,
 * a wrong type or a number out of range is refused with the file and the key named. The program's half gets the result
 * as the flat string of preload/contract/config_format.h.
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
#define POLICY_FLAT_MAX    512

/* Rungs whose deadlines are the time-stamp counter's. */
#define POLICY_RUNGS_BY_TSC (1u << MPIWAIT_RUNG_UMWAIT | 1u << MPIWAIT_RUNG_MWAITX)

struct policy {
	uint32_t version; /* of the file */
	char name[POLICY_NAME_MAX];
	char summary[96];
	bool inject;      /* false: the task is left alone ("off") */
	uint32_t rungs;   /* bit per enum mpiwait_rung */
	uint32_t needs;   /* rungs without which the policy makes no sense */
	uint32_t spin_ns; /* the budget, DESIGN "The wait": B(w) = 0 while w < spin, else min(relative*w + absolute,
	                     max) */
	uint32_t relative_ppm;
	uint32_t absolute_ns;
	uint32_t max_ns;
	uint32_t rma_ns;
	uint32_t slowdown_ppm;     /* of its time, by which a rank may be late in all where waits are forecast */
	enum site_threads threads; /* how a rank's OpenMP threads wait; SITE_THREADS_UNSAID: the file does not say */
	bool polls;                /* rest in loops of the program's own that only ask */
	bool ibarrier;             /* an Ibarrier before some collectives: the option's, no file's */
	bool sites;                /* waits by where the program called from: likewise */
	uint32_t pstate_after_ns;  /* of a wait, from which on the rung pstate holds */
	char choose[POLICY_CHOICES_MAX][POLICY_NAME_MAX]; /* "auto": the first of these that the host supports */
	size_t choose_count;
	char fallback[POLICY_NAME_MAX]; /* "": none, then profile */
};

struct policy_set {
	struct policy policy[POLICY_COUNT_MAX]; /* sorted by name */
	size_t count;
};

/* Which rungs a host has, and the reason ("no waitpkg") for each that it lacks. */
struct policy_support {
	uint32_t rungs;
	const char *why[MPIWAIT_RUNGS];
};

/* What was asked for and what came of it: the record's "policy". */
struct policy_use {
	char asked[POLICY_NAME_MAX];
	char used[POLICY_NAME_MAX];
	char why[POLICY_WHY_MAX]; /* "" when used is asked */
	char by[8];               /* "job", "step" or "site" */
};

/* Parses one policy from JSON text; name is what the file is called. Returns 0, -EINVAL or -ENOMEM. */
int policy_parse(const char *text, size_t length, const char *name, struct policy *ret_policy, struct error *error);

/*
 * Reads every *.json of two directories, the site's own ("": none) hiding shipped ones of the same name; one that does
 * not exist is skipped. What cannot be read, or does not parse, is left out: error says what came first of that, of
 * files only those of the policy named (NULL: of all) before there is a good one. Always succeeds.
 */
void policy_load(const char *own, const char *shipped, const char *named, struct policy_set *ret_set,
                 struct error *error);

/*
 * The same by a process that must not wait for a file server: the site's own directory is read by another one, which is
 * given two seconds. The shipped one lies where the plugin does, which Slurm has loaded.
 */
void policy_load_apart(const char *own, const char *shipped, struct policy_set *ret_set, struct error *error);

/* The policy of that name, or NULL. */
const struct policy *policy_find(const struct policy_set *set, const char *name);

/*
 * Follows choose and fallback from asked to a policy that the host supports, and says why in ret_use (asked, used,
 * why). Ends at "profile" (measure only) if the chain does. Returns the policy, or NULL if asked is not known.
 */
const struct policy *policy_resolve(const struct policy_set *set, const char *asked,
                                    const struct policy_support *support, struct policy_use *ret_use);

/* What a host with that processor, our build and the site's grant support. */
void policy_probe(const struct cpu *cpu, enum site_grant grant, struct policy_support *ret_support);

/* The name of a rung ("nap"). */
const char *policy_rung_name(unsigned rung);

/*
 * Writes the policy's part of the flat string: "v=1;rungs=pause+nap;spin_ns=...;...;shared=S;profile=P", and what the
 * program's half must know of the processor where a rung needs it.
 * Returns its length, or -ENOSPC.
 */
int policy_flatten(const struct policy *policy, const struct cpu *cpu, bool shared, bool profile, char *buffer,
                   size_t size);
