/*
 * A ration: how many units of something may be used at once, and how fast they come back. A thread that uses more than
 * is left waits until the ration is above 0 again. struct ration is pure and belongs to one thread. struct
 * shared_ration is shared by this plugin's threads in all slurmstepds of a job on a node.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ration {
	int64_t most;       /* units that may be used at once */
	uint64_t divisor;   /* nanoseconds in which one unit comes back */
	int64_t left;       /* units that are left; negative: used in advance */
	uint64_t filled_ns; /* time up to which units that came back are counted */
};

/* Returns a full ration. */
static inline struct ration ration_begin(int64_t most, uint64_t divisor, uint64_t now_ns)
{
	return (struct ration){most, divisor, most, now_ns};
}

/* Adds the units that have come back by now. Called before the ration is used or waited for. */
static inline void ration_fill(struct ration *ration, uint64_t now_ns)
{
	uint64_t more = now_ns > ration->filled_ns ? (now_ns - ration->filled_ns) / ration->divisor : 0;

	if (more == 0)
		return;
	ration->filled_ns += more * ration->divisor;
	if (more >= (uint64_t)(ration->most - ration->left))
		ration->left = ration->most;
	else
		ration->left += (int64_t)more;
}

/* Takes units, also more than are left. */
static inline void ration_use(struct ration *ration, uint64_t amount)
{
	ration->left -= amount < INT32_MAX ? (int64_t)amount : INT32_MAX;
}

/* Returns after how many nanoseconds a unit is left again; 0: one is left now. */
static inline uint64_t ration_wait_ns(const struct ration *ration)
{
	return ration->left > 0 ? 0 : (uint64_t)(1 - ration->left) * ration->divisor;
}

#define SHARED_RATION_FILE "ration" /* its name in the job's directory below /run */

/* Kinds of work. Each has a ration of its own. */
enum shared_ration_kind {
	SHARED_RATION_SAMPLER, /* each ns of CPU time makes the next sampler of the job wait 50 ns */
	SHARED_RATION_BROKER,  /* each ns of CPU time makes the next broker of the job wait 40 ns */
	SHARED_RATION_KINDS
};

/*
 * A ration of CPU time for all steps of the job together: CPU time that one step's thread uses delays the thread that
 * comes next, of whatever step. The file has one word a kind: the time until which threads wait for what was used so
 * far. The clock alone refills the ration, and a thread that is killed takes nothing with it. Only root can open the
 * file.
 */
struct shared_ration;

/*
 * Maps the file `name` of the directory, which only root can write. With directory -1, or if the file cannot be used,
 * the ration is this process's own. Returns NULL only without memory. shared_ration_free frees it, and accepts NULL.
 */
struct shared_ration *shared_ration_open(int directory, const char *name);
void shared_ration_free(struct shared_ration *ration);

/*
 * Books cpu_ns of CPU time and returns the time (CLOCK_MONOTONIC) from which on the caller may use it: now_ns if
 * nothing is left to wait for. Callers get their times in the order of their bookings. With ration NULL, nothing is
 * counted.
 */
uint64_t shared_ration_book(struct shared_ration *ration, enum shared_ration_kind kind, uint64_t cpu_ns,
                            uint64_t now_ns);

/*
 * Returns after how many nanoseconds at most backlog_ns of booked CPU time is still waited for; 0: that is so now. With
 * ration NULL, returns 0.
 */
uint64_t shared_ration_wait_ns(const struct shared_ration *ration, enum shared_ration_kind kind, uint64_t backlog_ns,
                               uint64_t now_ns);
