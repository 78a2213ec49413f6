/*
 * What a wait knows and plans: looks, forecasts, account and plan, each against what its header promises. Times are
 * given, none is measured. Constants are used by their names where a header has them; where it has none, the tests
 * allow for another one.
 */
#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "preload/budget/plan.h"
#include "tests/lib/check.h"

#define US         UINT64_C(1000)
#define MS         UINT64_C(1000000)
#define SECOND     UINT64_C(1000000000)
#define TURN       UINT64_C(16000000)
#define ANY_WINDOW 0 /* a window that sees periods of any length as often */
#define OPENED     (5 * SECOND)
#define SEED       4711
#define SLOWDOWN   10000 /* millionths */
#define UNIT       (UINT64_C(1) << FORECAST_UNIT)

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

static bool is_near(double value, double wanted, double share)
{
	double beside = value > wanted ? value - wanted : wanted - value;

	return beside <= (wanted > 0 ? wanted : -wanted) * share;
}

/* ---- Looks ---- */

#define WINDOWS 4000
#define TICK    (100 * US)

/* The windows that a rank finds, by the node's clock. */
struct found {
	uint64_t from_ns[WINDOWS], until_ns[WINDOWS], number[WINDOWS];
	int count;
};

static struct found found[3];

/* A rank whose own clock is own_ns behind the node's looks for windows for so long, in a job that stays young, or is
 * old. */
static void windows_find(struct found *ret, struct looks looks, uint64_t own_ns, uint64_t lasts_ns, bool old)
{
	uint64_t begin_ns = 100 * SECOND + 7 * MS;

	ret->count = 0;
	for (uint64_t real_ns = begin_ns; real_ns < begin_ns + lasts_ns && ret->count < WINDOWS; real_ns += TICK) {
		looks.opened_ns = old ? 0 : real_ns - own_ns - LOOKS_FIRST_NS;
		if (looks_find(&looks, real_ns - own_ns, real_ns)) {
			ret->from_ns[ret->count] = looks.from_ns + own_ns;
			ret->until_ns[ret->count] = looks.until_ns + own_ns;
			ret->number[ret->count++] = looks.number;
		}
	}
}

static struct looks looks_of(uint32_t level)
{
	struct looks looks;

	looks_open(&looks, SEED, 0);
	looks.level = level;
	return looks;
}

/* A process that is told of a rank's looks finds the same windows, by a clock of its own. */
static void test_looks_are_told(void)
{
	struct looks looks, other;
	uint64_t own_ns = 50 * SECOND;

	for (uint32_t level = 0; level <= LOOKS_LEVELS; level++)
		for (uint64_t real_ns = 10000 * SECOND; real_ns < 12000 * SECOND; real_ns += 31 * SECOND + 77 * MS) {
			bool old = real_ns > 11000 * SECOND;

			looks = looks_of(level);
			looks.opened_ns = old ? 0 : real_ns - LOOKS_FIRST_NS;
			CHECK(looks_find(&looks, real_ns, real_ns));
			CHECK(looks_follow(&other, SEED, looks_tell(&looks, real_ns), real_ns - own_ns));
			CHECK(looks_find(&other, real_ns - own_ns, real_ns));
			CHECK_LAW(other.from_ns + own_ns == looks.from_ns &&
			                  other.until_ns + own_ns == looks.until_ns && other.number == looks.number,
			          "level %u, at %llu", level, (unsigned long long)real_ns);
		}
	CHECK(!looks_follow(&other, SEED, 0, SECOND) && !looks_follow(&other, SEED, UINT64_MAX, SECOND) &&
	      !looks_follow(&other, SEED, 2 * LOOKS_LEVELS + 3, SECOND));
}

static double duty(const struct found *windows, uint64_t lasts_ns)
{
	uint64_t sum_ns = 0;

	for (int i = 0; i < windows->count; i++)
		sum_ns += windows->until_ns[i] - windows->from_ns[i];
	return (double)sum_ns / (double)lasts_ns;
}

/* Whether one of the windows begins then. */
static bool begins(const struct found *windows, uint64_t from_ns)
{
	for (int i = 0; i < windows->count; i++)
		if (windows->from_ns[i] == from_ns)
			return true;
	return false;
}

/* Whether one of the windows lies in that time. */
static bool contains(const struct found *windows, uint64_t from_ns, uint64_t until_ns)
{
	for (int i = 0; i < windows->count; i++)
		if (windows->from_ns[i] >= from_ns && windows->until_ns[i] <= until_ns)
			return true;
	return false;
}

static void test_looks_are_the_same_for_all_ranks(void)
{
	static const uint64_t behind_ns[] = {50 * SECOND, 50 * SECOND + 500 * US, 99 * SECOND - 500 * US};

	for (int i = 0; i < 3; i++)
		windows_find(&found[i], looks_of(0), behind_ns[i], 30 * SECOND, false);
	CHECK(found[0].count > 400);
	for (int i = 1; i < 3; i++) {
		CHECK(found[i].count == found[0].count);
		CHECK(memcmp(found[i].from_ns, found[0].from_ns, sizeof(found[0].from_ns)) == 0);
		CHECK(memcmp(found[i].number, found[0].number, sizeof(found[0].number)) == 0);
	}
	for (int i = 1; i < found[0].count; i++) {
		CHECK_LAW(found[0].number[i] != found[0].number[i - 1], "window %d", i);
		CHECK_LAW(found[0].from_ns[i] >= found[0].until_ns[i - 1], "window %d", i);
	}
}

static void test_looks_take_a_sixteenth_and_less_in_an_old_job(void)
{
	uint64_t lasts_ns = 60 * SECOND;
	int within = 0;

	windows_find(&found[0], looks_of(0), SECOND, lasts_ns + SECOND, false);
	windows_find(&found[1], looks_of(0), SECOND, lasts_ns, true);
	EXPECT(is_near(duty(&found[0], lasts_ns + SECOND), 1.0 / 16, 0.1), "%f", duty(&found[0], lasts_ns + SECOND));
	EXPECT(is_near(duty(&found[1], lasts_ns), 1.0 / 64, 0.1), "%f", duty(&found[1], lasts_ns));
	for (int i = 0; i < found[1].count; i++)
		within += begins(&found[0], found[1].from_ns[i]);
	EXPECT(within == found[1].count, "%d of %d", within, found[1].count);
}

static void test_a_job_is_young_for_some_periods(void)
{
	uint64_t period_ns = UINT64_C(1) << LOOKS_PERIOD_SHIFT, now_ns = SECOND;
	struct looks looks;
	int young = 0, later = 0;

	looks_open(&looks, SEED, now_ns);
	for (; now_ns < SECOND + LOOKS_YOUNG * period_ns; now_ns += TICK)
		young += looks_find(&looks, now_ns, 50 * SECOND + now_ns);
	for (; now_ns < SECOND + 11 * LOOKS_YOUNG * period_ns; now_ns += TICK)
		later += looks_find(&looks, now_ns, 50 * SECOND + now_ns);
	EXPECT(young >= (int)LOOKS_YOUNG - 1 && young <= (int)LOOKS_YOUNG + 2, "%d", young);
	EXPECT(is_near(later, 10.0 * LOOKS_YOUNG / (1 << LOOKS_STEADY_SHIFT), 0.2), "%d", later);
}

static void test_a_longer_window_begins_with_a_shorter_one(void)
{
	for (uint32_t level = 0; level < 4; level++) {
		int same = 0, within = 0;

		windows_find(&found[0], looks_of(level), SECOND, 60 * SECOND, false);
		windows_find(&found[1], looks_of(level + 1), SECOND, 60 * SECOND, false);
		CHECK(found[1].count > 20);
		for (int i = 0; i + 1 < found[1].count; i++) {
			same += begins(&found[0], found[1].from_ns[i]);
			within += contains(&found[0], found[1].from_ns[i], found[1].until_ns[i]);
		}
		EXPECT(same >= found[1].count * 3 / 4, "level %u: %d of %d", level + 1, same, found[1].count);
		EXPECT(within >= found[1].count * 9 / 10, "level %u: %d of %d", level + 1, within, found[1].count);
	}
}

static void phase_check(const struct found *windows, uint64_t period_ns)
{
	int quarter[4] = {0};

	for (int i = 0; i < windows->count; i++)
		quarter[windows->from_ns[i] % period_ns * 4 / period_ns]++;
	for (int i = 0; i < 4; i++)
		CHECK_LAW(quarter[i] > windows->count / 6, "%" PRIu64 " us: %d of %d", period_ns / US, quarter[i],
		          windows->count);
}

static void test_no_period_keeps_step_with_looks(void)
{
	windows_find(&found[0], looks_of(0), SECOND, 150 * SECOND, false);
	CHECK(found[0].count > 2000);
	for (uint64_t period_ns = MS; period_ns <= 200 * MS; period_ns += MS)
		phase_check(&found[0], period_ns);
	for (unsigned shift = 20; shift < 28; shift++) /* those of the windows among them */
		phase_check(&found[0], UINT64_C(1) << shift);
}

/* Steps of that period for so long. Returns when they end. */
static uint64_t steps_play(struct looks *looks, uint64_t now_ns, uint64_t period_ns, uint64_t lasts_ns)
{
	uint64_t end_ns = now_ns + lasts_ns;

	for (; now_ns < end_ns; now_ns += period_ns) {
		looks_find(looks, now_ns, 3 * SECOND + now_ns);
		looks_step(looks, period_ns, period_ns, now_ns);
	}
	return now_ns;
}

static void test_windows_hold_steps(void)
{
	static const uint64_t periods_ns[] = {MS / 2, 3 * MS, 10 * MS, 50 * MS, 300 * MS, SECOND};

	for (size_t i = 0; i < sizeof(periods_ns) / sizeof(periods_ns[0]); i++) {
		uint64_t period_ns = periods_ns[i], now_ns, window_ns;
		struct looks looks = looks_of(0);
		uint32_t level;

		now_ns = steps_play(&looks, SECOND, period_ns, 16 * 16 * LOOKS_STEPS * period_ns + SECOND);
		window_ns = looks.until_ns - looks.from_ns;
		level = looks.level;
		EXPECT(window_ns >= LOOKS_STEPS * period_ns, "%" PRIu64 " us: level %u", period_ns / US, level);
		CHECK(level == 0 || window_ns < 2 * LOOKS_STEPS * period_ns);
		now_ns = steps_play(&looks, now_ns, period_ns, 200 * window_ns);
		EXPECT(looks.level == level, "it stays: %u, %u", looks.level, level);
		steps_play(&looks, now_ns, MS / 2, 16 * 64 * window_ns);
		EXPECT(looks.level == 0, "it falls: %u", looks.level);
	}
}

static void test_the_level_has_a_top(void)
{
	struct looks looks = looks_of(0);

	for (int i = 0; i < 100; i++)
		looks_step(&looks, 100 * SECOND, 100 * SECOND, (uint64_t)(i + 2) * 100 * SECOND);
	CHECK(looks.level == LOOKS_LEVELS);
}

/* However long a program has had long steps, short ones soon get shorter windows, and the reverse. */
static void test_steps_of_long_ago_are_forgotten(void)
{
	struct looks looks = looks_of(0);
	uint64_t now_ns = steps_play(&looks, SECOND, 50 * MS, 1000 * SECOND);

	EXPECT(looks.level == 6, "%u", looks.level);
	now_ns = steps_play(&looks, now_ns, MS / 2, 100 * SECOND);
	EXPECT(looks.level == 0, "%u", looks.level);
	steps_play(&looks, now_ns, 50 * MS, 10 * SECOND);
	EXPECT(looks.level == 6, "%u", looks.level);
}

/* Steps of 1 ms, in a burst of so many, after which the program works for so long and calls once. */
static void bursts_play(struct looks *looks, int steps, uint64_t work_ns, int kinds)
{
	uint64_t now_ns = SECOND, length_ns = (uint64_t)steps * MS + work_ns;

	for (int burst = 0; burst < 200; burst++) {
		for (int step = 0; step < steps; step++) {
			now_ns += MS;
			looks_find(looks, now_ns, now_ns);
			for (int kind = 0; kind < kinds && step > 0; kind++)
				looks_step(looks, MS, MS, now_ns);
		}
		now_ns += work_ns;
		looks_find(looks, now_ns, now_ns);
		if (burst > 0)
			looks_step(looks, length_ns, length_ns, now_ns);
	}
}

/* An output after each hundred steps, say, has no part in which window is long enough. */
static void test_a_rare_call_makes_no_window_longer(void)
{
	struct looks looks = looks_of(0);

	bursts_play(&looks, 100, 0, 1);
	EXPECT(looks.level == 0, "%u", looks.level);
	looks = looks_of(7); /* nor does it keep one long */
	bursts_play(&looks, 100, 0, 1);
	EXPECT(looks.level == 0, "%u", looks.level);
}

/* The calls of a short part of the program, however many, leave the rest to longer windows. */
static void test_windows_hold_what_covers_the_time(void)
{
	for (int kinds = 1; kinds < 10; kinds++) {
		struct looks looks = looks_of(0);

		bursts_play(&looks, 20, 80 * MS, kinds);
		EXPECT(looks.level == 7, "%d kinds: %u", kinds, looks.level);
	}
}

/* One window in four of a steady job is strict, the same in all ranks, and none of a young job. */
static void test_a_steady_job_has_strict_windows(void)
{
	int strict = 0;

	for (uint64_t i = 1; i <= 1000; i++) {
		uint64_t now_ns = i * SECOND / 4;
		struct looks looks;

		looks_open(&looks, SEED, 0);
		looks_find(&looks, now_ns, now_ns);
		CHECK(looks.strict == (looks.number % 4 == 0));
		strict += looks.strict;
		looks_open(&looks, SEED, now_ns - SECOND / 20);
		looks_find(&looks, now_ns, now_ns);
		CHECK(!looks.strict);
	}
	EXPECT(strict > 200 && strict < 300, "%d", strict);
}

static void test_a_job_looks_at_first(void)
{
	struct looks looks;

	looks_open(&looks, SEED, SECOND);
	CHECK(looks_at(&looks, SECOND) && looks_at(&looks, SECOND + LOOKS_FIRST_NS - 1));
	CHECK(!looks_at(&looks, SECOND + LOOKS_FIRST_NS));
	looks.level = 1;
	CHECK(looks_at(&looks, SECOND + 2 * LOOKS_FIRST_NS - 1) && !looks_at(&looks, SECOND + 2 * LOOKS_FIRST_NS));
	looks.level = 5;
	CHECK(looks_at(&looks, SECOND + 32 * LOOKS_FIRST_NS - 1) && !looks_at(&looks, SECOND + 32 * LOOKS_FIRST_NS));
	looks.level = 6;
	CHECK(looks_at(&looks, SECOND + LOOKS_FIRST_NS - 1) && !looks_at(&looks, SECOND + LOOKS_FIRST_NS));
	looks.level = 0;
	CHECK(looks_find(&looks, SECOND + LOOKS_FIRST_NS, SECOND));
	CHECK(!looks_find(&looks, looks.until_ns - 1, SECOND));
	CHECK(looks_at(&looks, looks.from_ns) && !looks_at(&looks, looks.until_ns) &&
	      !looks_at(&looks, looks.from_ns - 1));
}

/* ---- Forecasts ---- */

#define SITE 17
#define LOOK 3

static struct forecast forecast;
static bool looked, has_changed;
static uint32_t passed_periods; /* that the latest call ended after */
static uint32_t calls;          /* of calls_play */

static void forecast_reset(uint32_t ranks)
{
	memset(&forecast, 0, sizeof(forecast));
	forecast.ranks = ranks;
	forecast.previous = SITE;
}

/* A call of that site waits from began_ns for so long. Returns the time since it ended before. */
static uint64_t call_play(uint64_t site, uint32_t number, uint64_t began_ns, uint64_t lasted_ns,
                          struct forecast_seen seen)
{
	struct forecast_passed passed;

	seen.ended_ns = began_ns + lasted_ns;
	forecast_open(&forecast, site, number, began_ns);
	passed = forecast_close(&forecast, seen);
	looked = passed.looked;
	has_changed = passed.changed;
	passed_periods = passed.periods;
	return passed.ns;
}

#define SEEN_LOOK  ((struct forecast_seen){.look = LOOK})
#define SEEN_ELSE  ((struct forecast_seen){.look = 0})
#define SEEN_AWAKE ((struct forecast_seen){.awake = true})
#define SEEN_SLEPT ((struct forecast_seen){.slept = true})
#define SEEN_LATE  ((struct forecast_seen){.slept = true, .late = true})

/* The same call, so many times, in a look: the waits last for lasted_ns, and begin at any time. Returns when it is. */
static uint64_t calls_play(uint64_t site, uint64_t now_ns, uint64_t lasted_ns, int count)
{
	for (int i = 0; i < count; i++) {
		now_ns += MS + random_below(MS);
		call_play(site, calls++, now_ns, lasted_ns, SEEN_LOOK);
		now_ns += lasted_ns;
	}
	return now_ns;
}

/* When a call ends that begins then. */
static uint64_t end_of(uint64_t site, uint32_t number, uint64_t began_ns)
{
	uint64_t past_ns;

	forecast_open(&forecast, site, number, began_ns);
	return forecast_knows(&forecast) ? forecast_end(&forecast, began_ns, &past_ns) : 0;
}

static bool is_end(uint64_t end_ns, uint64_t wanted_ns)
{
	return end_ns <= wanted_ns && end_ns + 2 * UNIT > wanted_ns;
}

static void test_the_clock_that_varies_less_counts(void)
{
	uint64_t now_ns;

	forecast_reset(2);
	now_ns = calls_play(SITE, SECOND, 700 * US, 8);
	CHECK(is_end(end_of(SITE, calls, now_ns + 300 * US), now_ns + 1000 * US));
	forecast_reset(2);
	for (uint32_t i = 0; i < 10; i++) {
		uint64_t wait_ns = 200 * US + random_below(MS);

		call_play(SITE, i, SECOND + i * 2 * MS - wait_ns, wait_ns, SEEN_LOOK);
	}
	now_ns = SECOND + 18 * MS;
	CHECK(is_end(end_of(SITE, 10, now_ns + 300 * US), now_ns + 2 * MS));
	CHECK(is_end(end_of(SITE, 10, now_ns + 1500 * US), now_ns + 2 * MS));
}

/* A call of the site, which begins so long after it ended before, and waits for so long. */
static uint64_t step_play(uint64_t now_ns, uint64_t work_ns, uint64_t lasted_ns, struct forecast_seen seen)
{
	call_play(SITE, calls++, now_ns + work_ns, lasted_ns, seen);
	return now_ns + work_ns + lasted_ns;
}

/* The next call of the site, that begins then, and the work after it, which is about the usual. */
static void next_play(uint64_t *now_ns, uint64_t lasted_ns, struct forecast_seen seen)
{
	call_play(SITE, calls++, *now_ns, lasted_ns, seen);
	*now_ns += lasted_ns + forecast.entry->work_ns - random_below(MS / 4);
}

static void only_looks_make_an_end_later(uint32_t ranks, uint64_t longer_ns)
{
	uint64_t now_ns;

	forecast_reset(ranks);
	now_ns = calls_play(SITE, SECOND, MS, 8);
	for (int i = 0; i < 20; i++) {
		next_play(&now_ns, longer_ns, i % 2 ? SEEN_SLEPT : SEEN_ELSE);
		CHECK(!has_changed);
	}
	CHECK(is_end(end_of(SITE, calls, now_ns), now_ns + MS));
	next_play(&now_ns, 600 * US, SEEN_LATE);
	CHECK(is_end(end_of(SITE, calls, now_ns), now_ns + MS)); /* it may have ended before */
	next_play(&now_ns, MS, SEEN_SLEPT);
	next_play(&now_ns, MS - forecast.entry->margin_ns / 2, SEEN_SLEPT);
	CHECK(is_end(end_of(SITE, calls, now_ns), now_ns + MS)); /* the margin covers that */
	next_play(&now_ns, 600 * US, SEEN_SLEPT);
	CHECK(is_end(end_of(SITE, calls, now_ns), now_ns + 600 * US));
	now_ns = calls_play(SITE, now_ns + MS, 1500 * US, FORECAST_ENDS);
	CHECK(is_end(end_of(SITE, calls, now_ns), now_ns + 1500 * US));
}

/* In a job of two ranks waits that are longer by more than a quarter tell of a change. */
static void test_only_looks_make_an_end_later(void)
{
	only_looks_make_an_end_later(2, 1240 * US);
	only_looks_make_an_end_later(3, 1500 * US);
}

/* So many waits of that length after the usual work. Returns whether the last one tells of a change. */
static bool change_after(uint64_t *now_ns, uint64_t lasted_ns, int count)
{
	for (int i = 0; i < count; i++) {
		CHECK(i == 0 || !has_changed);
		next_play(now_ns, lasted_ns, SEEN_SLEPT);
	}
	return has_changed;
}

static void test_three_waits_that_outlast_all_ends_are_a_change(void)
{
	uint64_t now_ns;

	forecast_reset(2);
	now_ns = calls_play(SITE, SECOND, MS, 7);
	now_ns = calls_play(SITE, now_ns, 1100 * US, 1);
	CHECK(!change_after(&now_ns, 1350 * US, 1) && !change_after(&now_ns, 1500 * US, 2)); /* the first by less */
	CHECK(!change_after(&now_ns, 1350 * US, 1));                                         /* not in a row */
	CHECK(!change_after(&now_ns, 1350 * US, 9)); /* by less than a quarter: one end is longer than the others */
	CHECK(!change_after(&now_ns, 1500 * US, 2) && is_end(end_of(SITE, calls, now_ns), now_ns + MS));
	CHECK(change_after(&now_ns, 1500 * US, 1) && !forecast_knows(&forecast));
	CHECK(forecast.entry->wait.count == 1 && is_near((double)forecast_least_ns(&forecast), 1.5e6, 0.01));
	CHECK(!change_after(&now_ns, 1950 * US, 9)); /* too few ends are known */
	forecast_reset(2);
	now_ns = calls_play(SITE, SECOND, MS, 8);
	for (int i = 0; i < 9; i++) {
		next_play(&now_ns, 1500 * US, SEEN_LATE); /* its own naps made it longer */
		CHECK(!has_changed);
	}
}

/* A look, or a pause that serves as one, keeps each end that it sees. */
static void test_three_such_waits_in_a_look_are_a_change_as_well(void)
{
	uint64_t now_ns;

	forecast_reset(2);
	now_ns = calls_play(SITE, SECOND, MS, 8);
	now_ns = calls_play(SITE, now_ns, 10 * MS, 2);
	CHECK(!has_changed && forecast.entry->wait.count == 8);
	now_ns = calls_play(SITE, now_ns, 10 * MS, 1);
	CHECK(has_changed && forecast.entry->wait.count == 1);
	now_ns = calls_play(SITE, now_ns, 10 * MS, 8);
	CHECK(!has_changed && is_end(end_of(SITE, calls, now_ns), now_ns + 10 * MS));
	now_ns = calls_play(SITE, now_ns, 20 * MS, 2);
	CHECK(change_after(&now_ns, 20 * MS, 1)); /* the look is over: its ends do not count as known yet */
}

/* Ends that outlast all others, but not three in a row, are known from then on. */
static void test_two_such_waits_are_known_ends(void)
{
	uint64_t now_ns;

	forecast_reset(2);
	now_ns = calls_play(SITE, SECOND, MS, 8);
	now_ns = calls_play(SITE, now_ns, 10 * MS, 2);
	CHECK(!change_after(&now_ns, MS, 1) && !change_after(&now_ns, 5 * MS, 9));
}

static void test_waits_too_short_for_a_nap_are_no_change(void)
{
	uint64_t now_ns;

	forecast_reset(2);
	now_ns = calls_play(SITE, SECOND, 10 * US, 8);
	CHECK(!change_after(&now_ns, 48 * US, 9));
	CHECK(change_after(&now_ns, 52 * US, 3));
}

/* So is own work that is longer, whatever the waits are. */
static void test_longer_own_work_is_a_change(void)
{
	uint64_t now_ns = SECOND;

	for (uint32_t ranks = 2; ranks <= 3; ranks++) {
		forecast_reset(ranks);
		calls = 0;
		for (int i = 0; i < 8; i++)
			now_ns = step_play(now_ns, MS, MS, SEEN_LOOK);
		for (int i = 0; i < 9; i++) {
			now_ns = step_play(now_ns, 2090 * US, MS, SEEN_SLEPT); /* less than twice as long, and 0.1 ms */
			CHECK(!has_changed);
		}
		for (int i = 0; i < 3; i++) {
			now_ns = step_play(now_ns, 2110 * US, MS, SEEN_SLEPT);
			CHECK(has_changed == (ranks == 2 && i == 2));
		}
		for (int i = 0; i < 9; i++) {
			now_ns = step_play(now_ns, 2110 * US, MS, SEEN_SLEPT);
			CHECK(ranks > 2 || !has_changed); /* it is the usual work now */
		}
	}
}

/* A long wait hardly changes with work that is longer by less than a sixteenth of it; two odd waits do not count. */
static void test_own_work_that_is_longer_by_little_is_no_change(void)
{
	uint64_t now_ns = SECOND;

	forecast_reset(2);
	calls = 0;
	for (int i = 0; i < 8; i++)
		now_ns = step_play(now_ns, MS, i == 2 ? 2 * US : i == 5 ? 640 * MS : 64 * MS, SEEN_LOOK);
	for (int i = 0; i < 9; i++) {
		now_ns = step_play(now_ns, 6 * MS - US, 64 * MS, SEEN_SLEPT);
		CHECK(!has_changed);
	}
	for (int i = 0; i < 3; i++)
		now_ns = step_play(now_ns, 6 * MS + US, 64 * MS, SEEN_SLEPT);
	CHECK(has_changed);
}

/* A first end that was too long for the next wait would be slept through again and again. */
static void test_an_end_that_was_slept_through_is_forgotten(void)
{
	uint64_t now_ns = SECOND;

	forecast_reset(2);
	call_play(SITE, 1, now_ns, 100 * MS, SEEN_ELSE);
	call_play(SITE, 2, now_ns + SECOND, 20 * MS, SEEN_LATE);
	CHECK(forecast.entry->wait.count == 0 && forecast.entry->since.count == 0);
	now_ns = calls_play(SITE, now_ns + 2 * SECOND, 20 * MS, 5);
	call_play(SITE, calls++, now_ns, 10 * MS, SEEN_LATE);
	CHECK(forecast.entry->wait.count == 5); /* these are known */
}

static void test_enough_ends_are_to_be_known(void)
{
	uint64_t now_ns;

	forecast_reset(2);
	now_ns = calls_play(SITE, SECOND, MS, FORECAST_KNOWN - 1);
	CHECK(end_of(SITE, calls, now_ns) == 0);
	now_ns = calls_play(SITE, now_ns, MS, 1);
	CHECK(end_of(SITE, calls, now_ns) != 0);
	CHECK(is_end(now_ns + forecast_least_ns(&forecast), now_ns + MS));
}

static void test_long_waits_need_no_look(void)
{
	uint64_t now_ns = SECOND, long_ns = 3 * FORECAST_LONG_NS;

	forecast_reset(2);
	for (int i = 0; i < 4; i++, now_ns += 100 * MS + random_below(50 * MS))
		call_play(SITE, 1, now_ns, long_ns, SEEN_ELSE);
	CHECK(is_end(end_of(SITE, 1, now_ns), now_ns + long_ns));
	for (int i = 0; i < 4; i++, now_ns += 100 * MS + random_below(50 * MS))
		call_play(SITE + 1, 1, now_ns, FORECAST_LONG_NS / 2, SEEN_ELSE);
	CHECK(end_of(SITE + 1, 1, now_ns) == 0);
	for (int i = 0; i < 4; i++, now_ns += 100 * MS + random_below(50 * MS))
		call_play(SITE + 2, 1, now_ns, long_ns, SEEN_SLEPT);
	CHECK(end_of(SITE + 2, 1, now_ns) == 0); /* slept in: it may have ended before */
}

/* A look may see one end of a call and no other for long: two ranks, whose wait can grow by one nap alone, go on. */
static void test_long_waits_of_two_ranks_need_no_more_looks(void)
{
	for (uint32_t ranks = 2; ranks <= 3; ranks++) {
		uint64_t now_ns = SECOND, long_ns = 3 * FORECAST_LONG_NS;

		forecast_reset(ranks);
		call_play(SITE, 1, now_ns, long_ns, SEEN_LOOK);
		for (int i = 0; i < 2; i++) {
			now_ns += 100 * MS + random_below(50 * MS);
			call_play(SITE, 1, now_ns, long_ns, SEEN_ELSE);
		}
		CHECK(forecast_knows(&forecast) == (ranks == 2));
	}
}

/*
 * Two of three known ends were short, as where a program begins with other waits at the same place. So no forecast
 * reaches the end of the waits that follow, and two ranks keep them, also after a look, until one does.
 */
static void test_waits_that_no_forecast_reaches_are_kept(void)
{
	for (uint32_t ranks = 2; ranks <= 3; ranks++) {
		uint64_t now_ns = SECOND;

		forecast_reset(ranks);
		calls = 0;
		now_ns = calls_play(SITE, now_ns, 20 * US, 2);
		now_ns = calls_play(SITE, now_ns, MS, 1);
		CHECK(forecast_knows(&forecast));
		next_play(&now_ns, MS, SEEN_SLEPT); /* slept in: the wait may have ended before */
		CHECK(forecast.entry->wait.count == 3);
		for (int i = 0; i < 5; i++)
			next_play(&now_ns, MS, SEEN_AWAKE);
		CHECK(forecast.entry->wait.count == (ranks == 2 ? 5 : 3));
	}
}

/* Calls that end each 2 ms, after waits of any length, with two more calls of the function between two of them. */
static uint64_t periods_play(uint32_t *number, uint64_t now_ns, int count)
{
	for (int i = 0; i < count; i++, *number += 3, now_ns += 2 * MS) {
		uint64_t wait_ns = 100 * US + random_below(1500 * US);

		call_play(SITE, *number, now_ns - wait_ns, wait_ns, SEEN_LOOK);
	}
	return now_ns;
}

static void test_a_call_that_is_not_seen_counts_by_its_number(void)
{
	uint32_t number = 5;
	uint64_t ended_ns;

	forecast_reset(2);
	ended_ns = periods_play(&number, SECOND, 12) - 2 * MS;
	CHECK(is_end(end_of(SITE, number, ended_ns + MS), ended_ns + 2 * MS));
	CHECK(is_end(end_of(SITE, number + 3, ended_ns + 3 * MS), ended_ns + 4 * MS));  /* one found its message soon */
	CHECK(!is_end(end_of(SITE, number + 1, ended_ns + 1 * MS), ended_ns + 2 * MS)); /* no multiple */
	CHECK(call_play(SITE, number, ended_ns + MS, MS, SEEN_LOOK) == 2 * MS && looked);
	CHECK(call_play(SITE, number + 6, ended_ns + 5 * MS, MS, SEEN_LOOK) == 4 * MS && passed_periods == 2);
	CHECK(call_play(SITE, number + 9, ended_ns + 7 * MS, MS, SEEN_LOOK) == 2 * MS && passed_periods == 1);
	CHECK(call_play(SITE, number + 10, ended_ns + 9 * MS, MS, SEEN_LOOK) == 0); /* no multiple */
}

static void test_a_longer_stride_is_learned(void)
{
	uint32_t number = 5;
	uint64_t now_ns, period_ns = 0;

	forecast_reset(2);
	now_ns = periods_play(&number, SECOND, 12);
	for (int i = 0; i < 40; i++, number += 7, now_ns += 2 * MS)
		period_ns = call_play(SITE, number, now_ns - MS, MS, SEEN_LOOK);
	CHECK(period_ns == 2 * MS && passed_periods == 1);
}

/* A wait of that kind of the site. Returns whether the next one is to be awake. */
static bool doubts_behind(uint64_t now_ns, struct forecast_seen seen)
{
	call_play(SITE, 1, now_ns, MS, seen);
	forecast_open(&forecast, SITE, 1, now_ns);
	return forecast_doubts(&forecast);
}

/*
 * The first wait after a late end began late itself: its end teaches nothing, so the thread stays awake once more. Of
 * two ranks, two late ends in a row are chance.
 */
static void test_late_ends_are_followed_by_two_waits_without_a_nap(void)
{
	for (uint32_t ranks = 2; ranks <= 3; ranks++) {
		uint64_t now_ns;

		forecast_reset(ranks);
		now_ns = calls_play(SITE, SECOND, MS, 8) + MS;
		CHECK(!doubts_behind(now_ns, SEEN_LATE) && (ranks > 2 || !doubts_behind(now_ns, SEEN_LATE)));
		CHECK(!doubts_behind(now_ns, SEEN_SLEPT));
		CHECK(!doubts_behind(now_ns, SEEN_LATE) && (ranks > 2 || !doubts_behind(now_ns, SEEN_LATE)));
		CHECK(doubts_behind(now_ns, SEEN_LATE)); /* now in a row */
		CHECK(doubts_behind(now_ns, SEEN_ELSE));
		CHECK(!doubts_behind(now_ns, SEEN_ELSE));
	}
}

/* A nap ended late: the next wait begins late and is short, though the program has not changed. */
static void test_a_wait_that_began_late_teaches_no_end(void)
{
	uint64_t now_ns;

	for (int look = 0; look < 2; look++) {
		forecast_reset(2);
		now_ns = calls_play(SITE, SECOND, MS, 8) + MS;
		call_play(SITE, 8, now_ns, 1700 * US, SEEN_LATE);
		call_play(SITE, 9, now_ns + 1700 * US, 300 * US, look ? SEEN_LOOK : SEEN_ELSE);
		CHECK(forecast_least_ns(&forecast) > 990 * US);
		call_play(SITE, 10, now_ns + 3 * MS, 400 * US, look ? SEEN_LOOK : SEEN_ELSE);
		CHECK(forecast_least_ns(&forecast) < 410 * US);
	}
	call_play(SITE, 11, now_ns + 4 * MS, 700 * US, SEEN_LATE);
	forecast_open(&forecast, SITE, 12, now_ns + 5 * MS);
	forecast.shorter = true; /* the thread's own work tells that the program has changed */
	forecast_close(&forecast, (struct forecast_seen){.ended_ns = now_ns + 5 * MS + 200 * US});
	CHECK(forecast_least_ns(&forecast) < 210 * US);
}

/* The margin after so many calls of that kind. */
static uint64_t margin_after(struct forecast_seen seen, int count)
{
	for (int i = 0; i < count; i++)
		call_play(SITE, 1, 2 * SECOND, MS, seen);
	return forecast.entry->margin_ns;
}

static void test_the_margin_follows_late_ends(void)
{
	uint64_t first_ns, late_ns, back_ns, least_ns;

	forecast_reset(2);
	first_ns = margin_after(SEEN_LOOK, 8);
	CHECK(margin_after(SEEN_ELSE, 8) == first_ns);
	late_ns = margin_after(SEEN_LATE, 1);
	CHECK(is_near((double)late_ns, 1.5 * (double)first_ns, 0.01));
	back_ns = late_ns - margin_after(SEEN_SLEPT, 1);
	CHECK(back_ns > 0 && back_ns < late_ns / 8);
	least_ns = margin_after(SEEN_SLEPT, 1000);
	CHECK(least_ns > US && least_ns < first_ns);
	forecast_widen(forecast.entry);
	CHECK(is_near((double)forecast.entry->margin_ns, 1.5 * (double)least_ns, 0.01));
	CHECK(margin_after(SEEN_LATE, 100) < 10 * MS);
}

/* Whether a call is late that ended so long after its nap, and was expected much later. */
static bool is_late_by(uint64_t after_ns)
{
	return forecast_is_late(&forecast, SECOND, 2 * SECOND, SECOND + after_ns);
}

static void test_many_ranks_give_back_less_and_begin_with_more(void)
{
	uint64_t few_ns, few_back_ns, many_ns;

	forecast_reset(2);
	few_ns = margin_after(SEEN_LOOK, 8);
	few_back_ns = few_ns - margin_after(SEEN_SLEPT, 1);
	CHECK(is_late_by(0) && !is_late_by(5 * US));
	forecast_reset(1000);
	many_ns = margin_after(SEEN_LOOK, 8);
	CHECK(many_ns > few_ns);
	CHECK((many_ns - margin_after(SEEN_SLEPT, 1)) * few_ns * 4 < few_back_ns * many_ns);
	CHECK(is_late_by(5 * US) && !is_late_by(50 * US)); /* the levels of the tree pass it on */
}

/* A call that is slept before and forwarded afterwards takes 10 us in any case. */
/* The margin after a hundred naps that were in time. */
static uint64_t margin_of_naps(uint32_t ranks)
{
	uint64_t now_ns = SECOND;

	forecast_reset(ranks);
	for (int i = 0; i < 104; i++) {
		now_ns += 2 * MS;
		call_play(SITE, calls++, now_ns, MS, (struct forecast_seen){.slept = i > 4});
	}
	return forecast.entry->margin_ns;
}

static void test_margins_of_more_ranks_narrow_more_slowly(void)
{
	uint64_t few_ns = 20 * US + 10 * 2250, many_ns = 20 * US + 13 * 2250; /* at first */
	double few = (double)margin_of_naps(1000) / (double)few_ns,
	       many = (double)margin_of_naps(8000) / (double)many_ns;

	CHECK(margin_of_naps(2) < margin_of_naps(16) && few < 1);
	CHECK(fabs(many - few) < 1e-3); /* from 64 ranks on as slowly */
}

static void test_a_call_that_is_forwarded_late_is_told_by_its_own_time(void)
{
	uint64_t margin_ns, now_ns = 2 * SECOND;

	forecast_reset(2);
	margin_after(SEEN_LOOK, 8);
	forecast_own(&forecast, 12 * US);
	forecast_own(&forecast, 10 * US);
	forecast_own(&forecast, 40 * US);
	forecast_open(&forecast, SITE, 1, now_ns);
	CHECK(is_late_by(14 * US) && !is_late_by(20 * US));
	margin_ns = forecast.entry->margin_ns;
	CHECK(!forecast_is_late(&forecast, now_ns, now_ns + 10 * US + margin_ns / 4, now_ns + 10 * US));
	CHECK(!forecast_is_late(&forecast, now_ns, now_ns + 10 * US - margin_ns / 4, now_ns + 10 * US));
	CHECK(forecast_is_late(&forecast, now_ns, now_ns + 10 * US + margin_ns, now_ns + 10 * US));
	CHECK(forecast_is_late(&forecast, now_ns, now_ns + 10 * US - margin_ns, now_ns + 10 * US));
	forecast.entry->margin_ns /= 2; /* it has shrunk: the shortest time counts alone */
	CHECK(forecast_is_late(&forecast, now_ns, now_ns + 10 * US, now_ns + 10 * US));
}

/* A margin shrinks before such calls only where their periods are compared. */
static void test_the_margin_of_a_call_that_is_forwarded_late_waits_for_periods(void)
{
	uint64_t first_ns;

	forecast_reset(2);
	first_ns = margin_after(SEEN_LOOK, 8);
	forecast_own(&forecast, 10 * US);
	CHECK(margin_after(SEEN_SLEPT, 8) == first_ns);
	forecast.entry->periods.weight = ACCOUNT_KNOWN;
	CHECK(margin_after(SEEN_SLEPT, 8) < first_ns);
}

static void test_exits_are_learned_by_class(void)
{
	uint64_t short_ns;

	forecast_reset(2);
	CHECK(forecast_exit_ns(&forecast, 100 * US) > 0);
	for (int i = 0; i < 300; i++) {
		forecast_woke(&forecast, 100 * US, 105 * US);
		forecast_woke(&forecast, 5 * MS, 5 * MS + 60 * US);
	}
	short_ns = forecast_exit_ns(&forecast, 100 * US);
	EXPECT(is_near((double)short_ns, 5000, 0.2), "%" PRIu64, short_ns);
	EXPECT(is_near((double)forecast_exit_ns(&forecast, 5 * MS), 60000, 0.2), "%" PRIu64,
	       forecast_exit_ns(&forecast, 5 * MS));
	CHECK(forecast_exit_ns(&forecast, MS) == short_ns); /* not measured: as the next shorter one */
	forecast_woke(&forecast, 100 * US, 4 * MS);
	CHECK(forecast_exit_ns(&forecast, 100 * US) < short_ns + short_ns / 8);
	forecast_woke(&forecast, MS, 4 * MS);
	CHECK(forecast_exit_ns(&forecast, MS) <= short_ns + short_ns / 8); /* the first of its class */
	forecast_woke(&forecast, MS, MS - US);
	CHECK(forecast_exit_ns(&forecast, MS) < 2 * short_ns);
}

/* Three sites that share a set of the table if they come after the anchor. Returns how many were found. */
#define ANCHOR 3

static int sites_find(uint64_t *sites)
{
	ptrdiff_t set = -1;
	int count = 0;

	for (uint64_t site = 1000; site < 100000 && count < 3; site++) {
		ptrdiff_t of;

		forecast_reset(2);
		call_play(ANCHOR, 1, SECOND, MS, SEEN_LOOK);
		call_play(site, 1, SECOND, MS, SEEN_LOOK);
		of = (forecast.entry - &forecast.table[0][0]) / FORECAST_WAYS;
		set = set < 0 ? of : set;
		if (of == set)
			sites[count++] = site;
	}
	return count;
}

static bool is_kept(uint64_t site)
{
	forecast.previous = ANCHOR;
	forecast_open(&forecast, site, 1, SECOND);
	return forecast.entry;
}

static void test_the_entry_that_was_not_used_for_longest_is_replaced(void)
{
	uint64_t sites[3] = {0};

	CHECK(sites_find(sites) == 3);
	forecast_reset(2);
	for (int i = 0; i < 4; i++) { /* the first, the second, the first, the third */
		forecast.previous = ANCHOR;
		call_play(sites[i == 3 ? 2 : i % 2], 1, SECOND, MS, SEEN_LOOK);
	}
	CHECK(is_kept(sites[0]) && !is_kept(sites[1]) && is_kept(sites[2]));
}

static void test_a_call_is_known_by_the_one_before_it(void)
{
	uint64_t now_ns = SECOND;

	forecast_reset(2);
	for (uint32_t i = 0; i < 16; i++, now_ns += 8 * MS + random_below(MS)) {
		call_play(i % 2 ? 100 : 200, 1, now_ns, FORECAST_SHORT_NS, SEEN_LOOK);
		call_play(300, 1, now_ns + 100 * US, FORECAST_SHORT_NS - US, SEEN_LOOK); /* too short to matter */
		call_play(SITE, 1, now_ns + 200 * US, i % 2 ? MS : 3 * MS, SEEN_LOOK);
	}
	call_play(100, 1, now_ns, FORECAST_SHORT_NS, SEEN_LOOK);
	CHECK(is_end(end_of(SITE, 1, now_ns), now_ns + MS));
	call_play(200, 1, now_ns, FORECAST_SHORT_NS, SEEN_LOOK);
	CHECK(is_end(end_of(SITE, 1, now_ns), now_ns + 3 * MS));
}

/* A loop of one call, whose first waits are short: a longer one later begins nothing anew. */
static void test_the_first_call_comes_before_others_however_short_it_was(void)
{
	uint64_t key;

	forecast_reset(16);
	forecast.previous = 0;
	call_play(SITE, 1, SECOND, 50 * US, SEEN_LOOK);
	forecast_open(&forecast, SITE, 2, SECOND + MS);
	key = forecast.key;
	call_play(SITE, 2, SECOND + MS, 300 * US, SEEN_LOOK);
	forecast_open(&forecast, SITE, 3, SECOND + 2 * MS);
	CHECK(forecast.key == key && forecast.entry);
}

/* After a wait of 100 ms one of 1 ms is chance, as by a partner that was held up. Where long waits end, it counts. */
static void test_a_short_wait_does_not_come_before_long_ones(void)
{
	uint64_t now_ns = SECOND;

	forecast_reset(2);
	call_play(100, 1, now_ns, 100 * MS, SEEN_LOOK);
	call_play(200, 1, now_ns += SECOND, 1200 * US, SEEN_LOOK);
	CHECK(forecast.previous == 100);
	call_play(200, 2, now_ns += SECOND, 1600 * US, SEEN_LOOK);
	CHECK(forecast.previous == 200);
	call_play(100, 2, now_ns += SECOND, 100 * MS, SEEN_LOOK);
	for (int i = 0; i < 24; i++) {
		call_play(300, 1, now_ns += SECOND, FORECAST_SHORT_NS, SEEN_LOOK);
		CHECK(forecast.previous == 100 || i > 15);
	}
	call_play(300, 1, now_ns += SECOND, FORECAST_SHORT_NS - US, SEEN_LOOK);
	call_play(400, 1, now_ns += SECOND, FORECAST_SHORT_NS, SEEN_LOOK);
	CHECK(forecast.previous == 400);
}

static void test_each_word_tells_sites_apart(void)
{
	uint64_t site = forecast_call(1, 2, 3, 4);

	CHECK(site != 0 && site == forecast_call(1, 2, 3, 4));
	CHECK(site != forecast_call(9, 2, 3, 4) && site != forecast_call(1, 9, 3, 4));
	CHECK(site != forecast_call(1, 2, 9, 4) && site != forecast_call(1, 2, 3, 9));
	CHECK(site != forecast_call(2, 1, 3, 4) && forecast_call(0, 0, 0, 0) != 0);
}

static void test_an_end_that_has_passed_is_not_to_come(void)
{
	uint64_t now_ns = SECOND, past_ns;

	forecast_reset(2);
	for (int i = 0; i < 8; i++, now_ns += 8 * MS + random_below(MS))
		call_play(SITE, 1, now_ns, i % 2 ? MS : 3 * MS, SEEN_LOOK);
	forecast_open(&forecast, SITE, 1, now_ns);
	CHECK(is_end(forecast_end(&forecast, now_ns, &past_ns), now_ns + MS) && past_ns == 0);
	CHECK(is_end(forecast_end(&forecast, now_ns + 1200 * US, &past_ns), now_ns + MS)); /* not a quarter yet */
	CHECK(is_end(forecast_end(&forecast, now_ns + 1300 * US, &past_ns), now_ns + 3 * MS));
	CHECK(is_end(past_ns, now_ns + MS));
	CHECK(forecast_end(&forecast, now_ns + 4 * MS, &past_ns) == 0 && is_end(past_ns, now_ns + 3 * MS));
}

/* By the clock that counts from the end before, a wait may begin after some of its known ends. */
static void test_an_end_before_the_wait_was_missed(void)
{
	uint64_t now_ns = SECOND, past_ns;

	forecast_reset(2);
	for (uint32_t i = 0; i < 9; i++, now_ns += 4 * MS)
		call_play(SITE, i, now_ns, MS, SEEN_LOOK);
	forecast_open(&forecast, SITE, 9, now_ns);
	for (int i = 0; i < 4; i++) /* of half of the known periods, which were shorter */
		forecast.entry->since.at[i] = forecast.entry->wait.at[i] = 2 * MS >> FORECAST_UNIT;
	CHECK(is_end(forecast_end(&forecast, now_ns, &past_ns), now_ns + MS));
	CHECK(past_ns == now_ns);
}

static bool doubts_after(uint64_t now_ns, uint64_t work_ns)
{
	forecast_open(&forecast, SITE, calls, now_ns + work_ns);
	return forecast_doubts(&forecast);
}

/* The thread's own work tells that steps have become shorter, whoever sleeps. */
static void test_shorter_work_is_followed_by_one_wait_without_a_nap(void)
{
	uint64_t now_ns = SECOND;

	forecast_reset(3);
	calls = 0;
	for (int i = 0; i < 6; i++)
		now_ns = step_play(now_ns, 4 * MS, MS, SEEN_LOOK);
	CHECK(!doubts_after(now_ns, 4 * MS) && !doubts_after(now_ns, 8 * MS) && !doubts_after(now_ns, 3 * MS + US));
	CHECK(doubts_after(now_ns, 3 * MS - US) && forecast.shorter);
	now_ns = step_play(now_ns, MS, MS / 5, SEEN_ELSE);
	CHECK(!doubts_after(now_ns, MS) && !doubts_after(now_ns, 3 * MS));
	CHECK(is_end(end_of(SITE, calls, now_ns + MS), now_ns + MS + MS / 5));
	for (int i = 0; i < 8; i++)
		now_ns = step_play(now_ns, 4 * MS, MS, SEEN_SLEPT);
	CHECK(!doubts_after(now_ns, MS)); /* only looks tell that it is longer again */
	for (int i = 0; i < 32; i++)
		now_ns = step_play(now_ns, 4 * MS, MS, SEEN_LOOK);
	CHECK(doubts_after(now_ns, 3 * MS - MS / 4));
	call_play(SITE + 2, calls, now_ns + MS, 2 * MS, SEEN_ELSE); /* what it waits in other calls is no work */
	forecast.previous = SITE;
	CHECK(doubts_after(now_ns, 4 * MS) && !doubts_after(now_ns, 6 * MS));
}

/* By 0.1 ms, or a sixteenth of a longer wait: so little changes no such wait. */
static void test_work_that_is_shorter_by_little_is_none(void)
{
	for (uint64_t wait_ns = MS; wait_ns <= 64 * MS; wait_ns *= 64) {
		uint64_t now_ns = SECOND, little_ns = wait_ns == MS ? 100 * US : 4 * MS;

		forecast_reset(2);
		calls = 0;
		for (int i = 0; i < 6; i++)
			now_ns = step_play(now_ns, 2 * little_ns, wait_ns, SEEN_LOOK);
		CHECK(!doubts_after(now_ns, little_ns + US) && doubts_after(now_ns, little_ns - US));
	}
}

/* At least one of two periods was as short as their mean. */
static void test_an_early_end_counts_over_several_periods(void)
{
	uint64_t now_ns = SECOND;

	forecast_reset(2);
	calls = 0;
	for (uint64_t i = 0; i < 6; i++)
		now_ns = step_play(now_ns, 4 * MS - i % 2 * MS * 3 / 2, MS + i % 2 * MS * 3 / 2, SEEN_LOOK);
	calls++;
	now_ns = step_play(now_ns, 3 * MS, 2 * MS, SEEN_ELSE);
	CHECK(is_end(end_of(SITE, calls, now_ns + MS), now_ns + 5 * MS / 2));
}

static void test_a_period_is_looked_at_if_both_ends_are(void)
{
	struct forecast_seen other = {.look = LOOK + 1};

	forecast_reset(2);
	CHECK(call_play(SITE, 1, SECOND, MS, SEEN_LOOK) == 0); /* the first has none */
	CHECK(call_play(SITE, 2, SECOND + 2 * MS, MS, SEEN_LOOK) == 2 * MS && looked);
	CHECK(call_play(SITE, 3, SECOND + 4 * MS, MS, SEEN_SLEPT) == 2 * MS && !looked);
	CHECK(call_play(SITE, 4, SECOND + 6 * MS, MS, SEEN_LOOK) == 2 * MS && !looked);
	CHECK(call_play(SITE, 5, SECOND + 8 * MS, MS, other) == 2 * MS && !looked);
}

/* ---- Account ---- */

static struct account account;
static uint64_t windows, account_now_ns;

static void account_reset(void)
{
	account_open(&account, OPENED, SLOWDOWN, 2);
	account_now_ns = OPENED;
}

static void looked_play(struct account_periods *periods, double period_ns)
{
	account_now_ns += (uint64_t)period_ns;
	account_looked(&account, periods, windows, (uint64_t)period_ns, account_now_ns);
}

/* A look of eight calls with that period. */
static void look_play(struct account_periods *periods, double period_ns)
{
	windows++;
	for (int i = 0; i < 8; i++)
		looked_play(periods, period_ns);
}

/* A period that varies by so much. */
static double about(double period_ns, double share)
{
	return period_ns * (1 - share) + (double)random_below((uint64_t)(2 * share * period_ns));
}

/* So many calls in which sleeping was allowed. */
static void slept_play(struct account_periods *periods, double period_ns, int count)
{
	for (int i = 0; i < count; i++) {
		account_now_ns += (uint64_t)period_ns;
		account_slept(&account, periods, (uint64_t)period_ns, 1, ANY_WINDOW, account_now_ns);
	}
}

/* Whether this pause is to show if the program or its naps have changed the periods. */
static bool is_in_doubt(const struct account_periods *periods)
{
	return account.paused && (account.ranks <= 2 || account_strayed(&account, periods));
}

/* The same, as if no pause began and the allowance were not spent. */
static void charged_play(struct account_periods *periods, double period_ns, int count)
{
	double forgiven_ns = account.forgiven_ns;

	account.forgiven_ns = 1e12;
	for (int i = 0; i < count; i++) {
		account.paused = false;
		slept_play(periods, period_ns, 1);
	}
	account.forgiven_ns = forgiven_ns;
}

static void test_what_is_allowed_grows_with_time(void)
{
	account_reset();
	CHECK(is_near(account_allowed(&account, OPENED), ALLOWANCE_START_NS, 1e-9));
	CHECK(is_near(account_allowed(&account, OPENED + SECOND), ALLOWANCE_START_NS + 10e6, 1e-9));
	CHECK(account_room(&account, OPENED) > 0 && (double)account_room(&account, OPENED) <= ALLOWANCE_START_NS);
}

static void test_what_is_kept_has_a_limit(void)
{
	uint64_t late_ns = OPENED + 1000 * SECOND;

	account_reset();
	CHECK(is_near((double)account_room(&account, late_ns), ACCOUNT_KEPT_NS, 1e-6));
	account_settle(&account, late_ns);
	account_charge(&account, ACCOUNT_KEPT_NS / 2);
	CHECK(account_room(&account, late_ns) > 0 && (double)account_room(&account, late_ns) <= ACCOUNT_KEPT_NS / 2);
}

/* Twice the error may be as much as the allowance. Among more than two ranks the rest of it is taken off. */
static void test_what_may_be_an_error_is_not_left(void)
{
	uint64_t at_ns = OPENED + SECOND / 10;
	double allowed_ns, left_ns;

	account_reset();
	allowed_ns = account_allowed(&account, at_ns);
	left_ns = (double)account_room(&account, at_ns);
	account.variance = allowed_ns * allowed_ns;
	CHECK((double)account_room(&account, at_ns) == left_ns);
	account.ranks = 3;
	CHECK(account_room(&account, at_ns) == 0);
	account.variance = allowed_ns * allowed_ns / 4;
	CHECK((double)account_room(&account, at_ns) == left_ns);
	account.variance *= 1.8 * 1.8;
	CHECK(is_near((double)account_room(&account, at_ns), allowed_ns * 0.2, 1e-3));
}

/* Returns how much the account allows a call that is not compared, in a wait since that time. */
static double unmeasured(uint64_t since_ns, uint64_t now_ns)
{
	return (double)account_room_unmeasured(&account, since_ns, now_ns);
}

static void test_the_ranks_share_what_nothing_measures(void)
{
	uint64_t since_ns = OPENED + 2 * SECOND;
	struct account_periods periods = {0};
	double room_ns;

	account_reset();
	room_ns = (double)account_room(&account, since_ns);
	account.ranks = 1;
	CHECK(is_near(unmeasured(since_ns, since_ns), room_ns, 1e-6));
	account.ranks = 1000;
	CHECK(is_near(unmeasured(since_ns, since_ns), room_ns / 1000, 0.01));
	CHECK(is_near(unmeasured(since_ns, since_ns + SECOND / 100), room_ns / 1000 + 1e5, 0.01));
	CHECK(unmeasured(since_ns, since_ns + 10 * SECOND) <= ACCOUNT_KEPT_NS);
	look_play(&periods, 1e6);
	slept_play(&periods, 1e6, 1);
	room_ns = (double)account_room(&account, account_now_ns);
	CHECK(is_near(unmeasured(account_now_ns, account_now_ns), room_ns, 1e-6));
	account_now_ns += SECOND; /* in which no call was compared */
	CHECK(unmeasured(account_now_ns, account_now_ns) < room_ns / 2);
	account.paused = true;
	CHECK(unmeasured(account_now_ns, account_now_ns + SECOND) == 0);
}

static void test_calls_are_charged_against_looks(void)
{
	struct account_periods periods = {0};

	account_reset();
	slept_play(&periods, 1.05e6, 10);
	CHECK(account.spent_ns == 0 && !account_knows(&periods)); /* there is nothing to compare with */
	look_play(&periods, 1e6);
	slept_play(&periods, 1.05e6, 10);
	CHECK(account_knows(&periods));
	EXPECT(is_near(account.spent_ns, 0.5e6, 0.01), "%f", account.spent_ns);
	CHECK(is_near(account.more_ns, 0.5e6, 0.01) && is_near(account.slept_ns, 10e6, 0.01));
	slept_play(&periods, 0.95e6, 10);
	CHECK(account.spent_ns < 2e4 && account.spent_ns > -2e4); /* shorter ones pay back */
}

/* Two looks with four periods that vary much tell too little to charge others against. */
static void test_a_usual_period_is_known_once_its_error_is_small(void)
{
	struct account_periods periods = {.weight = 0};
	int looks = 0;

	account_reset();
	look_play(&periods, 1e6);
	slept_play(&periods, 1e6, 1);
	CHECK(account_knows(&periods));
	periods = (struct account_periods){.weight = 0};
	for (; looks < 9 && !account_knows(&periods); looks++) {
		windows++;
		for (int i = 0; i < 4; i++)
			looked_play(&periods, i % 2 ? 0.72e6 : 1e6);
		slept_play(&periods, 1e6, 1);
	}
	EXPECT(looks == 3, "%d", looks);
}

/* Two of eight periods are much shorter: they vary by themselves. One that is much longer may have been held up. */
static void test_short_periods_tell_how_much_periods_vary(void)
{
	struct account_periods periods = {.weight = 0}, held = {.weight = 0};

	account_reset();
	for (int looks = 0; looks < 9; looks++) {
		windows++;
		for (int i = 0; i < 8; i++) {
			looked_play(&periods, i % 4 == 1 ? 0.1e6 : 1.9e6);
			looked_play(&held, i == 5 ? 40e6 : 1.9e6);
		}
		slept_play(&periods, 1.9e6, 1);
		slept_play(&held, 1.9e6, 1);
		CHECK(!account_knows(&periods) && account_knows(&held));
	}
}

static void test_hiccups_are_cut(void)
{
	struct account_periods periods = {0};

	account_reset();
	windows++;
	for (int i = 0; i < 8; i++)
		looked_play(&periods, i == 3 ? 4e6 : 1e6);
	slept_play(&periods, 1e6, 1);
	EXPECT(is_near(periods.usual_ns, 1e6, 0.05), "%f", periods.usual_ns);
	account.spent_ns = 0;
	slept_play(&periods, 4e6, 1);
	CHECK(account.spent_ns > 0 && account.spent_ns <= periods.usual_ns / ACCOUNT_CUT + 1);
	slept_play(&periods, 0.1e6, 1);
	CHECK(account.spent_ns > -1);
}

/* A period of a program whose ranks' work has a heavy tail: half of the periods are short, few are twice as long. */
static double skewed(void)
{
	static const double share[] = {0, 0, 0, 0, 0.2, 0.2, 0.5, 1};

	return 1e6 * (1 + share[random_below(8)]);
}

/* Sleeping costs such a program nothing, and looks of few periods say so. */
static void test_skewed_periods_are_no_saving(void)
{
	struct account_periods periods = {0};

	account_reset();
	for (int look = 0; look < 5000; look++) {
		windows++;
		for (int i = 0; i < 4; i++)
			looked_play(&periods, skewed());
		for (int i = 0; i < 60; i++)
			charged_play(&periods, skewed(), 1);
	}
	EXPECT(account.more_ns > -0.01 * account.slept_ns && account.more_ns < 0.01 * account.slept_ns,
	       "%.1f of %.1f ms", account.more_ns / 1e6, account.slept_ns / 1e6);
}

/* In the middle of the time between two looks, a program comes to take a tenth longer, or less: it costs nothing. */
static void test_a_look_corrects_what_belongs_to_the_program(void)
{
	static const double after_ns[] = {1.1e6, 0.92e6};

	for (int i = 0; i < 2; i++) {
		struct account_periods periods = {0};

		account_reset();
		account.ranks = 3;
		look_play(&periods, 1e6);
		charged_play(&periods, 1e6, 20);
		charged_play(&periods, after_ns[i], 20);
		EXPECT(i == 1 || is_near(account.spent_ns, 2e6, 0.01), "%f", account.spent_ns);
		look_play(&periods, after_ns[i]);
		charged_play(&periods, after_ns[i], 20);
		EXPECT(is_near(periods.usual_ns, after_ns[i], 0.001), "%f", periods.usual_ns);
		EXPECT(account.spent_ns < 0.05e6 && account.spent_ns > -0.05e6, "%f", account.spent_ns);
		CHECK(account.tried_ns == 0); /* the try's loss is corrected as well */
		EXPECT(account.more_ns < 0.05e6 && account.more_ns > -0.05e6, "%f", account.more_ns);
	}
}

static void test_a_look_corrects_no_more_than_was_charged(void)
{
	struct account_periods periods = {0};

	account_reset();
	look_play(&periods, 1e6);
	slept_play(&periods, 1.0001e6, 100);
	look_play(&periods, 1.2e6);
	slept_play(&periods, 1.2e6, 1);
	EXPECT(account.spent_ns > -3e4 && account.spent_ns < 3e4, "%f", account.spent_ns);
}

static void test_several_periods_count_as_such(void)
{
	struct account_periods periods = {0};

	account_reset();
	look_play(&periods, 1e6);
	account_slept(&account, &periods, 3150 * US, 3, ANY_WINDOW, account_now_ns + 3150 * US);
	EXPECT(is_near(account.more_ns, 0.15e6, 0.01) && is_near(account.slept_ns, 3e6, 0.01), "%f", account.more_ns);
	CHECK(periods.slept == 3);
}

/* In a job of two ranks, a call that was not seen for long is cut as one period is. */
static void test_several_periods_are_cut_as_one_with_two_ranks(void)
{
	for (uint32_t ranks = 2; ranks <= 3; ranks++) {
		struct account_periods periods = {0};

		account_reset();
		account.ranks = ranks;
		look_play(&periods, 1e6);
		account_slept(&account, &periods, 100 * MS, 10, ANY_WINDOW, account_now_ns + 100 * MS);
		EXPECT(is_near(account.more_ns, (ranks == 2 ? 1 : 10) * 0.25e6, 1e-6), "%f", account.more_ns);
	}
}

/* So many calls with that period in a pause. Returns whether they told that the program has changed. */
static bool relearned_play(struct account_periods *periods, double period_ns, int count)
{
	bool changed = false;

	for (int i = 0; i < count; i++) {
		account_now_ns += (uint64_t)period_ns;
		changed |= account_relearned(&account, periods, (uint64_t)period_ns, account_now_ns);
	}
	return changed;
}

/* Periods several times as long, or as short, are the program's own if they are so in a pause as well. */
static void periods_change(uint32_t ranks, double before_ns, double after_ns)
{
	struct account_periods periods = {0};
	double spent_ns, more_ns;

	account_reset();
	account.ranks = ranks;
	look_play(&periods, before_ns);
	account.resumed_ns = 0; /* the try has room enough */
	slept_play(&periods, before_ns, 5);
	spent_ns = account.spent_ns;
	more_ns = account.more_ns;
	slept_play(&periods, after_ns, 2);
	CHECK(!account.paused && !is_in_doubt(&periods));
	slept_play(&periods, after_ns, 1);
	CHECK(account.paused && account.pause == 1 && is_in_doubt(&periods));
	CHECK(!is_near(account.spent_ns, spent_ns, 1e-6));
	CHECK(!relearned_play(&periods, after_ns, ACCOUNT_SAMPLES / 2 - 1) && account.paused);
	CHECK(relearned_play(&periods, after_ns, 1) && !account.paused && account.pause == 0);
	CHECK(is_near(periods.usual_ns, after_ns, 1e-6) && account_knows(&periods));
	CHECK(is_near(1e9 + account.spent_ns, 1e9 + spent_ns, 1e-9));
	CHECK(is_near(1e9 + account.more_ns, 1e9 + more_ns, 1e-9));
	slept_play(&periods, after_ns, 5);
	CHECK(is_near(1e9 + account.spent_ns, 1e9 + spent_ns, 1e-9) && !account.paused);
}

static void test_periods_of_a_program_that_changes_are_no_loss(void)
{
	periods_change(3, 1e6, 5e6);
	periods_change(3, 5e6, 1e6);
	periods_change(2, 5e6, 1e6);
}

/* Two ranks learn by their own waits and work that a program has longer steps: longer periods alone may be chance. */
static void test_longer_periods_of_two_ranks_begin_no_pause(void)
{
	struct account_periods periods = {0};

	account_reset();
	look_play(&periods, 1e6);
	account.resumed_ns = 0;
	slept_play(&periods, 5e6, 4);
	CHECK(!account.paused && !account_strayed(&account, &periods) && periods.strayed == 4);
}

/* The same in a pause that a loss began: nothing was charged for the streak, so nothing is taken back. */
static void test_a_program_that_changes_in_a_pause_ends_it(void)
{
	struct account_periods periods = {0};
	double spent_ns;

	account_reset();
	account.ranks = 3;
	look_play(&periods, 1e6);
	slept_play(&periods, 5e6, 1);
	slept_play(&periods, 1.2e6, 3);
	CHECK(account.paused && !is_in_doubt(&periods));
	spent_ns = account.spent_ns;
	slept_play(&periods, 5e6, 2);
	CHECK(!is_in_doubt(&periods));
	slept_play(&periods, 5e6, 1);
	CHECK(is_in_doubt(&periods) && is_near(account.spent_ns, spent_ns, 1e-9));
	CHECK(relearned_play(&periods, 5e6, ACCOUNT_SAMPLES / 2) && !account.paused);
	CHECK(is_near(account.spent_ns, spent_ns, 1e-9) && is_near(periods.usual_ns, 5e6, 1e-6));
}

/* A change of the program outdates the periods of all calls. */
static void test_a_change_outdates_all_periods(void)
{
	struct account_periods periods[2] = {0};
	double spent_ns;

	account_reset();
	look_play(&periods[0], 1e6);
	look_play(&periods[1], 4e5);
	account.resumed_ns = 0;
	slept_play(&periods[0], 1.1e6, 2);
	spent_ns = account.spent_ns;
	slept_play(&periods[0], 5e6, 2);
	slept_play(&periods[1], 2e5, 1); /* what was charged for shorter ones stays */
	CHECK(!account.paused && account.spent_ns > spent_ns);
	account.paused = true;
	account.pause = 64;
	account.paused_ns = account_now_ns;
	account_change(&account, account_now_ns);
	CHECK(!account.paused && account.pause == 16 && account.tried_ns == account.spent_ns);
	spent_ns = account.spent_ns;
	account_renew(&account, &periods[1], account_now_ns);
	CHECK(account.spent_ns == spent_ns && !account_knows(&periods[1]));
	account_renew(&account, &periods[0], account_now_ns);
	CHECK(account.spent_ns < spent_ns && !account_knows(&periods[0]));
	spent_ns = account.spent_ns;
	slept_play(&periods[0], 5e6, 5); /* nothing is known to charge it against */
	CHECK(account.spent_ns == spent_ns && !account.paused);
	look_play(&periods[0], 5e6);
	slept_play(&periods[0], 5.1e6, 1);
	CHECK(account.spent_ns > spent_ns);
	account_renew(&account, &periods[0], account_now_ns);
	CHECK(account_knows(&periods[0])); /* once for each change */
}

static void test_a_loss_that_a_pause_ends_is_one(void)
{
	struct account_periods periods = {0};
	double spent_ns;

	account_reset();
	account.ranks = 3;
	look_play(&periods, 1e6);
	account.resumed_ns = 0;
	slept_play(&periods, 1e6, 1);
	slept_play(&periods, 5e6, 2);
	slept_play(&periods, 1e6, 1); /* not in a row */
	slept_play(&periods, 5e6, 2);
	CHECK(!account.paused);
	slept_play(&periods, 5e6, 1);
	spent_ns = account.spent_ns;
	CHECK(account.paused && is_near(spent_ns, 5 * 1e6 / ACCOUNT_CUT, 1e-6));
	CHECK(!relearned_play(&periods, 1e6, 8) && account.paused && !is_in_doubt(&periods));
	CHECK(is_near(account.spent_ns, spent_ns, 1e-6) && is_near(periods.usual_ns, 1e6, 1e-6));
	CHECK(periods.count == 0);
}

/* Periods that are cut to both sides by turns are no change. */
static void test_strays_to_both_sides_begin_no_pause(void)
{
	struct account_periods periods = {0};

	account_reset();
	look_play(&periods, 1e6);
	account.resumed_ns = 0;
	for (int i = 0; i < 8; i++)
		slept_play(&periods, i % 2 ? 0.5e6 : 1.5e6, 1);
	CHECK(!account.paused && !account_strayed(&account, &periods));
}

/* A pause that ends too soon leaves nothing learned of a change. */
static void test_a_pause_that_ends_too_soon_tells_nothing(void)
{
	struct account_periods periods = {0};

	account_reset();
	account.ranks = 3;
	look_play(&periods, 1e6);
	account.resumed_ns = 0;
	slept_play(&periods, 5e6, 3);
	CHECK(account.paused && !relearned_play(&periods, 5e6, 7));
	account.paused = false;
	slept_play(&periods, 5e6, 1);
	CHECK(is_near(periods.usual_ns, 1e6, 1e-6));
}

/* Periods that vary in a look, then longer ones until a pause begins: the loss may be an error of the measure. */
static void loss_play(struct account_periods *periods)
{
	windows++;
	for (int i = 0; i < 8; i++)
		looked_play(periods, i % 2 ? 0.9e6 : 1.1e6);
	for (int i = 0; i < 40 && !account.paused; i++)
		slept_play(periods, 1.06e6, 1);
}

/* The pause measures anew, and corrects as a look does. */
static void test_a_loss_of_two_ranks_is_measured_anew(void)
{
	struct account_periods periods = {0};
	double spent_ns;

	account_reset();
	loss_play(&periods);
	spent_ns = account.spent_ns;
	CHECK(account.paused && is_in_doubt(&periods) && !account_strayed(&account, &periods));
	account.pause = 4;
	CHECK(!relearned_play(&periods, 1.06e6, 15) && account.paused);
	CHECK(relearned_play(&periods, 1.06e6, 1) && !account.paused && account.pause == 1);
	slept_play(&periods, 1.06e6, 1);
	CHECK(account.spent_ns < spent_ns - 0.1e6 && periods.usual_ns > 1.03e6);
	CHECK(account.spent_ns > account.tried_ns - 0.05e6); /* what came before the pause is no gain of the new try */
	account_reset();
	periods = (struct account_periods){0};
	look_play(&periods, 1e6);
	slept_play(&periods, 1.06e6, 20); /* without any error */
	CHECK(account.paused && relearned_play(&periods, 1.06e6, 16) && !account.paused);
}

/* The same, but the program is no slower in the pause, or by less than half of what was charged: naps cost the rest. */
static void test_a_loss_that_the_pause_does_not_show_is_one(void)
{
	static const double awake_ns[] = {1e6, 1.025e6};

	for (int i = 0; i < 2; i++) {
		struct account_periods periods = {0};
		double spent_ns;

		account_reset();
		loss_play(&periods);
		spent_ns = account.spent_ns;
		CHECK(account.paused && is_in_doubt(&periods));
		CHECK(!relearned_play(&periods, awake_ns[i], 20) && account.paused);
		CHECK(is_near(account.spent_ns, spent_ns, 1e-9));
	}
}

/* A call that was not slept in before the pause tells nothing of the loss. */
static void test_a_pause_is_ended_by_a_call_that_was_charged(void)
{
	struct account_periods periods = {0}, other = {0};

	account_reset();
	look_play(&other, 2e6);
	loss_play(&periods);
	CHECK(account.paused && !relearned_play(&other, 2.2e6, 16) && is_in_doubt(&periods));
}

/* Both ends of a period in a look lie in the window. So a look sees few long periods, and these count in part. */
static void test_a_period_counts_as_often_as_a_look_sees_it(void)
{
	static const struct {
		uint64_t period_ns, window_ns;
		double charge_ns;
	} cases[] = {
	        {1100 * US, 4 * MS, 0.1e6 * 29 / 30},
	        {2500 * US, 4 * MS, 0.25e6 / 2},
	        {4 * MS, 4 * MS, 0},
	        {5 * MS, 4 * MS, 0},
	        {900 * US, 4 * MS, -0.1e6},
	        {2500 * US, MS, 0.25e6},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct account_periods periods = {0};

		account_reset();
		look_play(&periods, 1e6);
		account_slept(&account, &periods, cases[i].period_ns, 1, cases[i].window_ns, account_now_ns);
		EXPECT(account.spent_ns > cases[i].charge_ns - 1 && account.spent_ns < cases[i].charge_ns + 1,
		       "%zu: %f", i, account.spent_ns);
	}
}

/* The rank does not sleep then: what shortens its periods is no gain of its naps, and pays for none. */
static void test_time_without_room_is_neither_charged_nor_gained(void)
{
	for (uint32_t ranks = 2; ranks <= 3; ranks++) {
		struct account_periods periods = {0};
		double spent_ns;

		account_reset();
		account.ranks = ranks;
		look_play(&periods, 1e6);
		slept_play(&periods, 1e6, 1);
		account_charge(&account, 20 * MS);
		CHECK(account_room(&account, account_now_ns) == 0 && !account.paused);
		spent_ns = account.spent_ns;
		slept_play(&periods, 1.1e6, 2);
		slept_play(&periods, 0.8e6, 2);
		CHECK(is_near(account.spent_ns, spent_ns, 1e-9));
	}
}

/* The accounts of the other ranks may allow them to sleep in this rank's pause. */
static void test_a_pause_among_many_ranks_is_no_look(void)
{
	struct account_periods periods = {0};

	account_reset();
	account.ranks = 3;
	loss_play(&periods);
	CHECK(account.paused && !is_in_doubt(&periods));
}

/* One that was held up counts for a quarter more, whenever it came. */
static void test_the_first_look_is_cut_beside_its_median(void)
{
	for (int held = 0; held < 5; held++) {
		struct account_periods periods = {0};

		account_reset();
		windows++;
		for (int i = 0; i < 5; i++)
			looked_play(&periods, i == held ? 9e6 : 1e6);
		windows++;
		looked_play(&periods, 1e6); /* the look is over */
		EXPECT(is_near(periods.usual_ns, 1.05e6, 1e-6), "%f", periods.usual_ns);
	}
}

/* Looks that vary by chance do not begin anew. */
static void test_looks_of_the_same_periods_are_averaged(void)
{
	struct account_periods periods = {0};

	account_reset();
	for (int look = 0; look < 40; look++, windows++)
		for (int i = 0; i < 8; i++)
			looked_play(&periods, about(1e6, 0.05));
	slept_play(&periods, 1e6, 1);
	EXPECT(is_near(periods.usual_ns, 1e6, 0.02), "%f", periods.usual_ns);
	CHECK(periods.weight > 8 && periods.variance > 0);
}

/* Kinds of calls by turns, each of which takes a tenth longer than in looks, for 100 rounds. Returns what is spent. */
static double kinds_play(int kinds)
{
	struct account_periods periods[3] = {{0}};
	uint64_t now_ns = OPENED;

	account_reset();
	account.ranks = 3;
	account.forgiven_ns = 1e12;
	for (int kind = 0; kind < kinds; kind++)
		look_play(&periods[kind], 2e6);
	for (int i = 0; i < 100; i++, now_ns += 2200 * US)
		for (int kind = 0; kind < kinds; kind++) {
			account.paused = false;
			account_slept(&account, &periods[kind], 2200 * US, 1, ANY_WINDOW,
			              now_ns + (uint64_t)kind * 600 * US);
		}
	return account.spent_ns;
}

static void test_what_several_kinds_of_calls_measure_counts_once(void)
{
	double one_ns = kinds_play(1);

	EXPECT(is_near(one_ns, 20e6, 0.05), "%f", one_ns);
	for (int kinds = 2; kinds <= 3; kinds++)
		EXPECT(is_near(kinds_play(kinds), one_ns, 0.25), "%d: %f", kinds, kinds_play(kinds));
}

/* How many kinds of calls there are at a time is counted outside of pauses. Each look halves what was counted. */
static void test_kinds_of_calls_are_counted_outside_of_pauses(void)
{
	struct account_periods periods[2] = {{0}};
	double spent_ns;

	account_reset();
	look_play(&periods[0], 2e6);
	look_play(&periods[1], 2e6);
	for (int i = 0; i < 100; i++, account_now_ns += 2000 * US)
		for (int kind = 0; kind < 2; kind++)
			account_slept(&account, &periods[kind], 2000 * US, 1, ANY_WINDOW, account_now_ns);
	account.paused = true;
	account.pause = 1;
	account.paused_ns = account_now_ns;
	account_now_ns += SECOND;
	account_resume(&account, TURN, account_now_ns, account_now_ns);
	spent_ns = account.spent_ns;
	account_slept(&account, &periods[0], 2200 * US, 1, ANY_WINDOW, account_now_ns);
	EXPECT(is_near(account.spent_ns - spent_ns, 0.1e6, 0.1), "%f", account.spent_ns - spent_ns);
	for (int i = 0; i < 8; i++) {
		account_settle(&account, account_now_ns);
		for (int call = 0; call < 100; call++)
			slept_play(&periods[0], 2e6, 1);
	}
	spent_ns = account.spent_ns;
	slept_play(&periods[0], 2.2e6, 1);
	EXPECT(is_near(account.spent_ns - spent_ns, 0.2e6, 0.05), "%f", account.spent_ns - spent_ns);
}

/* A program may trap underflows (gfortran -ffpe-trap=underflow). The sums of a phase fade through all later looks. */
static void test_nothing_fades_until_it_underflows(void)
{
	struct account_periods periods = {0};

	account_reset();
	look_play(&periods, 1e6);
	slept_play(&periods, 1.001e6, 1);
	account.variance = 1e9;
	feclearexcept(FE_ALL_EXCEPT);
	for (int i = 0; i < 100000; i++)
		account_settle(&account, account_now_ns);
	CHECK(!fetestexcept(FE_UNDERFLOW | FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW));
	CHECK(account.variance == 0 && account.covered_ns == 0);
}

static void test_looks_count_where_calls_were_compared_with_them(void)
{
	struct account_periods first = {0}, second = {0};

	account_reset();
	look_play(&first, 1e6);
	for (int i = 0; i < 8; i++)
		looked_play(&second, 1e6);
	slept_play(&first, 1e6, 1);
	slept_play(&second, 1e6, 1);
	CHECK(account.windows == 1);
	account_settle(&account, account_now_ns);
	CHECK(account.windows == 1);
	look_play(&second, 1e6);
	slept_play(&second, 1e6, 1);
	CHECK(account.windows == 2);
}

/* Loses more than is allowed. Returns how many turns later the pause ends. The node's clock is behind by half a turn.
 */
static uint64_t pause_play(struct account_periods *periods)
{
	uint64_t turns = 0;

	account_now_ns += 4097 * TURN - account_now_ns % (4096 * TURN); /* a turn after a multiple of any pause */
	account.spent_ns = account_allowed(&account, account_now_ns) - 5e6;
	account.tried_ns = account.spent_ns;
	account.resumed_ns = account_now_ns;
	slept_play(periods, 1.2e6, 3);
	CHECK(account.paused && account_room(&account, account_now_ns) == 0);
	do {
		account_now_ns += TURN;
		turns++;
		account_resume(&account, TURN, account_now_ns, account_now_ns - TURN / 2);
	} while (account.paused && turns < 10000);
	CHECK(account_room(&account, account_now_ns) > 0);
	return turns;
}

static void test_pauses_grow_and_shrink(void)
{
	struct account_periods periods = {0};
	uint64_t most = 0;

	account_reset();
	look_play(&periods, 1e6);
	for (uint64_t turns = 1; turns <= 64; turns *= 4) {
		uint64_t seen = pause_play(&periods);

		EXPECT(seen + 1 >= turns && seen <= turns + 1, "%" PRIu64 ", %" PRIu64, seen, turns);
	}
	for (uint64_t i = 0; i < 10; i++)
		account_settle(&account, account_now_ns);
	CHECK(pause_play(&periods) <= 2);
	for (int i = 0; i < 10; i++)
		most = pause_play(&periods);
	EXPECT(most >= 4095 && most <= 4097, "%" PRIu64, most);
}

/*
 * Plays calls that sleep makes longer by that share, until a pause begins. Returns how many turns it lasts, if the one
 * before lasted 4 and began so long before this try.
 */
static uint32_t next_pause(double share, uint64_t before_ns)
{
	struct account_periods periods = {0};

	account_reset();
	look_play(&periods, 1e6);
	account.pause = 4;
	account.resumed_ns = account_now_ns;
	account.paused_ns = account_now_ns - before_ns;
	for (int i = 0; i < 1000 && !account.paused; i++)
		slept_play(&periods, 1e6 * (1 + share), 1);
	CHECK(account.paused);
	return account.pause;
}

static void test_pauses_grow_with_what_a_try_cost(void)
{
	CHECK(next_pause(0.1, 4 * TURN) == 16 && next_pause(0.1, SECOND) == 16);
	CHECK(next_pause(0.015, 4 * MS) == 8);
	CHECK(next_pause(0.015, SECOND / 2) == 4);
}

/* Ranks whose pauses begin at different times end them at the same one. */
static void test_pauses_of_a_job_end_together(void)
{
	uint64_t began_ns = OPENED - OPENED % (16 * TURN), ends_ns[2] = {0};

	for (int i = 0; i < 2; i++) {
		uint64_t now_ns = began_ns + (i == 0 ? TURN / 2 : 13 * TURN);

		account_reset();
		account.paused = true;
		account.pause = 16;
		account.paused_ns = now_ns;
		while (account.paused && now_ns < began_ns + 64 * TURN) {
			now_ns += TURN / 8;
			account_resume(&account, TURN, now_ns, now_ns);
		}
		ends_ns[i] = now_ns;
	}
	CHECK(ends_ns[0] == began_ns + 16 * TURN && ends_ns[1] == ends_ns[0]);
}

/* An allowance that fades beyond its limit is no loss of the try. */
static void test_what_fades_begins_no_pause(void)
{
	struct account_periods periods = {0};

	account_reset();
	look_play(&periods, 1e6);
	for (int i = 0; i < 100; i++) {
		account_now_ns += SECOND;
		account_settle(&account, account_now_ns);
		slept_play(&periods, 1e6, 1);
	}
	CHECK(!account.paused);
}

static void test_a_try_after_a_pause_may_lose_little(void)
{
	struct account_periods periods = {0};
	double room_ns;

	account_reset();
	look_play(&periods, 1e6);
	pause_play(&periods);
	room_ns = (double)account_room(&account, account_now_ns);
	EXPECT(room_ns > 0 && room_ns <= ALLOWANCE_START_NS, "%f", room_ns);
	CHECK((double)account_room(&account, account_now_ns + SECOND / 2) > room_ns + 2.5e6);
	CHECK((double)account_room(&account, account_now_ns + SECOND / 2) < room_ns + 3.5e6);
	account_charge(&account, room_ns + 1e3); /* what the clock charges is no loss of the try */
	CHECK(is_near((double)account_room(&account, account_now_ns), room_ns, 1e-6));
	slept_play(&periods, 1.2e6, 2);
	CHECK(!account.paused);
	slept_play(&periods, 1.2e6, 1);
	CHECK(account.paused);
}

/* A held-up step of 5 ms is charged more than the 0.4 ms of a try. */
static void test_one_held_up_step_ends_no_try(void)
{
	struct account_periods periods = {0};

	account_reset();
	look_play(&periods, 5e6);
	slept_play(&periods, 20e6, 1);
	EXPECT(is_near(account.spent_ns, 1.25e6, 0.01) && !account.paused, "%f", account.spent_ns);
	slept_play(&periods, 20e6, 1);
	CHECK(account.paused);
}

static void test_more_than_is_allowed_ends_all_naps(void)
{
	struct account_periods periods = {0};
	double spent_ns;

	account_reset();
	account.ranks = 3;
	look_play(&periods, 1e6);
	charged_play(&periods, 1.1e6, 1000);
	spent_ns = account.spent_ns;
	CHECK(spent_ns > account_allowed(&account, account_now_ns) && !account.paused);
	CHECK(account_room(&account, account_now_ns) == 0);
	CHECK(account_room(&account, account_now_ns + TURN) == 0);
}

static void test_the_clock_charges_what_it_says(void)
{
	uint64_t room_ns;

	account_reset();
	account_charge(&account, 2400 * US); /* now the whole account allows less than the try */
	room_ns = account_room(&account, OPENED + SECOND / 10);
	account_charge(&account, 300 * US);
	CHECK(account_room(&account, OPENED + SECOND / 10) == room_ns - 300 * US);
	CHECK(account.more_ns == 0 && account.slept_ns == 0); /* it has measured nothing */
}

/* The other nodes' ranks are taken to oversleep as much. */
static void test_an_oversleep_counts_for_each_node(void)
{
	struct account_periods periods = {0};
	double tried_ns;

	account_reset();
	account.ranks = 64;
	account_overslept(&account, MS, 16, OPENED);
	CHECK(account.spent_ns == 4e6 && account.more_ns == 4e6);
	account_overslept(&account, MS, 64, OPENED);
	account_overslept(&account, MS, 100, OPENED); /* they were begun more than once */
	CHECK(account.spent_ns == 6e6);
	account_overslept(&account, MS, 0, OPENED);
	CHECK(account.spent_ns == 70e6);
	tried_ns = account.tried_ns;
	CHECK(tried_ns == account.spent_ns && !account.paused); /* no loss of the try */

	account_reset();
	look_play(&periods, 1e6);
	for (int i = 0; i < 100; i++) { /* two kinds of calls at once, each of which has the loss */
		slept_play(&periods, 1e6, 1);
		account_slept(&account, &periods, MS, 1, ANY_WINDOW, account_now_ns);
	}
	account.more_ns = 0;
	account_overslept(&account, MS, 2, account_now_ns);
	EXPECT(account.more_ns > 1.8e6 && account.more_ns < 2.2e6, "%f", account.more_ns);
}

/* Calls of two looks whose periods vary, and 200 others. */
static void error_make(struct account_periods *periods)
{
	account_reset();
	for (int i = 0; i < 32; i++) {
		windows += i % 16 == 0;
		looked_play(periods, about(1e6, 0.1));
	}
	for (int i = 0; i < 200; i++)
		charged_play(periods, about(1e6, 0.1), 1);
}

static void test_an_error_forgives_and_fades(void)
{
	struct account_periods periods = {0};

	error_make(&periods);
	account_settle(&account, account_now_ns);
	EXPECT(account.variance > 0.25e12 && account.variance < 400e12, "%g", account.variance);
	account.spent_ns = account_allowed(&account, account_now_ns);
	account.tried_ns = account.spent_ns;
	CHECK(is_near((double)account_room(&account, account_now_ns), 0.4e6, 0.01));
	for (int i = 0; i < 400; i++)
		account_settle(&account, account_now_ns);
	EXPECT(account.forgiven_ns < 0.02e6, "%f", account.forgiven_ns);
	CHECK((double)account_room(&account, account_now_ns) <= account.forgiven_ns);
}

/*
 * Calls slept in take 2 % longer; all periods vary by 5 %. Returns how far the sums are from that, in the standard
 * errors that they tell.
 */
static double record_play(void)
{
	struct account_periods periods = {0};
	double percent, error = 0;

	account_reset();
	for (int round = 0; round < 300; round++) {
		windows++;
		for (int i = 0; i < 4; i++)
			looked_play(&periods, about(1e6, 0.05));
		for (int i = 0; i < 40; i++)
			charged_play(&periods, about(1.02e6, 0.05), 1);
		account_settle(&account, account_now_ns);
	}
	percent = 100 * account.more_ns / account.slept_ns;
	while (error * error < account.variance_sum) /* its root, without libm */
		error += 1000;
	error *= 100 / account.slept_ns;
	EXPECT(error > 0.01 && error < 1, "%f", error);
	return (percent - 2) / error;
}

static void test_the_record_tells_the_truth(void)
{
	int within = 0;

	for (int i = 0; i < 200; i++) {
		double beside = record_play();

		within += beside > -2 && beside < 2;
	}
	EXPECT(within >= 185 && within < 200, "%d", within); /* 95 % of them, or a little more */
	CHECK(account.windows == 300);
}

/* ---- Plan ---- */

#define EXIT_NS 25000
#define POLL_NS 2000

static struct plan plan;
static struct mpiwait_lane lane;
static struct mpiwait_header node;

/* What was seen of one wait. */
static struct {
	uint64_t asleep_ns, over_ns;
	int naps, naps_in_looks;
	uint64_t late_ns;  /* the next nap ends so much later */
	uint64_t work_ns;  /* signs of progress come for so long at the end of the wait ... */
	uint64_t early_ns; /* ... and one comes so long after its begin; 0: none */
	bool telling;
} wait;

static uint64_t real_of(uint64_t now_ns)
{
	return now_ns + 77 * SECOND;
}

static void plan_reset(bool forecasts)
{
	memset(&wait, 0, sizeof(wait));
	memset(&lane, 0, sizeof(lane));
	node = (struct mpiwait_header){.claimed = 2};
	forecast_reset(2);
	plan_start(&plan, forecasts ? &forecast : NULL, &lane, &node, SEED, SLOWDOWN, OPENED);
}

/* How long a nap may be: of a call whose periods are compared, as long as the account may keep, if it has any room. */
static uint64_t room_of(uint64_t now_ns)
{
	uint64_t room_ns = account_room(&plan.account, now_ns);
	bool compared = forecast.entry && account_knows(&forecast.entry->periods);

	return compared && room_ns > 0 ? (uint64_t)ACCOUNT_KEPT_NS : room_ns;
}

static uint64_t nap_play(uint64_t now_ns, struct plan_step step)
{
	uint64_t woke_ns = now_ns + step.ask_ns + EXIT_NS + wait.late_ns;
	bool at_look = looks_at(&plan.looks, now_ns);

	CHECK_LAW(step.ask_ns >= FORECAST_NAP_NS && step.left_ns >= step.ask_ns, "%" PRIu64, step.ask_ns);
	CHECK_LAW(at_look || plan.looks.from_ns <= now_ns || now_ns + step.ask_ns <= plan.looks.from_ns,
	          "into a look: %" PRIu64, now_ns);
	CHECK_LAW(step.ask_ns < room_of(now_ns), "%" PRIu64, step.ask_ns);
	plan_woke(&plan, (struct plan_nap){PLAN_BY_FORECAST, now_ns, step.ask_ns, woke_ns, false, true});
	wait.late_ns = 0;
	wait.naps++;
	wait.naps_in_looks += at_look;
	wait.asleep_ns += woke_ns - now_ns;
	return woke_ns;
}

/* Whether the runtime makes progress at that time of a wait that lasts for so long. */
static bool is_work(uint64_t waited_ns, uint64_t lasts_ns)
{
	return (wait.early_ns != 0 && waited_ns - wait.early_ns < POLL_NS) || waited_ns + wait.work_ns > lasts_ns;
}

/* One wait of the plan, which is told of no nap but those that it has asked for. Returns when its end is noticed. */
static uint64_t wait_play(uint64_t site, uint32_t number, uint64_t began_ns, uint64_t lasts_ns)
{
	uint64_t now_ns = began_ns, last_ns = began_ns;

	wait.asleep_ns = 0;
	wait.naps = wait.naps_in_looks = 0;
	plan_open(&plan, site, number, true, began_ns, real_of(began_ns));
	for (; now_ns < began_ns + lasts_ns; now_ns = last_ns + POLL_NS) {
		struct plan_step step;

		if (is_work(now_ns - began_ns, lasts_ns)) {
			if (wait.telling)
				plan_progress(&plan, last_ns, now_ns);
			last_ns = now_ns;
			continue;
		}
		plan_quiet(&plan);
		last_ns = now_ns;
		step = plan_ask(&plan, now_ns, 0);
		if (step.advice == PLAN_NAP)
			last_ns = nap_play(now_ns, step);
	}
	wait.over_ns = last_ns > began_ns + lasts_ns ? last_ns - began_ns - lasts_ns : 0;
	plan_close(&plan, last_ns);
	return now_ns > last_ns ? now_ns : last_ns;
}

/* So many waits of that length, after some work each. Returns when they are over. */
static uint64_t waits_play(uint64_t now_ns, uint64_t lasts_ns, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		now_ns = wait_play(SITE, first + i, now_ns + 200 * US, lasts_ns);
	return now_ns;
}

/* Finds a wait outside of looks, of those that are played from now on. Returns when it may begin. */
static uint64_t beside_looks(uint64_t now_ns, uint64_t lasts_ns, uint32_t *number)
{
	do
		now_ns = waits_play(now_ns, lasts_ns, (*number)++, 1);
	while (looks_at(&plan.looks, now_ns) || looks_at(&plan.looks, now_ns + 2 * lasts_ns + 400 * US) ||
	       now_ns > plan.looks.until_ns);
	return now_ns + 200 * US;
}

/* Opens, outside of looks, a call whose waits and periods are known. Returns when it begins to wait. */
static uint64_t known_open(uint64_t lasts_ns, uint32_t *ret_number)
{
	uint64_t now_ns;

	*ret_number = 400;
	plan_reset(true);
	now_ns = waits_play(OPENED, lasts_ns, 0, 400);
	now_ns = beside_looks(now_ns, lasts_ns, ret_number);
	plan_open(&plan, SITE, *ret_number, true, now_ns, real_of(now_ns));
	return now_ns;
}

/* The first wait of a new plan, long after the first look. Returns when the second one may begin, outside of looks. */
static uint64_t wait_play_first(uint64_t lasts_ns)
{
	uint64_t now_ns = OPENED + SECOND;

	do {
		plan_reset(true);
		now_ns = wait_play(SITE, 0, now_ns + 3 * MS, lasts_ns) + 200 * US;
		looks_find(&plan.looks, now_ns, real_of(now_ns));
	} while (plan.looks.from_ns < now_ns + 2 * MS);
	return now_ns;
}

static void test_waits_that_repeat_are_slept_through_but_in_looks(void)
{
	uint64_t now_ns, lasts_ns = MS, asleep_ns = 0;
	int slept = 0, in_looks = 0;

	plan_reset(true);
	forecast.ranks = plan.account.ranks = 3;
	now_ns = waits_play(OPENED, lasts_ns, 0, 6);
	CHECK(lane.forecasts == 0); /* the job looks at first */
	for (uint32_t i = 6; i < 2006; i++) {
		now_ns = waits_play(now_ns, lasts_ns, i, 1);
		slept += wait.naps > 0;
		in_looks += wait.naps_in_looks;
		asleep_ns += wait.asleep_ns;
		CHECK_LAW(wait.naps <= 2 && wait.over_ns == 0, "call %u", i);
	}
	CHECK(in_looks == 0);
	EXPECT(slept > 1700, "%d", slept);
	EXPECT(asleep_ns > 1700 * lasts_ns * 8 / 10, "%" PRIu64, asleep_ns);
	CHECK(lane.foreseen == (uint64_t)slept && lane.early == (uint64_t)slept && lane.late == 0);
	CHECK(lane.early_ns > 0 && lane.forecasts >= lane.foreseen && lane.late_ns == 0);
	CHECK(lane.cost_slept_ns > 0 && lane.cost_windows > 5);
}

static void test_a_long_wait_is_slept_in_for_a_part_in_looks(void)
{
	uint64_t now_ns, lasts_ns = 20 * FORECAST_LONG_NS;
	int in_looks = 0;

	plan_reset(true);
	now_ns = waits_play(OPENED, lasts_ns, 0, 6);
	for (uint32_t i = 6; i < 1500; i++) {
		now_ns = waits_play(now_ns, lasts_ns, i, 1);
		if (wait.naps_in_looks == 0 || wait.naps_in_looks < wait.naps)
			continue;
		in_looks++;
		CHECK_LAW(wait.asleep_ns <= EXIT_NS + lasts_ns * 15 / 16 && wait.asleep_ns > lasts_ns * 7 / 8,
		          "%" PRIu64, wait.asleep_ns);
	}
	EXPECT(in_looks > 10, "%d", in_looks);
}

/*
 * Waits that long of so many ranks. Writes the longest sleep in a wait that lay in a look, by whether the look was
 * strict. late: what the entry says of late ends before each. odd_ns: the oldest kept end, if not 0.
 */
static void looks_play(uint32_t ranks, uint64_t lasts_ns, uint8_t late, uint64_t odd_ns, uint64_t ret_asleep_ns[2])
{
	int seen[2] = {0};
	uint64_t now_ns;

	plan_reset(true);
	forecast.ranks = plan.account.ranks = ranks;
	now_ns = waits_play(OPENED, lasts_ns, 0, 20);
	ret_asleep_ns[0] = ret_asleep_ns[1] = 0;
	for (uint32_t i = 20; i < 8000; i++) {
		bool in_look = looks_at(&plan.looks, now_ns + 200 * US);

		if (forecast.entry && late > 0)
			forecast.entry->late = late;
		if (forecast.entry && odd_ns > 0)
			forecast.entry->wait.at[FORECAST_ENDS - 1] = (uint32_t)(odd_ns >> FORECAST_UNIT);
		now_ns = waits_play(now_ns, lasts_ns, i, 1);
		if (!in_look || !looks_at(&plan.looks, now_ns))
			continue;
		seen[plan.looks.strict]++;
		if (wait.asleep_ns > ret_asleep_ns[plan.looks.strict])
			ret_asleep_ns[plan.looks.strict] = wait.asleep_ns;
	}
	EXPECT(seen[0] > 0 && seen[1] > 0, "%d, %d", seen[0], seen[1]);
}

/* Long waits, but in strict looks: those show the power of ranks that poll. To two ranks half a millisecond is long. */
static void test_what_is_slept_in_looks(void)
{
	static const struct {
		uint32_t ranks;
		uint64_t lasts_ns, most_ns;
		uint8_t late;
		uint64_t odd_ns;
	} cases[] = {
	        {2, 450 * US, 0, 0, 0},
	        {2, 1000 * US, 900 * US, 0, 0},
	        {2, 1000 * US, 900 * US, 2, 0},
	        {2, 1000 * US, 0, 3, 0},
	        {2, 1000 * US, 900 * US, 0, 12 * US},
	        {2, 1000 * US, 0, 0, 20 * US},
	        {3, 1000 * US, 0, 0, 0},
	        {3, 5000 * US, 5000 * US * 15 / 16, 0, 0},
	        {3, 5000 * US, 5000 * US * 15 / 16, 3, 0},
	        {3, 5000 * US, 5000 * US * 15 / 16, 0, 70 * US},
	        {3, 5000 * US, 0, 0, 90 * US},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t asleep_ns[2], least_ns = cases[i].most_ns * 7 / 8;

		looks_play(cases[i].ranks, cases[i].lasts_ns, cases[i].late, cases[i].odd_ns, asleep_ns);
		EXPECT(asleep_ns[0] >= least_ns && asleep_ns[0] <= cases[i].most_ns, "%zu: %" PRIu64, i, asleep_ns[0]);
		EXPECT(asleep_ns[1] == 0, "%zu: %" PRIu64, i, asleep_ns[1]);
	}
}

/* In a long pause, whose periods are longer: two ranks learn from it that naps were not the cause. */
static void test_a_pause_of_two_ranks_counts_as_a_look(void)
{
	for (uint32_t ranks = 2; ranks <= 3; ranks++) {
		uint64_t now_ns;

		plan_reset(true);
		forecast.ranks = plan.account.ranks = ranks;
		now_ns = waits_play(OPENED, MS, 0, 200);
		plan.account.paused = true;
		plan.account.pause = 4096;
		plan.account.paused_ns = now_ns;
		forecast.entry->periods.slept = 10;
		forecast.entry->periods.charged_ns = 1e6;
		now_ns = waits_play(now_ns, MS + MS / 10, 200, 18);
		CHECK(plan.account.paused == (ranks > 2));
	}
}

/* After silences of 1 ms messages are passed on for 400 us: a telling runtime has them served. */
static void test_the_nap_aims_at_the_end_of_the_last_long_silence(void)
{
	for (int telling = 0; telling < 2; telling++) {
		uint32_t number = 400;
		uint64_t now_ns;

		plan_reset(true);
		wait.telling = telling;
		wait.work_ns = 400 * US;
		now_ns = waits_play(OPENED, 1400 * US, 0, 400);
		now_ns = beside_looks(now_ns, 1400 * US, &number);
		wait_play(SITE, number, now_ns, 1400 * US);
		CHECK(wait.naps == 1);
		EXPECT(telling ? wait.asleep_ns < 1000 * US && wait.asleep_ns > 800 * US : wait.asleep_ns > 1000 * US,
		       "%" PRIu64, wait.asleep_ns);
	}
}

static void test_signs_of_progress_before_are_slept_through(void)
{
	uint32_t number = 400;
	uint64_t now_ns;

	plan_reset(true);
	wait.telling = true;
	wait.early_ns = 400 * US;
	now_ns = waits_play(OPENED, MS, 0, 400);
	now_ns = beside_looks(now_ns, MS, &number);
	wait_play(SITE, number, now_ns, MS);
	CHECK(wait.naps == 1 && wait.asleep_ns > 800 * US);
}

static void test_late_waits_are_followed_by_two_without_a_nap(void)
{
	uint32_t number = 400;
	uint64_t now_ns;

	plan_reset(true);
	now_ns = waits_play(OPENED, MS, 0, 400);
	now_ns = beside_looks(now_ns, MS, &number);
	for (int i = 0; i < 3; i++) {
		wait.late_ns = 300 * US;
		now_ns = waits_play(now_ns, MS, number++, 1);
		CHECK(wait.naps == 1 && wait.over_ns > 0);
	}
	CHECK(lane.late == 3);
	for (int i = 0; i < 2; i++) {
		plan_open(&plan, SITE, number++, true, now_ns, real_of(now_ns));
		CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_LOOK);
		now_ns += MS;
		plan_close(&plan, now_ns);
	}
	now_ns = waits_play(now_ns, MS, number, 1);
	CHECK(wait.naps == 1);
}

/* A wait outside of looks, of which nothing or all is known, in which the given nap was taken. Returns when it ends. */
static uint64_t napped_play(bool known, struct plan_nap nap, uint64_t ask_ns, uint64_t took_ns)
{
	uint32_t number = 400;
	uint64_t now_ns = OPENED + LOOKS_FIRST_NS;

	plan_reset(true);
	if (known) {
		now_ns = waits_play(OPENED, MS, 0, 400);
		now_ns = beside_looks(now_ns, MS, &number);
	}
	plan_open(&plan, known ? SITE : SITE + 1, number, known, now_ns, real_of(now_ns));
	plan.account.spent_ns = 0;
	nap.began_ns = now_ns;
	nap.ask_ns = ask_ns;
	nap.woke_ns = now_ns + took_ns;
	plan_woke(&plan, nap);
	return nap.woke_ns;
}

static void test_what_is_not_compared_is_charged_by_the_clock(void)
{
	struct plan_nap nap = {.end = PLAN_BY_LADDER, .alike = true};
	uint64_t woke_ns = napped_play(false, nap, 90 * US, 100 * US);

	plan_progress(&plan, woke_ns, woke_ns + US);
	CHECK(plan.account.spent_ns == 1e5 && lane.late_ns == 100 * US);
	plan_progress(&plan, woke_ns + 2 * US, woke_ns + 3 * US);
	plan_close(&plan, woke_ns + 4 * US);
	CHECK(plan.account.spent_ns == 1e5); /* once */
	woke_ns = napped_play(false, nap, 90 * US, 100 * US);
	plan_close(&plan, woke_ns);
	CHECK(plan.account.spent_ns == 1e5);
	woke_ns = napped_play(false, nap, 90 * US, 100 * US);
	plan_quiet(&plan); /* nothing came in it */
	plan_close(&plan, woke_ns + MS);
	CHECK(plan.account.spent_ns == 0 && lane.late_ns == 0);
}

static void test_what_is_compared_is_charged_for_late_naps_alone(void)
{
	struct plan_nap nap = {.end = PLAN_BY_FORECAST, .alike = true};
	uint64_t woke_ns = napped_play(true, nap, 500 * US, 510 * US);

	plan_progress(&plan, woke_ns, woke_ns + US);
	CHECK(plan.account.spent_ns == 0);
	woke_ns = napped_play(true, nap, 500 * US, 4500 * US);
	plan_progress(&plan, woke_ns, woke_ns + US);
	EXPECT(plan.account.spent_ns > 3.5e6, "%f", plan.account.spent_ns);
	nap.shared = true; /* another process had the core */
	woke_ns = napped_play(true, nap, 500 * US, 4500 * US);
	plan_progress(&plan, woke_ns, woke_ns + US);
	CHECK(plan.account.spent_ns == 0);
	woke_ns = napped_play(false, nap, 500 * US, 4500 * US);
	plan_progress(&plan, woke_ns, woke_ns + US);
	CHECK(plan.account.spent_ns == 5e5); /* no more than was asked for */
}

/* Opens the next call of another rank of the node, whose plan has started before. Returns what it has spent. */
static double other_spent(struct plan *other, uint64_t now_ns)
{
	plan_open(other, SITE, 1, true, now_ns, real_of(now_ns));
	return other->account.spent_ns;
}

/* One rank of the node oversleeps: each rank is charged for it, once, and those that start later are not. */
static void test_all_ranks_of_the_node_are_charged_for_an_oversleep(void)
{
	struct plan_nap nap = {.end = PLAN_BY_FORECAST, .alike = true};
	static struct forecast others;
	uint64_t woke_ns, cut_ns, told_ns;
	struct mpiwait_lane lanes = {0};
	struct plan other;

	others.ranks = 2;
	woke_ns = napped_play(true, nap, 500 * US, 4500 * US);
	plan_start(&other, &others, &lanes, &node, SEED, SLOWDOWN, OPENED);
	cut_ns = (uint64_t)(forecast.entry->periods.usual_ns / ACCOUNT_CUT);
	plan_progress(&plan, woke_ns, woke_ns + US);
	told_ns = node.overslept_ns;
	CHECK(told_ns == 4 * MS - cut_ns && plan.account.spent_ns == (double)told_ns && lane.late_ns == told_ns);
	plan_close(&plan, woke_ns + 2 * US);
	CHECK(node.overslept_ns == told_ns);
	CHECK(other.account.spent_ns == 0 && other_spent(&other, woke_ns) == (double)told_ns);
	CHECK(other.account.more_ns == (double)told_ns);
	CHECK(other_spent(&other, woke_ns + MS) == (double)told_ns);
	plan_start(&other, &others, &lanes, &node, SEED, SLOWDOWN, OPENED);
	CHECK(other_spent(&other, woke_ns + MS) == 0);
}

/* Others may oversleep for longer than this rank has compared its periods. */
static void test_no_more_is_told_than_was_compared(void)
{
	uint32_t number;
	uint64_t now_ns = known_open(MS, &number);

	plan_close(&plan, now_ns + MS);
	CHECK(lane.cost_slept_ns > 0 && lane.cost_more_ns < (int64_t)lane.cost_slept_ns);
	plan.account.more_ns = 1e15;
	plan_open(&plan, SITE, ++number, true, now_ns + 2 * MS, real_of(now_ns + 2 * MS));
	plan_close(&plan, now_ns + 3 * MS);
	CHECK(lane.cost_slept_ns > 0 && lane.cost_more_ns == (int64_t)lane.cost_slept_ns);
}

/* Where nothing is compared the clock charges the rank itself for the nap, but for what all are charged for. */
static void test_an_oversleep_of_a_call_that_is_not_compared_is_told_from_100_us_on(void)
{
	struct plan_nap nap = {.end = PLAN_BY_LADDER, .alike = true};
	uint64_t woke_ns = napped_play(false, nap, 90 * US, 190 * US);

	plan_progress(&plan, woke_ns, woke_ns + US);
	CHECK(node.overslept_ns == 0 && plan.account.spent_ns == 1.9e5);
	woke_ns = napped_play(false, nap, 90 * US, 690 * US);
	plan_progress(&plan, woke_ns, woke_ns + US);
	CHECK(node.overslept_ns == 500 * US && plan.account.spent_ns == 6.9e5 && lane.late_ns == 690 * US);
}

/* Ends the open call, in which the latest nap ended now, and the same call after it next_ns later. Returns what stays
 * told. */
static uint64_t told_after(uint64_t woke_ns, uint64_t next_ns)
{
	plan_progress(&plan, woke_ns, woke_ns);
	plan_close(&plan, woke_ns);
	plan_open(&plan, SITE, forecast.number + 1, true, woke_ns, real_of(woke_ns));
	plan_close(&plan, woke_ns + next_ns);
	return node.overslept_ns;
}

/* The nap ended 1 ms late. */
static void test_an_oversleep_that_delays_nobody_is_taken_back(void)
{
	struct plan_nap nap = {.end = PLAN_BY_FORECAST, .alike = true};
	uint64_t ask_ns = 500 * US, took_ns = 1500 * US, woke_ns, usual_ns, told_ns, late_ns;
	double spent_ns;

	woke_ns = napped_play(true, nap, ask_ns, took_ns);
	usual_ns = (uint64_t)forecast.entry->periods.usual_ns;
	late_ns = woke_ns - forecast.entry->ended_ns - usual_ns;
	told_ns = MS - usual_ns / ACCOUNT_CUT;
	CHECK(late_ns < told_ns && told_after(woke_ns, usual_ns) == late_ns);
	woke_ns = napped_play(true, nap, ask_ns, took_ns);
	CHECK(told_after(woke_ns, 2 * usual_ns) == told_ns);
	woke_ns = napped_play(true, nap, ask_ns, took_ns);
	CHECK(told_after(woke_ns, usual_ns - late_ns) == 0);
	spent_ns = plan.account.spent_ns;
	woke_ns += usual_ns - late_ns;
	plan_open(&plan, SITE, forecast.number + 1, true, woke_ns, real_of(woke_ns));
	CHECK(is_near(plan.account.spent_ns, spent_ns - (double)told_ns, 1e-6));
	plan_close(&plan, woke_ns + usual_ns);
	CHECK(node.overslept_ns == 0); /* once */
	woke_ns = napped_play(true, nap, ask_ns, took_ns);
	plan.account.ranks = 3;
	CHECK(told_after(woke_ns, usual_ns - late_ns) == told_ns);
}

/* Before looks have shown how long the periods are: beside the shortest. */
static void test_an_oversleep_before_the_first_look_is_taken_back(void)
{
	struct plan_nap nap = {.end = PLAN_BY_LADDER, .alike = true, .ask_ns = 500 * US};
	uint64_t now_ns = OPENED + LOOKS_FIRST_NS;

	for (int shortest = 0; shortest < 2; shortest++) {
		plan_reset(true);
		now_ns = OPENED + LOOKS_FIRST_NS;
		for (uint32_t number = 0; number < 4; number++) {
			plan_open(&plan, SITE, number, true, now_ns, real_of(now_ns));
			now_ns += shortest && number == 2 ? MS / 2 : MS;
			plan_close(&plan, now_ns);
		}
		plan_open(&plan, SITE, 4, true, now_ns, real_of(now_ns));
		nap.began_ns = now_ns;
		nap.woke_ns = now_ns + 1500 * US;
		plan_woke(&plan, nap);
		CHECK(!account_knows(&forecast.entry->periods));
		CHECK(told_after(nap.woke_ns, 500 * US) == (shortest ? 900 * US : 0));
		/* The period after an oversleep is short, and not the shortest. */
		plan_open(&plan, SITE, 6, true, nap.woke_ns + MS, real_of(nap.woke_ns + MS));
		plan_close(&plan, nap.woke_ns + 1500 * US);
		CHECK(forecast.entry->least_ns == (shortest ? MS / 2 : MS));
	}
}

/* What is known of exits after 100 naps of that kind, each of 500 us more than asked. */
static uint64_t exit_after(struct plan_nap nap)
{
	plan_reset(true);
	plan_open(&plan, SITE, 1, true, OPENED, real_of(OPENED));
	for (int i = 0; i < 100; i++) {
		nap.began_ns = OPENED;
		nap.ask_ns = MS;
		nap.woke_ns = OPENED + 1500 * US;
		plan_woke(&plan, nap);
	}
	return forecast_exit_ns(&forecast, MS);
}

static void test_naps_that_tell_nothing_of_exits_teach_none(void)
{
	uint64_t first_ns = exit_after((struct plan_nap){.end = PLAN_BY_MESSAGE, .alike = true});

	CHECK(lane.forecasts == 0);
	CHECK(exit_after((struct plan_nap){.end = PLAN_BY_FORECAST, .alike = false}) == first_ns);
	CHECK(lane.forecasts == 100);
	CHECK(exit_after((struct plan_nap){.end = PLAN_BY_FORECAST, .alike = true, .shared = true}) == first_ns);
	CHECK(exit_after((struct plan_nap){.end = PLAN_BY_FORECAST, .alike = true}) > 2 * first_ns);
	CHECK(exit_after((struct plan_nap){.end = PLAN_BY_LADDER, .alike = true}) > 2 * first_ns);
}

static void test_no_nap_is_longer_than_it_may_be(void)
{
	uint32_t number;
	uint64_t now_ns;
	struct plan_step step;

	now_ns = known_open(MS, &number);
	step = plan_ask(&plan, now_ns, 100 * US);
	CHECK(step.advice == PLAN_NAP && step.ask_ns == 100 * US && step.left_ns > 700 * US);
	plan.account.forgiven_ns = 0;
	plan.account.spent_ns = account_allowed(&plan.account, now_ns) - 2e5;
	plan.account.tried_ns = plan.account.spent_ns;
	CHECK(plan_ask(&plan, now_ns, 0).ask_ns > 700 * US); /* its periods are compared: they tell what it costs */
	forecast.entry->periods.weight = 0;
	step = plan_ask(&plan, now_ns, 0);
	CHECK(step.advice == PLAN_NAP && step.ask_ns <= 200 * US && step.ask_ns > 100 * US);
	forecast.entry->periods.weight = ACCOUNT_KNOWN;
	plan.account.ranks = 1000; /* makes no difference to a call that is compared */
	plan.account.covered_ns = 0;
	CHECK(plan_room(&plan, now_ns) >= 190 * US && plan_room(&plan, now_ns) < 210 * US);
	plan.account.paused = true;
	CHECK(plan_ask(&plan, now_ns, 0).advice != PLAN_NAP && plan_room(&plan, now_ns) < 1);
}

static void test_no_nap_of_a_compared_call_is_longer_than_the_account_may_keep(void)
{
	uint64_t now_ns, lasts_ns = 4 * (uint64_t)ACCOUNT_KEPT_NS;
	uint32_t number;
	struct plan_step step;

	now_ns = known_open(lasts_ns, &number);
	CHECK(account_knows(&forecast.entry->periods));
	step = plan_ask(&plan, now_ns, 0);
	CHECK(step.advice == PLAN_NAP && step.left_ns > 3 * (uint64_t)ACCOUNT_KEPT_NS);
	EXPECT(is_near((double)step.ask_ns, ACCOUNT_KEPT_NS, 0.01) && step.ask_ns < (uint64_t)ACCOUNT_KEPT_NS,
	       "%" PRIu64, step.ask_ns);
}

/* The ends that are left may be wrong for this wait, and of a wrong nap the account counts a part alone. */
static void test_no_nap_after_a_missed_end_is_longer_than_what_the_account_counts(void)
{
	uint32_t number;
	uint64_t now_ns, cut_ns;

	now_ns = known_open(MS, &number);
	forecast.origin_ns = 0; /* by the first clock */
	forecast.entry->wait.at[0] = 10 * US >> FORECAST_UNIT;
	cut_ns = (uint64_t)(forecast.entry->periods.usual_ns / ACCOUNT_CUT);
	CHECK(cut_ns > 200 * US && cut_ns < 400 * US && account_knows(&forecast.entry->periods));
	CHECK(plan_ask(&plan, now_ns + 50 * US, 0).ask_ns == cut_ns);
	CHECK(plan_ask(&plan, now_ns + 50 * US, 100 * US).ask_ns == 100 * US);
	plan.forecast->entry->periods.weight = 0;
	EXPECT(plan_ask(&plan, now_ns + 50 * US, 0).ask_ns > cut_ns, "%" PRIu64,
	       plan_ask(&plan, now_ns + 50 * US, 0).ask_ns);
}

/* All known ends of a call were missed: some rank is late, perhaps by a nap. */
static void test_many_ranks_climb_no_ladder_before_twice_the_usual_period(void)
{
	uint32_t number;
	uint64_t now_ns = known_open(MS, &number), before_ns = forecast.entry->ended_ns, usual_ns;

	usual_ns = (uint64_t)forecast.entry->periods.usual_ns;
	plan.account.ranks = 2;
	CHECK(before_ns + usual_ns > now_ns && before_ns + 2 * usual_ns - 10 * US > now_ns + MS + MS / 4);
	CHECK(plan_ask(&plan, before_ns + 2 * usual_ns - 10 * US, 0).advice == PLAN_LADDER);
	plan.account.ranks = 3;
	CHECK(plan_ask(&plan, before_ns + 2 * usual_ns - 10 * US, 0).advice == PLAN_LANDED);
	CHECK(plan.outlasted_ns != 0 && plan.landing_ns != 0);
	CHECK(plan_ask(&plan, before_ns + 2 * usual_ns + 10 * US, 0).advice == PLAN_LADDER);
	forecast.entry->periods.weight = 0; /* not compared: the account bounds the naps by the clock */
	CHECK(plan_ask(&plan, before_ns + 2 * usual_ns - 10 * US, 0).advice == PLAN_LADDER);
}

/* Naps of that length end over_ns late, one in `every` by tail_ns more. */
static void naps_learn(uint64_t ask_ns, uint64_t tail_ns, uint32_t every)
{
	for (uint32_t i = 0; i < 3000; i++)
		forecast_woke(&forecast, ask_ns, ask_ns + EXIT_NS + (i % every == 0 ? tail_ns : 0));
}

static void test_long_naps_that_end_late_leave_a_part(void)
{
	uint64_t ask_ns = 400 * US, part_ns;

	forecast_reset(2);
	call_play(SITE, 1, SECOND, MS, SEEN_LOOK);
	call_play(SITE, 2, 2 * SECOND, MS, SEEN_SLEPT);
	CHECK(forecast_part_ns(&forecast, ask_ns) == ask_ns - FORECAST_SHORT_NS); /* nothing is known: with care */
	naps_learn(ask_ns, 150 * US, 1000);
	CHECK(forecast_part_ns(&forecast, ask_ns) == ask_ns);
	naps_learn(ask_ns, 150 * US, 16);
	part_ns = forecast_part_ns(&forecast, ask_ns);
	EXPECT(part_ns >= ask_ns / 2 && part_ns <= ask_ns - 130 * US, "%" PRIu64, part_ns);
	CHECK(forecast_part_ns(&forecast, 2 * FORECAST_SHORT_NS - 1) == 2 * FORECAST_SHORT_NS - 1);
	naps_learn(FORECAST_SHORT_NS, 150 * US, 16); /* short ones are no better */
	CHECK(forecast_part_ns(&forecast, ask_ns) == ask_ns);
}

/* A late end of a call that is not compared is charged the whole nap: so each is a half, until one was in time. */
static void test_naps_are_halves_until_one_is_in_time(void)
{
	struct account_periods compared = {.weight = ACCOUNT_KNOWN, .usual_ns = (double)MS};

	forecast_reset(2);
	call_play(SITE, 1, SECOND, MS, SEEN_LOOK);
	naps_learn(400 * US, 0, 1);
	CHECK(forecast_part_ns(&forecast, 400 * US) == 200 * US);
	CHECK(forecast_part_ns(&forecast, 2 * FORECAST_SHORT_NS) == 2 * FORECAST_SHORT_NS);
	call_play(SITE, 2, 2 * SECOND, MS, SEEN_SLEPT);
	CHECK(forecast_part_ns(&forecast, 400 * US) == 400 * US);
	call_play(SITE, 3, 3 * SECOND, MS, SEEN_LATE);
	CHECK(forecast_part_ns(&forecast, 400 * US) == 200 * US);
	forecast.entry->periods = compared;
	CHECK(forecast_part_ns(&forecast, 400 * US) == 400 * US);
}

/* One end of a long wait is known: it is slept through in halves, for a part, and the ladder takes over. */
static void test_the_second_long_wait_is_slept_in(void)
{
	uint64_t lasts_ns = 100 * MS, now_ns = wait_play_first(lasts_ns);
	struct plan_step step;

	plan_open(&plan, SITE, 1, true, now_ns, real_of(now_ns));
	step = plan_ask(&plan, now_ns, 0);
	CHECK(step.advice == PLAN_NAP && step.ask_ns <= account_room(&plan.account, now_ns) / 2);
	plan.account.spent_ns = plan.account.tried_ns = account_allowed(&plan.account, now_ns) - 2e6;
	CHECK(plan_ask(&plan, now_ns, 0).ask_ns <= 500 * US && plan_ask(&plan, now_ns, 0).ask_ns > 400 * US);
	plan.account.spent_ns = plan.account.tried_ns = 0;
	EXPECT(step.left_ns < lasts_ns * 15 / 16 && step.left_ns > lasts_ns * 7 / 8, "%" PRIu64, step.left_ns);
	step = plan_ask(&plan, now_ns + lasts_ns * 15 / 16 - MS, 0);
	CHECK(step.advice == PLAN_NAP);
	EXPECT(step.ask_ns < step.left_ns * 6 / 10, "%" PRIu64 " of %" PRIu64, step.ask_ns, step.left_ns);
	CHECK(plan_ask(&plan, now_ns + lasts_ns * 15 / 16, 0).advice == PLAN_LADDER);
}

/* As many ends as a forecast takes are known: a nap of a call that is not compared may use all that it is given. */
static void test_naps_until_known_ends_may_use_all_that_is_left(void)
{
	uint64_t now_ns = wait_play_first(100 * MS), ask_ns;

	now_ns = calls_play(SITE, now_ns, 100 * MS, 2) + 2 * MS;
	plan_open(&plan, SITE, calls, true, now_ns, real_of(now_ns));
	CHECK(forecast_knows(&forecast) && !account_knows(&forecast.entry->periods));
	plan.account.spent_ns = plan.account.tried_ns = account_allowed(&plan.account, now_ns) - 2e6;
	ask_ns = plan_ask(&plan, now_ns, 0).ask_ns;
	EXPECT(ask_ns <= MS && ask_ns > 800 * US, "%" PRIu64, ask_ns);
}

/* No period is known yet: a nap at first may cost the job a thousandth of what a rank of two may. */
static void test_a_rank_of_many_waits_longer_before_its_first_nap(void)
{
	uint64_t now_ns = wait_play_first(100 * MS), room_ns;

	plan_open(&plan, SITE, 1, true, now_ns, real_of(now_ns));
	room_ns = account_room(&plan.account, now_ns);
	plan.account.ranks = 1000;
	CHECK(plan_ask(&plan, now_ns, 0).advice != PLAN_NAP);
	CHECK(plan_room(&plan, now_ns) >= room_ns / 1100 && plan_room(&plan, now_ns) < room_ns / 900);
	CHECK(plan_room(&plan, now_ns + 20 * MS) < 250 * US);
	now_ns += 30 * MS;
	CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_NAP && plan_room(&plan, now_ns) >= 250 * US);
	CHECK(plan_ask(&plan, now_ns, 0).ask_ns < 350 * US);
}

/* A call that repeats is watched until its ends are known; once a wait of it is long, the ladder takes over. */
static void test_the_next_short_waits_are_watched(void)
{
	uint64_t now_ns = wait_play_first(MS);

	plan_open(&plan, SITE, 1, true, now_ns, real_of(now_ns));
	CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_LOOK);
	CHECK(plan_ask(&plan, now_ns + 2 * MS - US, 0).advice == PLAN_LOOK);
	CHECK(plan_ask(&plan, now_ns + 2 * MS, 0).advice == PLAN_LADDER);
	plan_woke(&plan, (struct plan_nap){PLAN_BY_LADDER, now_ns + MS, 100 * US, now_ns + 1110 * US, false, true});
	plan_close(&plan, now_ns + 1900 * US); /* it slept: its end may be late */
	forecast.entry->looked = true;         /* and a look saw the first of them */
	for (uint32_t i = 2; i < 4; i++) {
		now_ns = wait_play(SITE, i, now_ns + 2 * MS, MS);
		CHECK(forecast_knows(&forecast) == (i == 3));
	}
	now_ns += 2 * MS;
	plan_open(&plan, SITE, 4, true, now_ns, real_of(now_ns));
	CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_NAP);
}

/*
 * One of three known ends was short, so that no forecast reaches the end. A nap until the short one is over long before
 * the wait: the end is kept. It is not if the rank slept later.
 */
static void test_an_end_long_after_the_nap_is_kept(void)
{
	static const uint64_t until_ns[] = {140 * US, 240 * US, 260 * US, 900 * US};

	for (unsigned i = 0; i < 4; i++) {
		uint64_t now_ns = wait_play_first(140 * US);

		now_ns = calls_play(SITE, now_ns, MS, 2) + 2 * MS;
		plan_open(&plan, SITE, calls, true, now_ns, real_of(now_ns));
		CHECK(forecast_knows(&forecast) && forecast.entry->wait.count == 3);
		plan_woke(&plan,
		          (struct plan_nap){PLAN_BY_FORECAST, now_ns, 100 * US, now_ns + until_ns[i], false, true});
		plan_quiet(&plan);
		plan_close(&plan, now_ns + MS);
		CHECK(forecast.entry->wait.count == (i < 2 ? 4 : 3));
	}
}

/* Others may sleep then: their calls would end late. */
static void test_a_rank_of_many_watches_in_looks_alone(void)
{
	uint64_t now_ns = wait_play_first(MS);

	forecast.ranks = plan.account.ranks = 3;
	for (uint32_t i = 1; i < 4; i++)
		now_ns = wait_play(SITE, i, now_ns + 2 * MS, MS);
	CHECK(!forecast_knows(&forecast));
	plan_open(&plan, SITE, 4, true, now_ns, real_of(now_ns));
	CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_LADDER);
}

static void test_slept_ends_of_long_waits_count_until_three_are_known(void)
{
	uint64_t lasts_ns = 100 * MS, now_ns = wait_play_first(lasts_ns);

	for (uint32_t i = 1; i < 4; i++) {
		CHECK(forecast_knows(&forecast) == (i > 2));
		now_ns = wait_play(SITE, i, now_ns, lasts_ns) + 200 * US;
	}
	CHECK(forecast_knows(&forecast));
}

static void test_a_doubted_long_wait_is_slept_in_for_a_part(void)
{
	uint64_t now_ns, lasts_ns = 2 * FORECAST_LONG_NS;
	uint32_t number = 400;

	plan_reset(true);
	now_ns = waits_play(OPENED, lasts_ns, 0, 400);
	now_ns = beside_looks(now_ns, lasts_ns, &number);
	forecast.entry->late = 3;
	wait_play(SITE, number, now_ns, lasts_ns);
	CHECK(wait.naps == 1 && wait.asleep_ns <= EXIT_NS + lasts_ns * 15 / 16 && wait.asleep_ns > lasts_ns * 7 / 8);
}

/* Waits of 1 ms, then of 5 ms at the same place, as of a partner that is late: no loss is charged for these. */
static void test_waits_that_grow_are_relearned(void)
{
	uint64_t now_ns, asleep_ns = 0;

	plan_reset(true);
	now_ns = waits_play(OPENED, MS, 0, 200);
	for (uint32_t i = 0; i < 6; i++)
		now_ns = waits_play(now_ns, 5 * MS, 200 + i, 1);
	CHECK(wait.asleep_ns > 4500 * US && !account_knows(&forecast.entry->periods)); /* the sixth is foreseen */
	for (uint32_t i = 6; i < 300; i++) {
		now_ns = waits_play(now_ns, 5 * MS, 200 + i, 1);
		asleep_ns += wait.asleep_ns;
	}
	EXPECT(asleep_ns > 294 * 5 * MS * 3 / 4, "%" PRIu64, asleep_ns);
	CHECK(!plan.account.paused && plan.account.pause == 0);
	CHECK(is_near(forecast.entry->periods.usual_ns, 5.2e6, 0.05));
}

/*
 * The same in a long pause. Two ranks know after three waits. Among more ranks the wait in which the pause begins does
 * not count: three of its periods, and eight more.
 */
static void test_waits_that_grow_in_a_pause_are_relearned(void)
{
	static const uint32_t relearned[] = {203, 213}; /* by the number of ranks, from two */

	for (uint32_t ranks = 2; ranks <= 3; ranks++) {
		uint32_t number = 200;
		uint64_t now_ns;

		plan_reset(true);
		forecast.ranks = plan.account.ranks = ranks;
		now_ns = waits_play(OPENED, MS, 0, number);
		plan.account.paused = true;
		plan.account.pause = 4096;
		plan.account.paused_ns = now_ns + 2 * MS;
		for (; plan.account.paused && number < 300; number++)
			now_ns = waits_play(now_ns, 5 * MS, number, 1);
		EXPECT(number == relearned[ranks - 2], "%" PRIu32, number);
		CHECK(ranks == 2 || is_near(forecast.entry->periods.usual_ns, 5.2e6, 0.05));
	}
}

/* The same the other way round: after the first short step, which begins early, no nap lasts too long. */
static void test_steps_that_shrink_are_no_longer_slept_through(void)
{
	uint64_t now_ns, over_ns = 0;
	uint32_t number = 600;

	plan_reset(true);
	now_ns = OPENED;
	for (uint32_t i = 0; i < 600; i++)
		now_ns = wait_play(SITE, i, now_ns + 5 * MS, 3 * MS);
	for (; number < 700; number++) {
		now_ns = wait_play(SITE, number, now_ns + MS, MS / 2);
		over_ns += wait.over_ns;
	}
	EXPECT(over_ns < MS / 5, "%" PRIu64, over_ns);
}

static void test_an_end_that_does_not_come_is_left_to_the_ladder(void)
{
	uint32_t number;
	uint64_t now_ns;

	now_ns = known_open(MS, &number);
	CHECK(plan_ask(&plan, now_ns + 980 * US, 0).advice == PLAN_LANDED);
	CHECK(plan.outlasted_ns == 0);
	CHECK(plan_ask(&plan, now_ns + 1500 * US, 0).advice == PLAN_LADDER);
	CHECK(plan.outlasted_ns > now_ns + 900 * US && plan.outlasted_ns < now_ns + 1100 * US);
}

/* Two ranks in a wait that has outlasted all known ends by 2 ms: a look does not keep them from the ladder. */
static void test_a_look_does_not_hold_what_outlasts_all_ends(void)
{
	uint64_t now_ns, later_ns;
	uint32_t number;

	now_ns = known_open(MS, &number);
	later_ns = now_ns + MS + FORECAST_LONG_NS + 10 * US;
	plan.account.ranks = 2;
	plan.looks.strict = false;
	plan.looks.from_ns = now_ns + MS;
	plan.looks.until_ns = now_ns + 100 * MS;
	CHECK(plan_ask(&plan, now_ns + 2 * MS, 0).advice == PLAN_LOOK);
	CHECK(plan_ask(&plan, later_ns, 0).advice == PLAN_LADDER);
	plan.account.ranks = 3;
	CHECK(plan_ask(&plan, later_ns, 0).advice == PLAN_LOOK);
	plan.account.ranks = 2;
	plan.looks.strict = true;
	CHECK(plan_ask(&plan, later_ns, 0).advice == PLAN_LOOK);
}

static void test_a_nap_is_no_shorter_than_it_is_late(void)
{
	uint64_t now_ns, landing_ns;
	uint32_t number;

	now_ns = known_open(MS, &number);
	for (unsigned i = 0; i < FORECAST_CLASSES; i++)
		forecast.exit_ns[i] = 6 * US;
	CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_NAP);
	landing_ns = plan.landing_ns;
	CHECK(plan_ask(&plan, landing_ns - 7 * US, 0).ask_ns == 7 * US);
	CHECK(plan_ask(&plan, landing_ns - 5 * US, 0).advice == PLAN_LANDED);
}

static void test_what_is_not_known_is_left_to_the_ladder(void)
{
	uint64_t now_ns = OPENED + LOOKS_FIRST_NS;

	plan_reset(true);
	plan_open(&plan, SITE, 1, true, OPENED, real_of(OPENED));
	CHECK(plan_ask(&plan, OPENED, 0).advice == PLAN_LOOK);
	CHECK(plan_ask(&plan, OPENED + LOOKS_FIRST_NS - 1, 0).advice == PLAN_LOOK);
	plan_open(&plan, SITE, 1, true, now_ns, real_of(now_ns));
	now_ns = looks_at(&plan.looks, now_ns) ? plan.looks.until_ns : now_ns;
	CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_LADDER);
	plan_reset(false);
	plan_open(&plan, SITE, 1, true, now_ns, real_of(now_ns));
	now_ns = looks_at(&plan.looks, now_ns) ? plan.looks.until_ns : now_ns;
	CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_LADDER);
	plan_close(&plan, now_ns + MS);
}

static void test_a_call_that_is_dropped_teaches_nothing(void)
{
	uint32_t number;
	uint64_t now_ns, end_ns;

	now_ns = known_open(MS, &number);
	plan_drop(&plan);
	CHECK(plan_ask(&plan, now_ns, 0).advice == PLAN_LADDER);
	plan_close(&plan, now_ns + 100 * US); /* it would be the earliest */
	end_ns = end_of(SITE, number + 1, now_ns + 1200 * US);
	CHECK(end_ns > now_ns + 2 * MS);
}

/* Returns how many periods pass until `many` looks have held a whole period of a loop. */
static uint64_t periods_until(uint64_t period_ns, int many)
{
	struct looks looks;
	uint64_t now_ns = OPENED, seen = 0, count = 0;

	looks_open(&looks, SEED, now_ns);
	while (many > 0 && count < 100000) {
		bool holds;

		looks_find(&looks, now_ns, 100 * SECOND + now_ns);
		holds = now_ns >= looks.from_ns && now_ns + period_ns < looks.until_ns && looks.number != seen;
		seen = holds ? looks.number : seen;
		many -= holds;
		now_ns += period_ns;
		count++;
		looks_step(&looks, period_ns, period_ns, now_ns);
	}
	return count;
}

/* The times that mpi-wait(1) gives for Cost, of 8 looks, and for Saved, of 20 looks of more than 33 ms. */
static void test_looks_of_a_loop_come_when_the_manual_says(void)
{
	static const uint64_t periods_ns[] = {20 * MS, 50 * MS, 100 * MS, 200 * MS, SECOND};

	CHECK(periods_until(MS, 8) * MS < 2 * SECOND && periods_until(MS / 4, 8) * MS / 4 < 2 * SECOND);
	for (int i = 0; i < 5; i++) {
		uint64_t cost = periods_until(periods_ns[i], 8), saved = periods_until(periods_ns[i], 20);

		CHECK_LAW(cost > 700 && cost < 3200 && saved > 3900 && saved < 8200, "%llu and %llu periods of %llu ns",
		          (unsigned long long)cost, (unsigned long long)saved, (unsigned long long)periods_ns[i]);
	}
	CHECK(periods_until(2 * MS, 160) * 2 * MS < 360 * SECOND && periods_until(4 * MS, 40) * 4 * MS < 360 * SECOND);
}

static void looks_test(void)
{
	test_looks_are_the_same_for_all_ranks();
	test_looks_are_told();
	test_looks_take_a_sixteenth_and_less_in_an_old_job();
	test_a_job_is_young_for_some_periods();
	test_a_longer_window_begins_with_a_shorter_one();
	test_no_period_keeps_step_with_looks();
	test_windows_hold_steps();
	test_the_level_has_a_top();
	test_steps_of_long_ago_are_forgotten();
	test_a_rare_call_makes_no_window_longer();
	test_windows_hold_what_covers_the_time();
	test_a_steady_job_has_strict_windows();
	test_a_job_looks_at_first();
	test_looks_of_a_loop_come_when_the_manual_says();
}

static void forecasts_test(void)
{
	test_the_clock_that_varies_less_counts();
	test_only_looks_make_an_end_later();
	test_three_waits_that_outlast_all_ends_are_a_change();
	test_three_such_waits_in_a_look_are_a_change_as_well();
	test_two_such_waits_are_known_ends();
	test_waits_too_short_for_a_nap_are_no_change();
	test_longer_own_work_is_a_change();
	test_own_work_that_is_longer_by_little_is_no_change();
	test_an_end_that_was_slept_through_is_forgotten();
	test_enough_ends_are_to_be_known();
	test_long_waits_need_no_look();
	test_long_waits_of_two_ranks_need_no_more_looks();
	test_waits_that_no_forecast_reaches_are_kept();
	test_a_call_that_is_not_seen_counts_by_its_number();
	test_a_longer_stride_is_learned();
	test_late_ends_are_followed_by_two_waits_without_a_nap();
	test_a_wait_that_began_late_teaches_no_end();
	test_the_margin_follows_late_ends();
	test_many_ranks_give_back_less_and_begin_with_more();
	test_margins_of_more_ranks_narrow_more_slowly();
	test_a_call_that_is_forwarded_late_is_told_by_its_own_time();
	test_the_margin_of_a_call_that_is_forwarded_late_waits_for_periods();
	test_exits_are_learned_by_class();
	test_the_entry_that_was_not_used_for_longest_is_replaced();
	test_a_call_is_known_by_the_one_before_it();
	test_the_first_call_comes_before_others_however_short_it_was();
	test_a_short_wait_does_not_come_before_long_ones();
	test_each_word_tells_sites_apart();
	test_an_end_that_has_passed_is_not_to_come();
	test_an_end_before_the_wait_was_missed();
	test_shorter_work_is_followed_by_one_wait_without_a_nap();
	test_work_that_is_shorter_by_little_is_none();
	test_an_early_end_counts_over_several_periods();
	test_a_period_is_looked_at_if_both_ends_are();
}

static void accounts_test(void)
{
	test_what_is_allowed_grows_with_time();
	test_what_is_kept_has_a_limit();
	test_what_may_be_an_error_is_not_left();
	test_the_ranks_share_what_nothing_measures();
	test_calls_are_charged_against_looks();
	test_a_usual_period_is_known_once_its_error_is_small();
	test_short_periods_tell_how_much_periods_vary();
	test_hiccups_are_cut();
	test_skewed_periods_are_no_saving();
	test_a_look_corrects_what_belongs_to_the_program();
	test_a_look_corrects_no_more_than_was_charged();
	test_several_periods_count_as_such();
	test_several_periods_are_cut_as_one_with_two_ranks();
	test_periods_of_a_program_that_changes_are_no_loss();
	test_longer_periods_of_two_ranks_begin_no_pause();
	test_a_program_that_changes_in_a_pause_ends_it();
	test_a_change_outdates_all_periods();
	test_a_loss_that_a_pause_ends_is_one();
	test_strays_to_both_sides_begin_no_pause();
	test_a_pause_that_ends_too_soon_tells_nothing();
	test_a_loss_of_two_ranks_is_measured_anew();
	test_a_loss_that_the_pause_does_not_show_is_one();
	test_a_pause_is_ended_by_a_call_that_was_charged();
	test_a_period_counts_as_often_as_a_look_sees_it();
	test_a_pause_among_many_ranks_is_no_look();
	test_time_without_room_is_neither_charged_nor_gained();
	test_the_first_look_is_cut_beside_its_median();
	test_looks_of_the_same_periods_are_averaged();
	test_kinds_of_calls_are_counted_outside_of_pauses();
	test_what_several_kinds_of_calls_measure_counts_once();
	test_nothing_fades_until_it_underflows();
	test_looks_count_where_calls_were_compared_with_them();
	test_pauses_grow_and_shrink();
	test_pauses_grow_with_what_a_try_cost();
	test_pauses_of_a_job_end_together();
	test_what_fades_begins_no_pause();
	test_a_try_after_a_pause_may_lose_little();
	test_one_held_up_step_ends_no_try();
	test_more_than_is_allowed_ends_all_naps();
	test_the_clock_charges_what_it_says();
	test_an_oversleep_counts_for_each_node();
	test_an_error_forgives_and_fades();
	test_the_record_tells_the_truth();
}

static void plans_test(void)
{
	test_waits_that_repeat_are_slept_through_but_in_looks();
	test_a_long_wait_is_slept_in_for_a_part_in_looks();
	test_what_is_slept_in_looks();
	test_a_pause_of_two_ranks_counts_as_a_look();
	test_the_nap_aims_at_the_end_of_the_last_long_silence();
	test_signs_of_progress_before_are_slept_through();
	test_late_waits_are_followed_by_two_without_a_nap();
	test_what_is_not_compared_is_charged_by_the_clock();
	test_what_is_compared_is_charged_for_late_naps_alone();
	test_all_ranks_of_the_node_are_charged_for_an_oversleep();
	test_an_oversleep_of_a_call_that_is_not_compared_is_told_from_100_us_on();
	test_an_oversleep_that_delays_nobody_is_taken_back();
	test_an_oversleep_before_the_first_look_is_taken_back();
	test_no_more_is_told_than_was_compared();
	test_naps_that_tell_nothing_of_exits_teach_none();
	test_no_nap_is_longer_than_it_may_be();
	test_no_nap_of_a_compared_call_is_longer_than_the_account_may_keep();
	test_no_nap_after_a_missed_end_is_longer_than_what_the_account_counts();
	test_many_ranks_climb_no_ladder_before_twice_the_usual_period();
	test_a_doubted_long_wait_is_slept_in_for_a_part();
	test_waits_that_grow_are_relearned();
	test_waits_that_grow_in_a_pause_are_relearned();
	test_steps_that_shrink_are_no_longer_slept_through();
	test_long_naps_that_end_late_leave_a_part();
	test_naps_are_halves_until_one_is_in_time();
	test_the_second_long_wait_is_slept_in();
	test_naps_until_known_ends_may_use_all_that_is_left();
	test_a_rank_of_many_waits_longer_before_its_first_nap();
	test_the_next_short_waits_are_watched();
	test_an_end_long_after_the_nap_is_kept();
	test_a_rank_of_many_watches_in_looks_alone();
	test_slept_ends_of_long_waits_count_until_three_are_known();
	test_an_end_that_does_not_come_is_left_to_the_ladder();
	test_a_look_does_not_hold_what_outlasts_all_ends();
	test_a_nap_is_no_shorter_than_it_is_late();
	test_what_is_not_known_is_left_to_the_ladder();
	test_a_call_that_is_dropped_teaches_nothing();
}

int main(void)
{
	looks_test();
	forecasts_test();
	accounts_test();
	plans_test();
	return CHECK_RESULT;
}
