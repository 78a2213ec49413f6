#include "spank/node/watts_feed.h"

#include "spank/base/cleanup.h"
#include "spank/base/proc.h"
#include "spank/machine/processors.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#define RUNNING_MIN 0.95 /* of the interval, between Init and Finalize; the rest is that two clocks are read */
#define WHOLE_MIN   0.05 /* seconds: a shorter interval is all granularity */

/* The ranks of one package in one interval. */
struct interval {
	bool occupied;
	bool broken; /* the package's ranks were not the same all the time, or not all of them ran */
	double rank_s[FIT_STATE_COUNT];
};

/*
 * The pid is the rank's claim, and in a container it is one of the container's numbering: at worst the package of
 * another process of the user's is taken for its own.
 */
static struct watts_rank look(const struct slots_rank *rank, uid_t uid)
{
	struct watts_rank seen = {.rank = *rank, .package = -1, .usable = !rank->doubtful};
	struct proc_stat stat_now;
	cleanup_close int process = -1;
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)rank->pid);
	process = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (process < 0 || fstat(process, &status) || status.st_uid != uid ||
	    proc_stat_read(process, "stat", &stat_now))
		return seen;
	seen.usable &= stat_now.state != 'T';
	if (stat_now.cpu >= 0)
		seen.package = processors_package((uint32_t)stat_now.cpu);
	return seen;
}

static double advance_s(uint64_t before, uint64_t now, double most)
{
	return now > before ? fmin((double)(now - before) / 1e9, most) : 0;
}

static void rank_add(struct interval *interval, const struct watts_rank *before, const struct watts_rank *now,
                     double seconds)
{
	double running, waiting, asleep;

	interval->occupied = true;
	if (!before || before->rank.pid != now->rank.pid) {
		interval->broken = true;
		return;
	}
	running = advance_s(before->rank.span_ns, now->rank.span_ns, seconds);
	waiting = advance_s(before->rank.wait_ns, now->rank.wait_ns, running);
	asleep = advance_s(before->rank.asleep_ns, now->rank.asleep_ns, waiting);
	interval->broken |= running < RUNNING_MIN * seconds || !before->usable || !now->usable;
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
		const struct energy_zone *zone = &window->zone[i];
		int32_t number;

		if (zone->kind != RAPL_PACKAGE || zone->problem == ENERGY_MIRRORED ||
		    sscanf(zone->name, "package-%d", &number) != 1 || number != id)
			continue;
		if (zone->gaps > 0 || zone->problem != ENERGY_FINE)
			return false;
		joules += (double)zone->used_uj / 1e6;
		found = true;
	}
	*ret_joules = joules;
	return found;
}

static void interval_end(const struct interval *interval, const struct energy_window *window, double seconds,
                         struct watts_package *package)
{
	double joules;

	if (!interval->broken && seconds >= WHOLE_MIN && package_joules(window, package->id, &joules)) {
		fit_add(&package->sums, seconds, joules, interval->rank_s);
		return;
	}
	for (int state = 0; state < FIT_STATE_COUNT; state++)
		package->sums.rank_s[state] += interval->rank_s[state];
}

void watts_feed_add(struct watts_feed *feed, const struct energy_snapshot *now, const struct slots *slots)
{
	struct interval intervals[PACKAGES_MAX] = {{false}}; /* as the packages of the sums */
	bool is_first = feed->snapshot.zone_count == 0 || now->at_ns <= feed->snapshot.at_ns;
	double seconds = is_first ? 0 : (double)(now->at_ns - feed->snapshot.at_ns) / 1e9;
	struct energy_window window;
	size_t before = feed->count;

	for (feed->count = 0; feed->count < slots->count && feed->count < MPIWAIT_SLOTS_MAX; feed->count++) {
		struct watts_rank *last = &feed->rank[feed->count], seen = look(&slots->rank[feed->count], feed->uid);
		struct watts_package *package = is_first ? NULL : watts_package_of(&feed->sums, seen.package);

		if (package)
			rank_add(&intervals[package - feed->sums.package], feed->count < before ? last : NULL, &seen,
			         seconds);
		*last = seen;
	}
	energy_between(&feed->snapshot, now, &window);
	for (uint32_t i = 0; i < feed->sums.count; i++)
		if (intervals[i].occupied)
			interval_end(&intervals[i], &window, seconds, &feed->sums.package[i]);
	feed->snapshot = *now;
}
