/*
 * A loan: a frequency domain that this process holds for a step, from loan_take to loan_end. Every change is noted in
 * the domain's file before it is made (domain_file.h). Another step may take the domain at any time, without asking,
 * which ends the loan: each change is made under the file's lock, and only if the file is as this process wrote it.
 *
 * One thread at a time may use a loan. slurmstepd itself takes it, not the short-lived child in which contain_spank
 * (Slurm 24.05 and later) runs some callbacks: the holder's lock ends with the process.
 */
#pragma once

#include "spank/cpufreq/domain_file.h"

struct loan {
	uint32_t policy;
	int file;                    /* descriptor of the domain's file; -1: nothing is held */
	int value;                   /* descriptor of scaling_max_freq; -1: none yet */
	struct domain_hold hold;     /* the domain's file, parsed */
	char text[DOMAIN_FILE_SIZE]; /* the domain's file as this process wrote it */
};

#define LOAN_NONE ((struct loan){.file = -1, .value = -1})

/*
 * Takes a domain for the holder. An earlier holder, alive or dead, loses it: its changes are reverted first, and
 * logged. Returns 0, with *ret_loan for loan_end to give back, -EBUSY (locked for too long), -EBADMSG (the file was
 * refused), -EIO (the earlier holder's changes cannot be reverted), -ENOSPC or another -errno.
 */
int loan_take(int node_directory, uint32_t policy, const struct holder *holder, struct loan *ret_loan,
              struct error *error);

/*
 * Notes in the domain's file, durably, what is found and what will be written. Then gives scaling_max_freq to `user`;
 * NULL: the owner stays. is_cooled: what cpufreq_is_cooled returned after `use` was decided. Returns 0, -ESTALE
 * (another step has the domain) or -EAGAIN (the value has changed since `use` was decided, or a cap hides it). Any
 * other -errno is the kernel's: if hold.changes is set, the change is noted, and error has no message.
 */
int loan_change(struct loan *loan, const struct domain_use *use, const struct cpufreq_owner *user, bool is_cooled,
                struct error *error);

/*
 * Writes a frequency between low_khz and high_khz, by five system calls. Returns 0, -ESTALE (another step has the
 * domain), -EINVAL (out of that range) or -errno.
 */
int loan_set(const struct loan *loan, uint32_t khz);

/* Returns true if this process still holds the domain. */
bool loan_holds(const struct loan *loan);

/*
 * Restores the domain and frees it. Changes that could not be reverted stay noted, and the epilog tries again. Returns
 * 0 or -errno.
 */
int loan_end(struct loan *loan, struct error *error);
