/*
 * Holdings: the frequency domains that this step has (loan.h), to which of its tasks each was granted, and whether it
 * is low now. Used by one thread at a time.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/cpufreq/domain.h"
#include "spank/cpufreq/loan.h"

#define HOLDING_NOBODYS (-1)

struct holding {
	hwloc_bitmap_t cpus;
	struct loan loan;         /* its hold.change.use is what was granted, */
	int32_t task;             /* to whom; HOLDING_NOBODYS: not granted */
	char why[DOMAIN_WHY_MAX]; /* not; in a few words for the record */
	bool is_over;             /* given back, or lost to another step */
	bool is_low;
	uint64_t since_ns;
	uint64_t until_ns; /* it comes back by itself */
	uint32_t changes;  /* of its frequency, both ways */
	pid_t process;     /* of the task's, which had it low last; 0: none. The caller's */
};

struct holdings {
	struct holding *item;
	size_t count;
	uint64_t transitions; /* both ways */
	uint64_t low_ns;
};

/* Takes a domain, for which item has room; why says where that failed. Returns 0, or -ENOMEM: then it is not there. */
int holdings_take(struct holdings *holdings, int node_directory, const struct holder *holder, uint32_t policy,
                  hwloc_const_bitmap_t cpus, struct error *error);

/*
 * Grants a domain to a task: writes down what will be changed, and sets the governor where use says so; user: whose
 * the file is to be, NULL: no one's. Where that fails, why says so, and the domain is given back.
 */
void holding_grant(struct holding *holding, int32_t task, const struct domain_use *use,
                   const struct cpufreq_owner *user, struct error *error);

/* Gives back a domain that was granted to nobody; a reason that is there stays. */
void holding_refuse(struct holding *holding, const char *why, struct error *error);

/*
 * Lowers, or restores, every domain of the task in which core has a CPU. lower: until until_ns. Return 0, -ENOENT
 * (none is the task's) or -ESTALE (they are no longer held).
 */
int holdings_lower(struct holdings *holdings, int32_t task, hwloc_const_bitmap_t core, uint64_t now_ns,
                   uint64_t until_ns);
int holdings_restore(struct holdings *holdings, int32_t task, hwloc_const_bitmap_t core, uint64_t now_ns);

/* Restores what was not asked for again. Returns when to look next, UINT64_MAX: nothing is low. */
uint64_t holdings_expire(struct holdings *holdings, uint64_t now_ns);

/* Puts back what was changed for one task. */
void holdings_release(struct holdings *holdings, int32_t task, uint64_t now_ns, struct error *error);

/* Puts back what is left, and frees. */
void holdings_end(struct holdings *holdings, struct error *error);
