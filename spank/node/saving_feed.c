#include "spank/node/saving_feed.h"

#include "preload/contract/looks.h"
#include "spank/base/files.h"

#define COST_PART     1000 /* the feed takes 1/COST_PART of a CPU */
#define WINDOWS_TRIED 8
#define CLOCK_OFF_NS  1000000 /* a larger step of the node's clock moves the ranks' looks */

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Returns by how much the node's clock is ahead of CLOCK_MONOTONIC. */
static uint64_t ahead_ns(void)
{
	return clock_ns(CLOCK_REALTIME) - clock_monotonic_ns();
}

/*
 * Finds the window of one kind of ranks that is open at `time_ns`, or the next one. Returns false if `told` tells of
 * none.
 */
static bool window_find(const struct saving_feed *feed, uint64_t told, uint64_t time_ns, struct look_span *ret_window)
{
	struct looks looks;

	if (!looks_follow(&looks, feed->found.seed, told, time_ns))
		return false;
	looks_find(&looks, time_ns, time_ns + feed->ahead_ns);
	*ret_window = (struct look_span){looks.from_ns, looks.until_ns};
	return true;
}

/*
 * Finds the window of the kind with the rarest windows. They begin with windows of the other kinds, except at the ends
 * of periods.
 */
static bool rarest_find(const struct saving_feed *feed, uint64_t time_ns, struct look_span *ret_window)
{
	struct look_span window;

	for (uint32_t i = 0; i < feed->found.kinds; i++) {
		if (!window_find(feed, feed->found.told[i], time_ns, &window))
			return false;
		if (i == 0 || window.from_ns > ret_window->from_ns)
			*ret_window = window;
	}
	return feed->found.kinds > 0;
}

/*
 * Finds the time in which all kinds have a window open, and the time in which any has. Returns true if all look for
 * more than half of the shortest window.
 */
static bool spans_find(const struct saving_feed *feed, uint64_t time_ns, struct look_span *ret_all,
                       struct look_span *ret_any)
{
	uint64_t shortest_ns = UINT64_MAX;
	struct look_span window = {0, 0};

	*ret_all = (struct look_span){0, UINT64_MAX};
	*ret_any = (struct look_span){UINT64_MAX, 0};
	for (uint32_t i = 0; i < feed->found.kinds; i++) {
		window_find(feed, feed->found.told[i], time_ns, &window);
		ret_all->from_ns = max(ret_all->from_ns, window.from_ns);
		ret_all->until_ns = min(ret_all->until_ns, window.until_ns);
		ret_any->from_ns = min(ret_any->from_ns, window.from_ns);
		ret_any->until_ns = max(ret_any->until_ns, window.until_ns);
		shortest_ns = min(shortest_ns, window.until_ns - window.from_ns);
	}
	return ret_all->until_ns > ret_all->from_ns && ret_all->until_ns - ret_all->from_ns > shortest_ns / 2;
}

/* Finds the first look that begins after `time_ns`, among the next WINDOWS_TRIED windows. */
static void look_find(struct saving_feed *feed, uint64_t time_ns)
{
	struct look_span rarest = {.until_ns = time_ns}, all, any;

	feed->ahead_ns = ahead_ns();
	for (int i = 0; i < WINDOWS_TRIED; i++) {
		if (!rarest_find(feed, rarest.until_ns, &rarest))
			return;
		if (!spans_find(feed, rarest.from_ns, &all, &any))
			continue;
		look_begin(&feed->look, all, any);
		if ((int64_t)(feed->look.due_ns[LOOK_BEFORE] - time_ns) < 0)
			continue;
		feed->due_ns = feed->look.due_ns[LOOK_BEFORE];
		return;
	}
}

static void next_find(struct saving_feed *feed)
{
	uint64_t now_ns = clock_monotonic_ns();

	feed->due_ns = SAVING_FEED_NEVER;
	if (look_ranks_read(feed->segment, &feed->found) == 0 && look_ranks_same(&feed->found, &feed->found))
		look_find(feed, feed->free_ns > now_ns ? feed->free_ns : now_ns);
}

void saving_feed_find(struct saving_feed *feed)
{
	uint64_t began_ns;

	if (feed->segment < 0 || !feed->rapl || feed->due_ns != SAVING_FEED_NEVER)
		return;
	began_ns = cpu_ns();
	next_find(feed);
	feed->cost_ns += cpu_ns() - began_ns;
}

/* Takes the reading that is due. The look is broken if the ranks tell something else than when it was found. */
static void reading_take(struct saving_feed *feed)
{
	struct rapl_zone zones[RAPL_ZONES_MAX];
	unsigned moment = feed->look.taken;
	uint64_t began_ns = clock_monotonic_ns();
	size_t count = rapl_read(feed->rapl, zones);

	look_read(&feed->look, zones, count, began_ns, clock_monotonic_ns());
	if (moment < LOOK_INSIDE || feed->look.broken)
		return;
	if (look_ranks_read(feed->segment, &feed->ranks[moment]) ||
	    !look_ranks_same(&feed->found, &feed->ranks[moment]))
		feed->look.broken = true;
}

/* Returns how long the threads slept between two moments, by their own claim, cut to what is possible. */
static double slept_s(const struct saving_feed *feed, enum look_moment from, enum look_moment to, double threads_s)
{
	double slept_s = (double)(feed->ranks[to].asleep_ns - feed->ranks[from].asleep_ns) / 1e9;

	return slept_s < threads_s ? slept_s : threads_s;
}

/* Returns the time between two moments, times the number of waiting threads. */
static double threads_s(const struct saving_feed *feed, enum look_moment from, enum look_moment to)
{
	return feed->found.threads * (double)(feed->look.at_ns[to] - feed->look.at_ns[from]) / 1e9;
}

/* Adds the look to the sums, if it is complete and the node's clock was not set meanwhile. */
static void look_add(struct saving_feed *feed)
{
	int64_t off_ns = (int64_t)(ahead_ns() - feed->ahead_ns);
	struct saving_look look;

	if (!look_end(&feed->look, &look) || off_ns > CLOCK_OFF_NS || off_ns < -CLOCK_OFF_NS)
		return;
	look.awake_s = threads_s(feed, LOOK_INSIDE, LOOK_END);
	look.spent_s = threads_s(feed, LOOK_BEHIND, LOOK_AFTER);
	look.slept_s = slept_s(feed, LOOK_INSIDE, LOOK_END, look.awake_s);
	look.asleep_s = slept_s(feed, LOOK_BEHIND, LOOK_AFTER, look.spent_s);
	saving_add(&feed->sums, &look);
}

/* Ends a look, complete or not: books its cost, and sets the pause that pays for it. */
static void look_leave(struct saving_feed *feed)
{
	uint64_t now_ns = clock_monotonic_ns(), turn_ns;

	turn_ns = shared_ration_book(feed->ration, SHARED_RATION_SAMPLER, feed->cost_ns, now_ns);
	feed->free_ns = now_ns + COST_PART * feed->cost_ns;
	feed->free_ns = feed->free_ns > turn_ns ? feed->free_ns : turn_ns;
	feed->cost_ns = 0;
	next_find(feed);
}

void saving_feed_step(struct saving_feed *feed)
{
	uint64_t began_ns = cpu_ns();
	bool over;

	reading_take(feed);
	over = feed->look.broken || feed->look.taken == LOOK_MOMENTS;
	if (over)
		look_add(feed);
	else
		feed->due_ns = feed->look.due_ns[feed->look.taken];
	feed->cost_ns += cpu_ns() - began_ns;
	if (over)
		look_leave(feed);
}
