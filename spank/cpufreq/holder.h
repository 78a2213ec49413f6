/*
 * Who holds a journal and its claims: a process of a step, for as long as it lives; or a job, from its prolog to its
 * epilog. A process is its number and its start time in this boot, so that a number that was used again is nobody.
 */
#ifndef MPIWAIT_SPANK_HOLDER_H
#define MPIWAIT_SPANK_HOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HOLDER_BOOT_MAX 37 /* a UUID with its NUL */
#define HOLDER_NAME_MAX 80

struct holder {
	char boot[HOLDER_BOOT_MAX];
	uint32_t job_id;
	uint32_t step_id; /* STATE_NONE: the job itself; process and start are 0 then */
	uint32_t process;
	uint64_t start; /* clock ticks since boot, /proc/<pid>/stat */
};

/* This process for a step, or a job. Returns 0 or -errno. */
int holder_init(uint32_t job_id, uint32_t step_id, struct holder *ret_holder);

/* This boot's id. Returns 0 or -errno. */
int holder_boot(char boot[HOLDER_BOOT_MAX]);

bool holder_same(const struct holder *left, const struct holder *right);

/* Of this boot, and the process is alive (no zombie); a job: its state is there. */
bool holder_is_alive(const struct holder *holder, int job_directory);

/* The journal's file name in the job's directory. */
void holder_journal(const struct holder *holder, char name[HOLDER_NAME_MAX]);

/* "job 12 step 0", "job 12". */
void holder_describe(const struct holder *holder, char text[HOLDER_NAME_MAX]);

#endif
