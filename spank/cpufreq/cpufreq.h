/*
 * The kernel's cpufreq files, one directory per policy (the CPUs that share a clock):
 * <sysfs>/devices/system/cpu/cpufreq/policyN.
 *
 * A path is never taken from anywhere: it is composed of a number and one of a few names, and no policy and no file is
 * opened by a link. What a CPU's own link (cpuN/cpufreq) says is parsed, not followed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CPUFREQ_SYSFS    "/sys"
#define CPUFREQ_TEXT_MAX 32    /* of a value with its NUL: a governor's name (CPUFREQ_NAME_LEN is 16) or kHz */
#define CPUFREQ_POLICIES 16384 /* numbers are below this */

/* The only file that is ever written. Every driver and governor keeps below it. */
#define CPUFREQ_MAX "scaling_max_freq"

struct cpufreq_owner {
	uid_t uid;
	gid_t gid;
	mode_t mode; /* permission bits */
};

/* The number of "policy12"; -EBADMSG for any other name. */
int cpufreq_policy_number(const char *name);

/* The number of the policy that a CPU belongs to. Returns it, -ENODEV (no cpufreq), -EBADMSG (an odd link). */
int cpufreq_policy_of(const char *sysfs, uint32_t cpu);

/* Opens a policy's directory. Returns a descriptor, -ENOENT (there is none), -EINVAL or -errno. */
int cpufreq_open_policy(const char *sysfs, uint32_t policy);

/* Opens CPUFREQ_MAX (O_NOFOLLOW, a regular file). flags: O_RDONLY or O_RDWR. Returns a descriptor or -errno. */
int cpufreq_open_max(int policy_directory, int flags);

/* One value, without its newline, read anew or written in one call. Return 0, -EBADMSG (too long, none) or -errno. */
int cpufreq_get(int descriptor, char text[CPUFREQ_TEXT_MAX]);
int cpufreq_put(int descriptor, const char *text);

/* A number in kHz, 0 < kHz < 2^31; false for anything else. */
bool cpufreq_khz_parse(const char *text, uint32_t *ret_khz);

/* Read a value, or a number, from a file that is only ever read ("scaling_driver"). 0, -ENOENT, -EBADMSG, ... */
int cpufreq_read_text(int policy_directory, const char *name, char text[CPUFREQ_TEXT_MAX]);
int cpufreq_read_khz(int policy_directory, const char *name, uint32_t *ret_khz);

int cpufreq_get_owner(int descriptor, struct cpufreq_owner *ret_owner);
int cpufreq_set_owner(int descriptor, const struct cpufreq_owner *owner);

/*
 * Whether something momentary holds the policy's clock down now: firmware (bios_limit below cpuinfo_max_freq) or a
 * cooling device for processors that is at work. scaling_max_freq then shows the cap instead of what was asked for,
 * which cannot be read: what is found now must not be put back later.
 */
bool cpufreq_is_capped(const char *sysfs, int policy_directory);
