/*
 * Who holds a cpufreq policy now: <state root>/<node>/cpu/policyN, one line with a checksum, of a fixed size, written
 * in one call. The file is also the policy's lock (flock) and is therefore never removed or replaced.
 */
#ifndef MPIWAIT_SPANK_CLAIM_H
#define MPIWAIT_SPANK_CLAIM_H

#include "spank/base/error.h"
#include "spank/cpufreq/holder.h"

#define CLAIM_SIZE 192 /* bytes of the file */

struct claim {
	bool held;
	struct holder holder;
	uint64_t from;    /* offset in the holder's journal from which entries count */
	uint32_t entries; /* that there are at least: a journal with fewer was truncated */
};

/*
 * Opens a policy's claim and takes its lock, waiting for two seconds at most. make: a missing file is made, free.
 * Returns a descriptor, which holds the lock until it is closed or unlocked; -ENOENT, -EBUSY, -EPERM or -EINVAL (no
 * file of ours: a link, a FIFO, somebody else's), or -errno.
 */
int claim_open(int node_directory, uint32_t policy, bool make, struct error *error);

/*
 * The lock of any file of ours, for two seconds at most; that of a claim again, after those who wait for it in
 * claim_open; and without it. Return 0, -EBUSY or -errno.
 */
int claim_lock(int descriptor);
int claim_lock_again(int descriptor);
void claim_unlock(int descriptor);

/* Reads a claim. Returns 0, -EBADMSG or -errno. */
int claim_read(int descriptor, struct claim *ret_claim, struct error *error);

/* Writes a claim. line, which may be NULL, gets what the file now is, for claim_is. Returns 0 or -errno. */
int claim_write(int descriptor, const struct claim *claim, char line[CLAIM_SIZE]);

/* Whether the file is still what claim_write wrote: one system call. */
bool claim_is(int descriptor, const char line[CLAIM_SIZE]);

#endif
