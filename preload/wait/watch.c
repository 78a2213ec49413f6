/*
 * Finds the calls that burn CPU without an idle hook. The law stands at struct watch.
 */
#include "preload/wait/watch.h"

#define SAMPLE_MASK  31
#define CLEAN_ENOUGH 16
#define LONG_NS      UINT32_C(1000000)
#define BURNS_SURE   3 /* long calls that burn, before the row is taken to have no idle call */

struct watch watch_table[CALL_ROWS];

static uint8_t offered[CALL_ROWS];

void watch_offer(enum call_row row, uint8_t before)
{
	offered[row] = before;
}

void watch_begin(enum call_row row)
{
	if (!offered[row] || process.policy.rungs == 0)
		return;
	watch_table[row].mask = 0;
	watch_table[row].short_ns = 0;
	watch_table[row].before = offered[row];
	if (offered[row] == PROCESS_PREWAITS)
		process_flag(MPIWAIT_FLAG_PREWAITS);
}

void watch_end(enum call_row row)
{
	watch_table[row].before = 0;
	watch_table[row].clean = 0;
}

uint32_t watch_open(struct wait *wait, enum call_row row, uint32_t mode)
{
	const struct watch *watch = &watch_table[row];

	if (watch->clean < CLEAN_ENOUGH)
		wait->entered_cpu_ns = clock_thread_cpu_ns();
	return mode | watch->before;
}

/*
 * Counts a call that burned. A transfer keeps the CPU busy too, so only a row that has never waited by an idle hook is
 * taken for one that cannot.
 */
static void burn_add(const struct wait *wait, struct watch *watch, uint64_t lasted_ns)
{
	struct mpiwait_call_stats *call = &wait->lane->calls[wait->row];
	uint64_t cpu_ns = clock_thread_cpu_ns() - wait->entered_cpu_ns;

	if (cpu_ns <= lasted_ns / 4)
		return;
	call->burned_ns += lasted_ns;
	call->burned_cpu_ns += cpu_ns < lasted_ns ? cpu_ns : lasted_ns;
	if (wait->kind != CALL_WAIT || call->waits > 0)
		return;
	if (watch->burns < BURNS_SURE && ++watch->burns == BURNS_SURE)
		watch_begin((enum call_row)wait->row);
}

/* A clock that went back shows up as the longest time of all. */
void watch_learn(struct wait *wait, uint64_t lasted_ns)
{
	struct watch *watch = &watch_table[wait->row];

	if (process_mode() & PROCESS_PROFILES && (int64_t)lasted_ns > 0)
		wait->lane->calls[wait->row].time_ns += lasted_ns;
	if (lasted_ns > LONG_NS && lasted_ns < WAIT_HOUR_NS && wait->polls < WAIT_FREE_POLLS) {
		if (wait->entered_cpu_ns != 0)
			burn_add(wait, watch, lasted_ns);
		watch->clean = watch->mask = 0;
		watch->short_ns = 0;
	} else if (watch->clean < CLEAN_ENOUGH && ++watch->clean == CLEAN_ENOUGH && !watch->before) {
		watch->short_ns = LONG_NS;
		watch->mask = process.hooks == 0 || process_mode() & PROCESS_PROFILES ? 0 : SAMPLE_MASK;
	}
	wait->entered_cpu_ns = 0;
}
