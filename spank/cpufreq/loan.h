/*
 * A loan: a frequency domain that this process has for a step, from taking it to giving it back. What is changed was
 * written down in the domain's file first (domain_file.h). Who takes the domain ends the loan, and needs not ask:
 * every change is made under the file's lock, and only while the file is as this process wrote it.
 *
 * Used by one thread at a time. In slurmstepd it is slurmstepd itself that takes, not the short-lived child in which
 * contain_spank (24.05+) runs some callbacks.
 */
#pragma once

#include "spank/cpufreq/domain_file.h"

struct loan {
	uint32_t policy;
	int file;  /* the domain's; -1: none, or it was given back */
	int value; /* the kernel's file that is written; -1: none yet */
	struct domain_hold hold;
	char text[DOMAIN_FILE_SIZE]; /* what the domain's file is while it is ours */
};

#define LOAN_NONE ((struct loan){.file = -1, .value = -1})

/*
 * Takes a domain. Who has it, alive or not, loses it: what they changed is put back first. Logs. Returns 0 with what
 * loan_end gives back, -EBUSY (locked for too long), -EBADMSG (its file was refused), -ENOSPC or -errno, also where it
 * could not be put back: then it is not ours.
 */
int loan_take(int node_directory, uint32_t policy, const struct holder *holder, struct loan *ret_loan,
              struct error *error);

/*
 * Writes down, durably, what is found and what will be written; then sets the owner, as noted. user: who is
 * given the file; NULL: no one. Returns 0, -ESTALE (the domain is another's by now), -EAGAIN (it is not as it was
 * decided on, or a cap holds the clock, so that what was set cannot be read), or -errno: the kernel's, without a
 * message, where it was noted and stays so (hold.changes).
 */
int loan_change(struct loan *loan, const struct domain_use *use, const struct cpufreq_owner *user, struct error *error);

/* Writes a frequency between the two that were noted: five system calls. Returns 0, -ESTALE, -EINVAL or -errno. */
int loan_set(const struct loan *loan, uint32_t khz);

/* Whether the domain is still ours. */
bool loan_holds(const struct loan *loan);

/* Puts back what was changed, and frees the domain; what failed stays noted for the epilog. Returns 0 or -errno. */
int loan_end(struct loan *loan, struct error *error);
