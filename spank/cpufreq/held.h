/*
 * A policy that a journal has claimed: its claim, and its files from the moment they are recorded. Every write happens
 * under the claim's lock, and only while the claim is what we wrote.
 */
#ifndef MPIWAIT_SPANK_HELD_H
#define MPIWAIT_SPANK_HELD_H

#include "spank/cpufreq/claim.h"
#include "spank/cpufreq/journal_line.h"

/* One file. */
struct held_file {
	int descriptor; /* -1: not recorded */
	struct journal_change change;
	struct journal_found found;
};

struct held {
	int directory;
	int descriptor; /* the claim's */
	struct claim claim;
	char line[CLAIM_SIZE]; /* what the claim's file is while it is ours */
	struct held_file files[CPUFREQ_FILE_COUNT];
};

/* Opens a policy and its claim, whose lock it takes. Returns NULL with *ret_result, else to be freed by held_free. */
struct held *held_new(int node_directory, int cpus, uint32_t policy, int *ret_result, struct error *error);
void held_free(struct held *held);

/* Writes the claim, whose lock is held. Returns 0 or -errno. */
int held_write(struct held *held, const struct claim *claim);

/* Takes the lock of a claim that should be ours. Returns 0, -ESTALE (it is no more; unlocked), -EBUSY or -errno. */
int held_lock(const struct held *held);
void held_unlock(const struct held *held);

/*
 * Opens a file and finds out what it holds. Returns its descriptor, -EAGAIN (a cap holds the clock), -EINVAL (a change
 * that could not be undone) or -errno.
 */
int held_look(const struct held *held, const char *sysfs, const struct journal_change *change,
              struct journal_found *ret_found, struct error *error);

/* As journal_set and journal_give. */
int held_set(const struct held *held, enum cpufreq_file file, const char *value);
int held_give(const struct held *held, enum cpufreq_file file);

#endif
