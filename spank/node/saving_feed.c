#include "spank/node/saving_feed.h"

#include "preload/budget/looks.h"
#include "spank/base/files.h"

#define COST_PART    1000    /* of a CPU */
#define CLOCK_OFF_NS 1000000 /* the node's clock was set meanwhile: the ranks look at another time */

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t ahead_ns(void)
{
	return clock_ns(CLOCK_REALTIME) - clock_monotonic_ns();
}

/* The first look whose readings all lie behind that time. Returns whether there is one. */
static bool look_find(struct saving_feed *feed, uint64_t time_ns)
{
	struct looks looks = {.until_ns = time_ns};
	uint64_t first_ns;

	feed->ahead_ns = ahead_ns();
	for (int i = 0; i < 3; i++) {
		uint64_t from_ns = looks.until_ns;

		if (!looks_follow(&looks, feed->found.seed, feed->found.told, from_ns) ||
		    !looks_find(&looks, from_ns, from_ns + feed->ahead_ns))
			return false;
		first_ns = looks.from_ns - look_ahead_ns(looks.until_ns - looks.from_ns);
		if ((int64_t)(first_ns - time_ns) < 0)
			continue;
		look_begin(&feed->look, looks.from_ns, looks.until_ns);
		feed->due_ns = first_ns;
		return true;
	}
	return false;
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

/* What was told of a moment must be what was told before. */
static void ranks_note(struct saving_feed *feed, struct look_ranks *ret_ranks)
{
	if (look_ranks_read(feed->segment, ret_ranks) || !look_ranks_same(&feed->found, ret_ranks))
		feed->look.broken = true;
}

static void reading_take(struct saving_feed *feed)
{
	struct rapl_zone zones[RAPL_ZONES_MAX];
	unsigned moment = feed->look.taken;
	uint64_t began_ns = clock_monotonic_ns();
	size_t count = rapl_read(feed->rapl, zones);

	look_read(&feed->look, zones, count, began_ns, clock_monotonic_ns());
	if (moment == LOOK_BEGIN)
		ranks_note(feed, &feed->begun);
	else if (moment == LOOK_END)
		ranks_note(feed, &feed->ended);
	else if (moment == LOOK_AFTER)
		ranks_note(feed, &feed->after);
}

/* How long the threads slept between two readings, by their own word, cut to what is possible. */
static double slept_s(const struct look_ranks *from, const struct look_ranks *to, double threads_s)
{
	double slept_s = (double)(to->asleep_ns - from->asleep_ns) / 1e9;

	return slept_s < threads_s ? slept_s : threads_s;
}

static void look_add(struct saving_feed *feed)
{
	const uint64_t *at_ns = feed->look.at_ns;
	int64_t off_ns = (int64_t)(ahead_ns() - feed->ahead_ns);
	struct saving_look look;

	if (!look_end(&feed->look, &look) || off_ns > CLOCK_OFF_NS || off_ns < -CLOCK_OFF_NS)
		return;
	look.awake_s = feed->found.threads * (double)(at_ns[LOOK_END] - at_ns[LOOK_BEGIN]) / 1e9;
	look.spent_s = feed->found.threads * (double)(at_ns[LOOK_AFTER] - at_ns[LOOK_END]) / 1e9;
	look.slept_s = slept_s(&feed->begun, &feed->ended, look.awake_s);
	look.asleep_s = slept_s(&feed->ended, &feed->after, look.spent_s);
	saving_add(&feed->sums, &look);
}

/* The look is over, or of no use. What it cost is paid for by a pause. */
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
