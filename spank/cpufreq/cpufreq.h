/*
 * The kernel's cpufreq files. Each cpufreq policy, the CPUs that share a clock, has a directory:
 * <sysfs>/devices/system/cpu/cpufreq/policyN.
 *
 * Paths are composed of a number and of constant names. No link is followed: the link cpuN/cpufreq is read and parsed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CPUFREQ_SYSFS    "/sys"
#define CPUFREQ_TEXT_MAX 32    /* bytes of a value, its NUL included: a governor (CPUFREQ_NAME_LEN is 16) or kHz */
#define CPUFREQ_POLICIES 16384 /* policies' numbers are below this */

/* The only file that this program writes. Every driver and governor keeps the frequency at or below its value. */
#define CPUFREQ_MAX "scaling_max_freq"

struct cpufreq_owner {
	uid_t uid;
	gid_t gid;
	mode_t mode; /* permission bits */
};

/* Returns 12 for "policy12", and -EBADMSG for a name of another form. */
int cpufreq_policy_number(const char *name);

/* Returns the number of a CPU's policy, -ENODEV (no cpufreq), -EBADMSG (the link has another form) or -errno. */
int cpufreq_policy_of(const char *sysfs, uint32_t cpu);

/* Opens a policy's directory. Returns a descriptor, -ENOENT (there is none), -EINVAL or -errno. */
int cpufreq_open_policy(const char *sysfs, uint32_t policy);

/* Opens CPUFREQ_MAX with O_RDONLY or O_RDWR in flags. Returns a descriptor, -EINVAL (no regular file) or -errno. */
int cpufreq_open_max(int policy_directory, int flags);

/*
 * Read and write a file's value, without its newline, by one system call from the file's begin. Return 0, -EBADMSG
 * (empty, or too long), -EINVAL (too long to write) or -errno.
 */
int cpufreq_get(int descriptor, char text[CPUFREQ_TEXT_MAX]);
int cpufreq_put(int descriptor, const char *text);

/* Parses a frequency with 0 < kHz < 2^31. Returns false if the text is not one. */
bool cpufreq_khz_parse(const char *text, uint32_t *ret_khz);

/* Read a value, or a frequency, from a file that this program only reads ("scaling_driver"). Return as cpufreq_get. */
int cpufreq_read_text(int policy_directory, const char *name, char text[CPUFREQ_TEXT_MAX]);
int cpufreq_read_khz(int policy_directory, const char *name, uint32_t *ret_khz);

int cpufreq_get_owner(int descriptor, struct cpufreq_owner *ret_owner);
int cpufreq_set_owner(int descriptor, const struct cpufreq_owner *owner);

/* Returns true if a cooling device of the processors is active. Reads all of them: a node may have one for each CPU. */
bool cpufreq_is_cooled(const char *sysfs);

/*
 * Returns true if a momentary cap holds the policy's clock down: firmware (bios_limit below cpuinfo_max_freq) or an
 * active cooling device. scaling_max_freq then shows the cap, and the setting beneath it cannot be read. So a value
 * that is read now must not be restored later. is_cooled: what cpufreq_is_cooled returned after the value was first
 * read.
 */
bool cpufreq_is_capped(int policy_directory, bool is_cooled);
