/*
 * A frequency domain's file, <state root>/<node>/cpufreq/policyN. It names the step that holds the domain, what was
 * found before the first change, and the values that the holder writes. Its text has a fixed size and a checksum, and
 * is written by one call.
 *
 * The file is the domain's lock (flock) too, so it is never removed or replaced. Only the holder that the file names
 * changes the kernel's files, and only under that lock. What it found is in the file, synced, before its first change.
 */
#pragma once

#include "spank/base/error.h"
#include "spank/base/proc.h"
#include "spank/cpufreq/domain.h"

#define DOMAIN_FILE_DIRECTORY "cpufreq"
#define DOMAIN_FILE_SIZE      512
#define DOMAIN_FILE_WAIT_MS   2000 /* longest wait for the file's lock */
#define HOLDER_TEXT_MAX       40   /* bytes of holder_describe's text, its NUL included */

/*
 * The holder of a domain: the slurmstepd of a step, as long as it lives. It locks (fcntl) one byte beyond the file's
 * text, and the text says which byte. The kernel frees that lock when the process ends, and no child inherits it. A
 * process id would not do: a slurmstepd in a PID namespace has another one on the node.
 */
struct holder {
	uint32_t job_id;
	uint32_t step_id;
	uint32_t lock;            /* index of the byte that it locks, from 0 on */
	char boot[PROC_BOOT_MAX]; /* id of the boot in which it began */
};

/* A holder's changes of a domain, and what was found before them. */
struct domain_change {
	char driver[CPUFREQ_TEXT_MAX];   /* scaling_driver as found */
	char governor[CPUFREQ_TEXT_MAX]; /* scaling_governor as found */
	struct domain_use use;           /* high_khz is the value as found */
	struct cpufreq_owner owner;      /* owner and mode of scaling_max_freq as found */
	bool gives;                      /* scaling_max_freq belongs to `user` for the job's time (grant=file) */
	uid_t user;                      /* the job's user, with gives; it may write any value */
};

struct domain_hold {
	bool held; /* false: the domain is free */
	struct holder holder;
	bool changes; /* the holder may have changed the domain, as `change` says */
	struct domain_change change;
};

/* Describes this process as the holder for a step; it holds no lock yet. Returns 0 or -errno. */
int holder_init(uint32_t job_id, uint32_t step_id, struct holder *ret_holder);

/*
 * Locks the first byte of the domain's file that no living process has locked. A process that has lost the domain and
 * does not know it yet still has its byte. The caller holds the file's flock. The byte's lock ends with the process, or
 * when the process closes any descriptor of the file. Returns 0, -EBUSY (all are locked) or -errno.
 */
int holder_lock(int file, struct holder *holder);

/* Returns true if the holder began in this boot, or if that cannot be told. */
bool holder_is_of_this_boot(const struct holder *holder);

/* Returns true if the holder is another process and lives, or if that cannot be told. */
bool holder_is_alive(int file, const struct holder *holder);

/* Writes "job 12 step 0". */
void holder_describe(const struct holder *holder, char text[HOLDER_TEXT_MAX]);

/* Returns the checksum of a file's text: the CRC-32 of IEEE 802.3. */
uint32_t domain_file_sum(const char *bytes, size_t length);

/*
 * Print and parse the file's text; hold NULL: the domain is free. domain_file_parse returns 0, or -EBADMSG for a text
 * that domain_file_print would not have written. Pure.
 */
void domain_file_print(const struct domain_hold *hold, char text[DOMAIN_FILE_SIZE]);
int domain_file_parse(const char text[DOMAIN_FILE_SIZE], struct domain_hold *ret_hold, struct error *error);

/*
 * Opens a domain's file. With `make`, a missing file is made, and says that the domain is free. Returns a descriptor,
 * -ENOENT, -EPERM (files_refusal refuses it) or -errno.
 */
int domain_file_open(int node_directory, uint32_t policy, bool make, struct error *error);

/*
 * Locks the file (files_lock) if its text is still `text`, as this process wrote it. Returns 0, -ESTALE (another
 * process has written it; it is not locked), -EBUSY or -errno.
 */
int domain_file_lock_own(int file, const char text[DOMAIN_FILE_SIZE]);

/* Reads the file. Returns 0, -EBADMSG or -errno. */
int domain_file_read(int file, struct domain_hold *ret_hold, struct error *error);

/*
 * Writes and syncs the file; hold NULL: the domain is free. Copies the text to ret_text, unless that is NULL. Returns 0
 * or -errno.
 */
int domain_file_write(int file, const struct domain_hold *hold, char ret_text[DOMAIN_FILE_SIZE]);
