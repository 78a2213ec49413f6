/*
 * A frequency domain's file, <state root>/<node>/cpufreq/policyN: who has the domain now, what was found there before
 * anything was changed, and which values the holder writes. Text of a fixed size with a checksum, written in one call.
 *
 * The file is the domain's lock (flock) too, and so is never removed or replaced. What the kernel's files hold is
 * changed under that lock only, by the one whom the file names, and what was found is in it, on disk, before that.
 */
#pragma once

#include "spank/base/error.h"
#include "spank/base/proc.h"
#include "spank/cpufreq/domain.h"

#define DOMAIN_FILE_DIRECTORY "cpufreq"
#define DOMAIN_FILE_SIZE      512
#define DOMAIN_FILE_WAIT_MS   2000 /* for its lock, at most */
#define HOLDER_TEXT_MAX       40

/*
 * The holder of a domain is the process of a step, for as long as it lives. It locks (fcntl) one byte beyond the file's
 * text, and the text says which. The kernel frees that lock when the process ends, and no child inherits it. A process
 * number would not do: a slurmstepd in a PID namespace has another one there than on the node.
 */
struct holder {
	uint32_t job_id;
	uint32_t step_id;
	uint32_t lock; /* which byte, from 0 on */
	char boot[PROC_BOOT_MAX];
};

/* What is changed, and back to what. */
struct domain_change {
	char driver[CPUFREQ_TEXT_MAX]; /* as found */
	char governor[CPUFREQ_TEXT_MAX];
	struct domain_use use; /* high_khz: as found */
	struct cpufreq_owner owner;
	bool gives; /* scaling_max_freq is this user's meanwhile, */
	uid_t user; /* who may make of it what he likes */
};

struct domain_hold {
	bool held;
	struct holder holder;
	bool changes; /* else nothing was changed yet */
	struct domain_change change;
};

/* Names this process as the holder for a step; it has no lock yet. Returns 0 or -errno. */
int holder_init(uint32_t job_id, uint32_t step_id, struct holder *ret_holder);

/*
 * Locks a byte of the domain's file that no living process has, which may be an earlier holder that does not know yet
 * that it is one no more. Called with the file's flock held. The lock ends with the process, or when the process closes
 * any descriptor of the file. Returns 0, -EBUSY or -errno.
 */
int holder_lock(int file, struct holder *holder);

/* Returns true if the holder is of this boot, or if that cannot be told. */
bool holder_is_of_this_boot(const struct holder *holder);

/* Returns true if another process that is the holder lives, or if that cannot be told. */
bool holder_is_alive(int file, const struct holder *holder);

/* "job 12 step 0". */
void holder_describe(const struct holder *holder, char text[HOLDER_TEXT_MAX]);

/* The file's text; hold NULL: it is free. Pure. parse refuses, with -EBADMSG, whatever print would not have written. */
uint32_t domain_file_sum(const char *bytes, size_t length);
void domain_file_print(const struct domain_hold *hold, char text[DOMAIN_FILE_SIZE]);
int domain_file_parse(const char text[DOMAIN_FILE_SIZE], struct domain_hold *ret_hold, struct error *error);

/*
 * Opens a domain's file; make: a missing one is made, free. Returns a descriptor, -ENOENT, -EPERM (no file of ours: a
 * link, a FIFO, another's) or -errno.
 */
int domain_file_open(int node_directory, uint32_t policy, bool make, struct error *error);

/*
 * Takes the file's lock (files_lock) if it is what was written. Returns 0, -ESTALE (it is another's by now, and not
 * locked), -EBUSY or -errno.
 */
int domain_file_lock_own(int file, const char text[DOMAIN_FILE_SIZE]);

/* Reads it. Returns 0, -EBADMSG or -errno. */
int domain_file_read(int file, struct domain_hold *ret_hold, struct error *error);

/* Writes it, durably; NULL: it is free. ret_text, which may be NULL: what it is now. Returns 0 or -errno. */
int domain_file_write(int file, const struct domain_hold *hold, char ret_text[DOMAIN_FILE_SIZE]);
