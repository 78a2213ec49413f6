/*
 * Holdings: the frequency domains that this step has claimed, each for one task, and whether they are low now. Every
 * change goes through the journal. Used by one thread at a time.
 */
#ifndef MPIWAIT_SPANK_HOLDINGS_H
#define MPIWAIT_SPANK_HOLDINGS_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/cpufreq/domain.h"
#include "spank/cpufreq/journal.h"

struct holding {
	uint32_t policy; /* the kernel's number of the domain */
	uint32_t task;
	hwloc_bitmap_t cpus;
	struct domain_use use;
	char low[CPUFREQ_TEXT_MAX];
	char high[CPUFREQ_TEXT_MAX]; /* what was found */
	bool held;                   /* false: released, or lost to another job's claim */
	bool is_low;
	uint64_t since_ns;
	uint64_t until_ns; /* it comes back by itself */
	uint32_t changes;  /* of its frequency, both ways */
	pid_t process;     /* of the task's, which had it low last; 0: none. The caller's */
};

struct holdings {
	struct journal *journal; /* NULL: nothing was claimed */
	struct holding *item;
	size_t count;
	uint64_t transitions; /* both ways */
	uint64_t low_ns;
};

/*
 * Claims a domain for a task, writes down what will be changed, and sets the governor where use says so; with gives,
 * the file becomes the user's. items must have room. Returns 0, or negative errno with the reason in why and nothing
 * changed.
 */
int holdings_claim(struct holdings *holdings, uint32_t policy, uint32_t task, hwloc_const_bitmap_t cpus,
                   const struct domain_use *use, const struct cpufreq_owner *gives, char why[DOMAIN_WHY_MAX],
                   struct error *error);

/*
 * Lowers, or restores, every domain of the task in which core has a CPU. lower: until until_ns. Return 0, -ENOENT
 * (none is the task's) or -ESTALE (they are no longer held).
 */
int holdings_lower(struct holdings *holdings, uint32_t task, hwloc_const_bitmap_t core, uint64_t now_ns,
                   uint64_t until_ns);
int holdings_restore(struct holdings *holdings, uint32_t task, hwloc_const_bitmap_t core, uint64_t now_ns);

/* Restores what was not asked for again. Returns when to look next, UINT64_MAX: nothing is low. */
uint64_t holdings_expire(struct holdings *holdings, uint64_t now_ns);

/* Restores what is low of one task, and undoes everything that was changed for it. */
void holdings_release(struct holdings *holdings, uint32_t task, uint64_t now_ns, struct error *error);

/* Undoes what is left, and frees. */
void holdings_end(struct holdings *holdings, struct error *error);

#endif
