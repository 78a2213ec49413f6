/*
 * A frequency domain (the kernel's cpufreq policy): what it is like, and what may be done to it. Pure but for
 * domain_read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/cpufreq/cpufreq.h"
#include "spank/policy/site.h"

#define DOMAIN_WHY_MAX 64

struct domain {
	char driver[CPUFREQ_TEXT_MAX];
	uint32_t info_min_khz;
	uint32_t info_max_khz;
	uint32_t min_khz;
	uint32_t max_khz;
};

struct domain_rules {
	enum site_grant grant;
	uint32_t min_khz; /* the site's, 0: the hardware's */
};

/* The two values between which scaling_max_freq is switched. */
struct domain_use {
	uint32_t low_khz;
	uint32_t high_khz; /* what was found: never above */
};

/* Reads a domain's files. Returns whether all of them make sense. */
bool domain_read(int policy_directory, struct domain *ret_domain);

/*
 * Decides. What --cpu-freq has set is in what was found, so it is the ceiling. Returns NULL, or why nothing may be
 * done: a few words that may enter the record, shorter than DOMAIN_WHY_MAX.
 */
const char *domain_decide(const struct domain *domain, const struct domain_rules *rules, struct domain_use *ret_use);
