/*
 * Finds the calls that burn CPU without an idle hook. Its law stands at struct watch in wait.h.
 */
#include "preload/idle.h"
#include "preload/prewait.h"
#include "preload/wait.h"

#define SAMPLE_MASK 31
#define LONG_NS     UINT64_C(1000000)
#define HOUR_NS     UINT64_C(3600000000000)
#define BURNS_SURE  3 /* long calls at full CPU that it takes to believe that the row has no idle call */

struct watch watch_table[CALL_ROWS];

uint32_t watch_open(struct wait *wait, enum call_row row, uint32_t mode)
{
	const struct watch *watch = &watch_table[row];

	wait->looked = 1;
	wait->entered_ns = clock_now_ns();
	wait->entered_cpu_ns = watch->clean < WATCH_CLEAN ? clock_thread_cpu_ns() : 0;
	return watch->prewaits ? mode | PROCESS_PREWAITS : mode;
}

/* A transfer keeps the CPU busy too: only a row that has never waited by an idle hook is taken for one that cannot. */
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
		prewait_begin((enum call_row)wait->row);
}

static void watch_learn(const struct wait *wait, struct watch *watch, uint64_t lasted_ns)
{
	bool burned = lasted_ns > LONG_NS && lasted_ns < HOUR_NS && wait->polls < WAIT_FREE_POLLS;

	if (burned && wait->entered_cpu_ns != 0)
		burn_add(wait, watch, lasted_ns);
	if (burned) {
		watch->clean = 0;
		watch->mask = 0;
	} else if (watch->clean < WATCH_CLEAN && ++watch->clean == WATCH_CLEAN) {
		bool all = watch->prewaits || idle.hooks == 0 || process_mode() & PROCESS_PROFILES;

		watch->mask = all ? 0 : SAMPLE_MASK;
	}
}

void watch_close(struct wait *wait)
{
	uint64_t lasted_ns = clock_now_ns() - wait->entered_ns;

	wait->looked = 0;
	if ((int64_t)lasted_ns < 0)
		return; /* the clock went back */
	if (process_mode() & PROCESS_PROFILES)
		wait->lane->calls[wait->row].time_ns += lasted_ns;
	watch_learn(wait, &watch_table[wait->row], lasted_ns);
}
