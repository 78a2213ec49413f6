/*
 * A ration: how much of something may be used, at once and in the long run. What was used beyond it has to be waited
 * for. One thread's own is pure; a shared one is that of all threads of ours in the slurmstepds of one job on a node.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ration {
	int64_t most;     /* at once */
	uint64_t divisor; /* one comes back in so many nanoseconds */
	int64_t left;
	uint64_t filled_ns;
};

static inline struct ration ration_begin(int64_t most, uint64_t divisor, uint64_t now_ns)
{
	return (struct ration){most, divisor, most, now_ns};
}

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

static inline void ration_use(struct ration *ration, uint64_t amount)
{
	ration->left -= amount < INT32_MAX ? (int64_t)amount : INT32_MAX;
}

/* How long until there is something left: 0, there is. */
static inline uint64_t ration_wait_ns(const struct ration *ration)
{
	return ration->left > 0 ? 0 : (uint64_t)(1 - ration->left) * ration->divisor;
}

#define SHARED_RATION_FILE "ration" /* in the directory of the job's state */

/* One word of the page for each. The number: nanoseconds that the next one waits for each nanosecond of CPU time. */
enum shared_ration_kind {
	SHARED_RATION_SAMPLER, /* 50 */
	SHARED_RATION_BROKER,  /* 40 */
	SHARED_RATION_KINDS
};

/*
 * However many steps the job has, CPU time that one of them uses now has to be waited for by whoever comes next. It is
 * a word for each kind in a page of a file that only root opens: until when what was used so far has to be waited for.
 * Time goes on by itself, so that nobody has to fill it, and one who is killed takes nothing with him.
 */
struct shared_ration;

/*
 * Maps the file of that name in a directory of root's, which may be -1. A file that cannot be had is no error: the
 * ration is the process's own then. Returns NULL only without memory; freed by shared_ration_free, which takes NULL.
 */
struct shared_ration *shared_ration_open(int directory, const char *name);
void shared_ration_free(struct shared_ration *ration);

/*
 * Books CPU time, which may be more than there is, and returns from when on (CLOCK_MONOTONIC) it is to be used: at
 * once, now_ns, where nothing has to be waited for. Those who book have their turns in that order. NULL: nothing is
 * counted.
 */
uint64_t shared_ration_book(struct shared_ration *ration, enum shared_ration_kind kind, uint64_t cpu_ns,
                            uint64_t now_ns);

/* Returns true if no more CPU time than that has to be waited for. */
bool shared_ration_has(const struct shared_ration *ration, enum shared_ration_kind kind, uint64_t backlog_ns,
                       uint64_t now_ns);
