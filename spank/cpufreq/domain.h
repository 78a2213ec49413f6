/*
 * A frequency domain, which is one cpufreq policy of the kernel: its settings, and which of them a lease may change.
 * Pure but for domain_read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/cpufreq/cpufreq.h"
#include "spank/policy/site.h"

#define DOMAIN_WHY_MAX 64 /* bytes of a reason, its NUL included */

struct domain {
	char driver[CPUFREQ_TEXT_MAX];
	char governor[CPUFREQ_TEXT_MAX];
	bool has_userspace;    /* the governor "userspace" is available */
	uint32_t info_min_khz; /* cpuinfo_min_freq */
	uint32_t info_max_khz; /* cpuinfo_max_freq */
	uint32_t min_khz;      /* scaling_min_freq */
	uint32_t max_khz;      /* scaling_max_freq */
	uint32_t speed_khz;    /* scaling_setspeed; 0: the governor is not userspace */
};

struct domain_rules {
	enum site_grant grant;
	enum site_governor governor;
	uint32_t min_khz;     /* lowest frequency that the site allows; 0: the hardware's */
	bool user_has_chosen; /* the user gave --cpu-freq, so the governor is not changed */
};

/* How a domain's frequency is changed. */
struct domain_use {
	enum cpufreq_file file; /* the file that is written */
	bool sets_governor;     /* the governor is set to userspace first */
	uint32_t low_khz;       /* the frequency while the ranks wait */
	uint32_t high_khz;      /* the frequency else: the one that was found, which is never exceeded */
};

/* Reads a domain's files. Returns true if all of them make sense. */
bool domain_read(int policy_directory, struct domain *ret_domain);

/*
 * Decides how a domain may be changed. The ceiling is the frequency that was found, which --cpu-freq may have set.
 * Returns NULL with *ret_use, or why the domain may not be changed: a few words for the record, shorter than
 * DOMAIN_WHY_MAX.
 */
const char *domain_decide(const struct domain *domain, const struct domain_rules *rules, struct domain_use *ret_use);
