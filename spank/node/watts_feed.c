#include "spank/node/watts_feed.h"

#include "spank/base/proc.h"
#include "spank/machine/processors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RUNNING_MIN 0.95 /* of the interval, between Init and Finalize; the rest is that two clocks are read */
#define WHOLE_MIN   0.05 /* seconds: a shorter interval is all granularity */

struct seen {
	uint32_t pid;
	int32_t package;
	bool usable; /* neither stopped (scontrol suspend) nor doubtful */
	uint64_t wait_ns;
	uint64_t asleep_ns;
	uint64_t span_ns;
};

struct watts_feed {
	struct watts sums;
	bool has_last;
	struct energy_snapshot last;
	size_t count;
	struct seen rank[MPIWAIT_SLOTS_MAX];
	struct seen now[MPIWAIT_SLOTS_MAX];
};

/* The ranks of one package in one interval. */
struct interval {
	int32_t id;
	bool whole;
	double rank_s[FIT_STATE_COUNT];
};

struct intervals {
	uint32_t count;
	struct interval interval[PACKAGES_MAX];
};

struct watts_feed *watts_feed_new(void)
{
	return calloc(1, sizeof(struct watts_feed));
}

void watts_feed_free(struct watts_feed *feed)
{
	free(feed);
}

const struct watts *watts_feed_sums(const struct watts_feed *feed)
{
	return &feed->sums;
}

/* The pid is the rank's claim: at worst the package of another process is taken for its own. */
static int32_t package_of(uint32_t pid, bool *ret_stopped)
{
	struct proc_stat stat;

	if (proc_stat_of((pid_t)pid, &stat))
		return -1;
	*ret_stopped = stat.state == 'T';
	return stat.cpu < 0 ? -1 : processors_package((uint32_t)stat.cpu);
}

static struct interval *interval_of(struct intervals *intervals, int32_t id)
{
	for (uint32_t i = 0; i < intervals->count; i++)
		if (intervals->interval[i].id == id)
			return &intervals->interval[i];
	if (intervals->count == PACKAGES_MAX)
		return NULL;
	intervals->interval[intervals->count] = (struct interval){.id = id, .whole = true};
	return &intervals->interval[intervals->count++];
}

static double advance_s(uint64_t before, uint64_t now, double most)
{
	return now > before ? fmin((double)(now - before) / 1e9, most) : 0;
}

static void rank_add(struct intervals *intervals, const struct seen *before, const struct seen *now, double seconds)
{
	struct interval *interval = interval_of(intervals, now->package);
	double running, waiting, asleep;

	if (!interval)
		return;
	if (!before || before->pid != now->pid) {
		interval->whole = false;
		return;
	}
	running = advance_s(before->span_ns, now->span_ns, seconds);
	waiting = advance_s(before->wait_ns, now->wait_ns, running);
	asleep = advance_s(before->asleep_ns, now->asleep_ns, waiting);
	interval->whole &= running >= RUNNING_MIN * seconds && before->usable && now->usable;
	interval->rank_s[FIT_ASLEEP] += asleep;
	interval->rank_s[FIT_SPINNING] += waiting - asleep;
	interval->rank_s[FIT_COMPUTING] += running - waiting;
}

/* The joules of a package, its dies together; false where a counter had a gap. */
static bool package_joules(const struct energy_window *window, int32_t id, double *ret_joules)
{
	double joules = 0;
	bool found = false;

	for (uint32_t i = 0; i < window->zone_count; i++) {
		const struct energy_window_zone *zone = &window->zone[i];
		int32_t number;

		if (zone->kind != RAPL_PACKAGE || sscanf(zone->name, "package-%d", &number) != 1 || number != id)
			continue;
		if (zone->gaps > 0 || zone->problem != ENERGY_FINE)
			return false;
		joules += (double)zone->used_uj / 1e6;
		found = true;
	}
	*ret_joules = joules;
	return found;
}

static void interval_add(struct watts *watts, const struct interval *interval, const struct energy_window *window,
                         double seconds)
{
	struct fit_sums *sums = interval->id < 0 ? NULL : watts_sums_of(watts, interval->id);
	double joules;

	if (!sums)
		return;
	if (interval->whole && seconds >= WHOLE_MIN && package_joules(window, interval->id, &joules)) {
		fit_add(sums, seconds, joules, interval->rank_s);
		return;
	}
	for (int state = 0; state < FIT_STATE_COUNT; state++)
		sums->rank_s[state] += interval->rank_s[state];
}

static size_t look(struct watts_feed *feed, const struct slots *slots)
{
	size_t count = slots->count < MPIWAIT_SLOTS_MAX ? slots->count : MPIWAIT_SLOTS_MAX;

	for (size_t i = 0; i < count; i++) {
		const struct slots_rank *rank = &slots->rank[i];
		bool stopped = false;
		int32_t package = package_of(rank->pid, &stopped);

		feed->now[i] = (struct seen){
		        .pid = rank->pid,
		        .package = package,
		        .usable = !stopped && !rank->doubtful,
		        .wait_ns = rank->wait_ns,
		        .asleep_ns = rank->asleep_ns,
		        .span_ns = rank->span_ns,
		};
	}
	return count;
}

void watts_feed_add(struct watts_feed *feed, const struct energy_snapshot *now, const struct slots *slots)
{
	struct intervals intervals = {0};
	struct energy_window window;
	size_t count = look(feed, slots);
	double seconds;

	if (feed->has_last && now->at_ns > feed->last.at_ns) {
		seconds = (double)(now->at_ns - feed->last.at_ns) / 1e9;
		energy_between(&feed->last, now, &window);
		for (size_t i = 0; i < count; i++)
			rank_add(&intervals, i < feed->count ? &feed->rank[i] : NULL, &feed->now[i], seconds);
		for (uint32_t i = 0; i < intervals.count; i++)
			interval_add(&feed->sums, &intervals.interval[i], &window, seconds);
	}
	feed->has_last = true;
	feed->last = *now;
	feed->count = count;
	memcpy(feed->rank, feed->now, count * sizeof(feed->now[0]));
}
