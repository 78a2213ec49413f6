/* Parses the option's value, NAME[,KEY=VALUE...], and writes its help and its refusals. Pure. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "spank/base/error.h"
#include "spank/policy/policy.h"
#include "spank/policy/site.h"

#define OPTIONS_TEXT_MAX 256 /* bytes of a value, its NUL included */

/* Range of slowdown=PERCENT, for the parser, refusals and the help. Smaller values would be too coarse in whole ppm. */
#define OPTIONS_SLOWDOWN_LEAST 0.01
#define OPTIONS_SLOWDOWN_MOST  50

enum options_polls { OPTIONS_POLLS_UNSAID, OPTIONS_POLLS_ON, OPTIONS_POLLS_OFF };

struct options {
	char policy[POLICY_NAME_MAX]; /* the name as typed; options_check says if there is such a policy */
	uint32_t slowdown_ppm;        /* slowdown=PERCENT; 0: not given */
	enum site_pin pin;            /* pin=cores|none */
	enum site_threads threads;    /* threads=keep|bounded|passive */
	enum options_polls polls;     /* polls=on|off */
	bool profile;                 /* profile, or csv= */
	bool sites;                   /* sites */
	bool ibarrier;                /* collectives=ibarrier */
	char csv[OPTIONS_TEXT_MAX];   /* csv=DIR, "": none; any path, because a process of the user's opens it */
};

/*
 * Parses text. Returns 0, or -EINVAL with the offending part, the accepted keys and the nearest one in error. Checks
 * only the characters of the policy's name. Refuses an empty text, which an unset shell variable would leave.
 */
int options_parse(const char *text, struct options *ret_options, struct error *error);

/*
 * Checks that the policy exists and the site allows it. Returns 0, -ENOENT (unknown; error names the valid ones and the
 * nearest match) or -EPERM (not allowed; error names the allowed ones).
 */
int options_check(const struct options *options, const struct policy_set *set, const struct site *site,
                  struct error *error);

/*
 * Refuses a word that is none of `names`. error gets "BEFORE'WORD'AFTER", the names, and the one that was probably
 * meant: `nearest`, or if that is NULL the name with the fewest edits. Returns -ENOENT.
 */
int options_refuse(const char *before, const char *word, const char *after, const char *const names[], size_t count,
                   const char *nearest, struct error *error);

/*
 * Applies slowdown=, threads=, polls=, sites and collectives= to *policy, which is the caller's copy. policy->threads
 * is set afterwards: to the option's value, or the policy file's, or, if the policy has rungs, the site's; without any
 * of these, to "bounded" for a policy that naps, else to "keep".
 */
void options_apply(const struct options *options, const struct site *site, struct policy *policy);

/* Returns true if every call is timed: by the option, or because the policy in use is "profile". */
bool options_profile(const struct options *options, const struct policy *policy);

/* Prints the answer to "help": a line for each policy, the keys with their defaults, where to read more. */
void options_help(const struct policy_set *set, const struct site *site, const struct policy_support *support,
                  FILE *file);
