/*
 * The journal: what a step changes in cpufreq, written down before it is changed, so that whoever comes next can undo
 * it.
 *
 * Files, all 0600 root, under <state root>/<node>/:
 *   <job>/journal.<step>.<pid>.<start>  one per stepd ("journal.job" for a job's own); lines of journal_line.h
 *   cpu/policyN                         who holds that policy now (claim.h); a lock, never removed
 *
 * An entry of a journal counts only while its policy's claim names that journal and lies at or after the offset that
 * the claim says. So undoing for one holder never touches what another has claimed since, and nothing needs to be
 * marked as undone. Every write to a policy happens under the lock of its claim. Locks are taken in the order journal,
 * claim, never two claims at once; all waits for them are bounded.
 *
 * The holder's side is here; who undoes for holders that are gone is restore.h.
 */
#ifndef MPIWAIT_SPANK_JOURNAL_H
#define MPIWAIT_SPANK_JOURNAL_H

#include "spank/base/error.h"
#include "spank/base/run_directory.h"
#include "spank/cpufreq/cpufreq.h"

struct journal;

/*
 * A change to be made to one file. Value: for scaling_governor what will be set, for the others every value that we, or
 * whoever is given the file, will put there, as a range (low = high for a single one). scaling_setspeed is rounded up
 * to the next frequency of the table by the kernel: its range must hold what it will then show. Undoing puts the found
 * value back where the file holds a value of the range, and leaves alone what somebody else has set since.
 */
struct journal_change {
	enum cpufreq_file file;
	char governor[CPUFREQ_TEXT_MAX]; /* scaling_governor only; "": its value is not changed */
	uint32_t low_khz;                /* the others; 0: the value is not changed */
	uint32_t high_khz;
	bool gives; /* owner and mode are changed; then every value is the job's. To: */
	struct cpufreq_owner owner;
};

/* What was found. value "": scaling_setspeed, but the governor was not userspace. */
struct journal_found {
	char value[CPUFREQ_TEXT_MAX];
	struct cpufreq_owner owner;
};

/*
 * Makes the journal of this process for a step (step_id STATE_NONE: the job's own, made by a prolog, which holds until
 * the job's epilog). The caller's process is the holder, so that in slurmstepd it is slurmstepd itself that calls, not
 * the short-lived child in which contain_spank (24.05+) runs some callbacks. The job's state must have begun
 * (state_job_begin). sysfs: CPUFREQ_SYSFS but in tests. Returns 0 with *ret_journal to be freed by journal_end, or
 * -errno (-ENOSPC: a full disk): then change nothing.
 */
int journal_open(const struct state_place *place, const char *sysfs, uint32_t job_id, uint32_t step_id,
                 struct journal **ret_journal, struct error *error);

/*
 * Claims a policy. Whoever holds it, alive or not, loses it: what they changed there is undone first, and their next
 * journal_set or journal_record of it says -ESTALE. Nothing happens if it is ours already.
 * Returns 0, -ENOENT (no such policy), -EBUSY (locked for too long), -EBADMSG (claim or the other's journal refused),
 * or -errno, also where the other's change could not be undone: then the policy is not ours.
 */
int journal_claim(struct journal *journal, uint32_t policy, struct error *error);

/*
 * Reads one file of a claimed policy and writes down, durably, what is found and what it will be changed to. Changes
 * nothing itself. Once per file and claim. ret_found may be NULL.
 * Returns 0, -ESTALE (the claim is lost), -EAGAIN (a cap holds the clock: what is found is not what was set,
 * cpufreq_is_capped; try another time), -EINVAL (a change that cannot be undone), -EEXIST, or -errno. Unless 0, the
 * file must not be changed.
 */
int journal_record(struct journal *journal, uint32_t policy, const struct journal_change *change,
                   struct journal_found *ret_found, struct error *error);

/*
 * Writes a value that was recorded: of the range, or the found one. Five system calls, no allocation: the lease's own
 * path. Returns 0, -ESTALE (the claim is lost: nothing was written), -EINVAL (not recorded, or no value of the range),
 * or -errno of the kernel.
 */
int journal_set(struct journal *journal, uint32_t policy, enum cpufreq_file file, const char *value);

/* Changes owner and mode as recorded. The same results. */
int journal_give(struct journal *journal, uint32_t policy, enum cpufreq_file file);

/* Whether the policy is still ours. */
bool journal_holds(struct journal *journal, uint32_t policy);

/*
 * Undoes what was recorded for one policy, or for all of them, last first, and gives the claims up. What somebody else
 * has claimed or set since is left alone. Return 0 or the first -errno; what failed stays in the journal for
 * the epilog. After journal_release the policy may be claimed and recorded again.
 */
int journal_release(struct journal *journal, uint32_t policy, struct error *error);

/* The same for all, removes the journal where nothing is left to undo, and frees it in any case. journal may be NULL.
 */
int journal_end(struct journal *journal, struct error *error);

/*
 * Frees the memory and descriptors, and undoes nothing: for the copy in a forked child, and for a prolog whose grant
 * stays until the epilog. journal may be NULL.
 */
void journal_close(struct journal *journal);

/* One journal is used by one thread at a time. A forked child must not use its copy but for journal_close. */

#endif
