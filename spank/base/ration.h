/*
 * A ration: how much of something may be used, at once and in the long run. What was used beyond it has to be waited
 * for. Pure.
 */
#pragma once

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
