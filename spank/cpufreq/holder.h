/*
 * Who has a frequency domain: the process of a step, for as long as it lives. A process is its number and its start
 * time in this boot, so that a number that was used again is another's.
 */
#ifndef MPIWAIT_SPANK_CPUFREQ_HOLDER_H
#define MPIWAIT_SPANK_CPUFREQ_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "spank/base/proc.h"

#define HOLDER_TEXT_MAX 40

struct holder {
	uint32_t job_id;
	uint32_t step_id;
	uint32_t process;
	uint64_t start; /* clock ticks since boot, /proc/<pid>/stat */
	char boot[PROC_BOOT_MAX];
};

/* This process, for a step. Returns 0 or -errno. */
int holder_init(uint32_t job_id, uint32_t step_id, struct holder *ret_holder);

/* Whether it is of this boot, and whether its process is alive (no zombie). What cannot be told is "yes". */
bool holder_is_of_this_boot(const struct holder *holder);
bool holder_is_alive(const struct holder *holder);

/* "job 12 step 0". */
void holder_describe(const struct holder *holder, char text[HOLDER_TEXT_MAX]);

#endif
