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
	char governor[CPUFREQ_TEXT_MAX];
	bool has_userspace; /* among its governors */
	uint32_t info_min_khz;
	uint32_t info_max_khz;
	uint32_t min_khz;
	uint32_t max_khz;
	uint32_t speed_khz; /* scaling_setspeed; 0: the governor is not userspace */
};

struct domain_rules {
	enum site_grant grant;
	enum site_governor governor;
	uint32_t min_khz;     /* the site's, 0: the hardware's */
	bool user_has_chosen; /* --cpu-freq: the governor is not ours to change */
};

/* What will be done: the file that is written, and the two values. */
struct domain_use {
	enum cpufreq_file file;
	bool sets_governor; /* to userspace, first */
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
