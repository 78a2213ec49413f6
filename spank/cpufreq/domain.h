/*
 * A frequency domain, which is one cpufreq policy of the kernel: its settings, and which of them a lease may change.
 * Pure but for domain_read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/cpufreq/cpufreq.h"
#include "spank/policy/site.h"

#define DOMAIN_WHY_MAX       64  /* bytes of a reason, its NUL included */
#define DOMAIN_AVAILABLE_MAX 256 /* frequencies; ACPI has at most some tens */

struct domain {
	char driver[CPUFREQ_TEXT_MAX];
	uint32_t info_min_khz; /* cpuinfo_min_freq */
	uint32_t info_max_khz; /* cpuinfo_max_freq */
	uint32_t min_khz;      /* scaling_min_freq */
	uint32_t max_khz;      /* scaling_max_freq */
	uint32_t available;    /* number of the frequencies that the hardware has; 0: any within its limits */
	uint32_t available_khz[DOMAIN_AVAILABLE_MAX];
};

struct domain_rules {
	enum site_grant grant; /* how a domain is granted, if at all (grant=) */
	uint32_t min_khz;      /* lowest frequency that the site allows; 0: the hardware's */
};

/* The two values between which a lease switches scaling_max_freq. */
struct domain_use {
	uint32_t low_khz;  /* the value while the ranks wait */
	uint32_t high_khz; /* the value that was found, which is never exceeded */
};

/* Reads a domain's files. Returns true if all of them make sense. */
bool domain_read(int policy_directory, struct domain *ret_domain);

/*
 * Decides between which values a lease may switch a domain: high_khz is scaling_max_freq as found, which --cpu-freq may
 * have set; low_khz is the highest of the hardware's, the kernel's (scaling_min_freq) and the site's lower limits.
 * Where the hardware has some frequencies only, low_khz is the next of them, since the kernel would take the one below.
 * Returns NULL with *ret_use, or why the domain may not be changed: a few words for the record, shorter than
 * DOMAIN_WHY_MAX. The driver may be unknown, or nothing may lie between the two values. Does not read rules->grant.
 */
const char *domain_decide(const struct domain *domain, const struct domain_rules *rules, struct domain_use *ret_use);
