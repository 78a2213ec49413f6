/*
 * The option's value, NAME[,KEY=VALUE...], and the words in which it is refused. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "spank/base/error.h"
#include "spank/policy/policy.h"
#include "spank/policy/site.h"

#define OPTIONS_TEXT_MAX 256 /* bytes of a value, its NUL included */

/* What slowdown=PERCENT may be: here, in refusals and in the help. A smaller one would be rounded to few ppm, or none.
 */
#define OPTIONS_SLOWDOWN_LEAST 0.01
#define OPTIONS_SLOWDOWN_MOST  50

enum options_polls { OPTIONS_POLLS_UNSAID, OPTIONS_POLLS_ON, OPTIONS_POLLS_OFF };

struct options {
	char policy[POLICY_NAME_MAX]; /* as typed: known only after options_check */
	uint32_t slowdown_ppm;        /* slowdown=PERCENT; 0: not said */
	enum site_pin pin;            /* pin=cores|none */
	enum site_threads threads;    /* threads=keep|bounded|passive */
	enum options_polls polls;     /* polls=on|off */
	bool profile;                 /* profile, or csv= */
	bool sites;                   /* sites */
	bool ibarrier;                /* collectives=ibarrier */
	char csv[OPTIONS_TEXT_MAX];   /* csv=DIR, "": none; any path that fits: it is the user who opens it */
};

/*
 * Splits text. Returns 0, or -EINVAL with the offending part, the accepted keys and the nearest one in error.
 * The policy's name is only checked for its characters. An empty text is refused, as an unset variable's would be.
 */
int options_parse(const char *text, struct options *ret_options, struct error *error);

/*
 * Whether that policy exists and the site allows it. Returns 0, -ENOENT (unknown; error names the valid ones and the
 * nearest match) or -EPERM (known, not allowed; error names the allowed ones).
 */
int options_check(const struct options *options, const struct policy_set *set, const struct site *site,
                  struct error *error);

/*
 * Applies slowdown=, threads=, polls=, sites and collectives= to a copy of the policy. Of threads= the strongest word
 * holds: the option's, the policy file's, the site's where the policy spends time, bounded where it naps. Then it is
 * said.
 */
void options_apply(const struct options *options, const struct site *site, struct policy *policy);

/* Writes the answer to "help": a line per policy, the keys with their defaults, where to read on. */
void options_help(const struct policy_set *set, const struct site *site, const struct policy_support *support,
                  FILE *file);
