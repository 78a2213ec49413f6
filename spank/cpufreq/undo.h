/*
 * Puts one policy back as a journal found it. Last change first, owner and mode before the value, and every value is
 * read back.
 *
 * A file that was given away is the job's, whatever it holds and whatever became of its group and mode: only an owner
 * who is neither the one that was found nor the one that it was given to is somebody else's doing.
 *
 * What else is found to hold neither what was set nor what was found has been changed by somebody else (an
 * administrator, Slurm's --cpu-freq) and is left alone. A momentary cap is nobody's setting: scaling_max_freq shows the
 * lower of the two, so a value below what was set may be a cap that hides it, or somebody's setting; writing the found
 * value tells, and where it was a setting, it is put back at once. That a file shows less than was written because a
 * cap holds it, is said and is no failure.
 */
#ifndef MPIWAIT_SPANK_UNDO_H
#define MPIWAIT_SPANK_UNDO_H

#include <stdbool.h>

#include "spank/cpufreq/claim.h"
#include "spank/cpufreq/journal_line.h"
#include "spank/cpufreq/restore.h"

struct undo {
	const char *sysfs;
	bool dry_run;               /* say, do not do */
	bool quiet;                 /* what is put back is for the debug log only */
	struct restore_count count; /* settings, left, failed and refused are added to */
};

/*
 * Undoes the entries of one policy that lie at or after an offset. The caller holds the policy's lock. Logs.
 * Returns 0, or -errno if a file could not be put back.
 */
int undo_policy(struct undo *undo, const struct journal_text *text, uint32_t policy, uint64_t from);

/*
 * The same under the claim's lock, if the claim names that journal, and gives the claim up. what describes the holder
 * in messages. Returns 0, also if the claim names another (nothing is done then), or -errno.
 */
int undo_claimed(struct undo *undo, int node_directory, const struct journal_text *text, uint32_t policy);

/* The second half of it, for a claim whose lock is held and which names that journal. Does not write the claim. */
int undo_held(struct undo *undo, const struct claim *claim, const struct journal_text *text, uint32_t policy);

#endif
