/*
 * The ends of the waits of one kind. What is kept of them stands in ends.h.
 */
#include "preload/budget/ends.h"

#define FORECAST_LEAST 3u
#define PASSED_SHIFT   2 /* an end has passed when a quarter more has */
#define VARIED_SHIFT   2
#define VARIED_SHARE   128u /* of the longest: less is no difference */
#define PAIR_SHARE     16u  /* of the shorter of two ends: they are alike if they differ by no more */
#define ALIKE_SHARE    8u   /* of the earliest of many: likewise */
#define OUTLASTED_MOST 8u
#define UNDERCUT_MOST  16u

uint32_t ends_units(uint64_t from_ns, uint64_t until_ns)
{
	uint64_t units = until_ns > from_ns ? (until_ns - from_ns) >> ENDS_UNIT_SHIFT : 0;

	return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

static uint32_t difference(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

static void times_vary(struct ends_times *times, unsigned last, uint32_t end, bool first)
{
	uint32_t moved = difference(times->at[last], end);

	if (first)
		times->varied = moved;
	else if (moved > times->varied)
		times->varied += (moved - times->varied) >> VARIED_SHIFT;
	else
		times->varied -= (times->varied - moved) >> VARIED_SHIFT;
}

void ends_keep(struct ends *ends, uint64_t began_ns, uint64_t ended_ns)
{
	uint32_t wait = ends_units(began_ns, ended_ns);
	uint32_t since = ends->ended_ns == 0 ? 0 : ends_units(ends->ended_ns, ended_ns);
	unsigned last = (ends->next + ENDS_KEPT - 1) % ENDS_KEPT;

	if (ends->count > 0) {
		times_vary(&ends->wait, last, wait, ends->count == 1);
		if (since != 0 && ends->since.at[last] != 0)
			times_vary(&ends->since, last, since, ends->since.varied == 0);
	}
	ends->wait.at[ends->next] = wait;
	ends->since.at[ends->next] = since;
	ends->next = (ends->next + 1) % ENDS_KEPT;
	ends->count = (uint8_t)(ends->count + (ends->count < ENDS_KEPT));
	ends->ended_ns = ended_ns;
	ends->outlasted = ends->undercut = 0;
}

void ends_pass(struct ends *ends, uint32_t lasted)
{
	ends->lasted = lasted;
	ends->ended_ns = 0;
	ends->passed = (uint8_t)(ends->passed + (ends->passed < ENDS_KNOWN));
}

static unsigned place_of_earliest(const struct ends *ends)
{
	unsigned first = 0;

	for (unsigned i = 1; i < ends->count; i++)
		if (ends->wait.at[i] < ends->wait.at[first])
			first = i;
	return first;
}

static unsigned place_of_latest(const struct ends *ends)
{
	unsigned last = 0;

	for (unsigned i = 1; i < ends->count; i++)
		if (ends->wait.at[i] > ends->wait.at[last])
			last = i;
	return last;
}

/* Whether so many in a row were a quarter more; *row is counted on. */
static bool is_row_of(uint8_t *row, unsigned most, uint32_t more, uint32_t end)
{
	if ((uint64_t)end + (end >> PASSED_SHIFT) > more) {
		*row = 0;
		return false;
	}
	if (++*row < most)
		return false;
	*row = 0;
	return true;
}

static void earliest_forget(struct ends *ends)
{
	unsigned first = place_of_earliest(ends);

	ends->wait.at[first] = UINT32_MAX;
	ends->wait.at[first] = ends->wait.at[place_of_earliest(ends)];
}

/* With it goes what it made the others vary by. */
static void latest_forget(struct ends *ends)
{
	unsigned last = place_of_latest(ends);
	uint32_t spread;

	ends->wait.at[last] = 0;
	ends->wait.at[last] = ends->wait.at[place_of_latest(ends)];
	spread = ends->wait.at[last] - ends_earliest(ends);
	if (ends->wait.varied > spread)
		ends->wait.varied = spread;
}

void ends_forget(struct ends *ends, uint32_t lasted)
{
	if (ends->count < ENDS_KNOWN)
		return;
	if (is_row_of(&ends->outlasted, OUTLASTED_MOST, lasted, ends_earliest(ends)))
		earliest_forget(ends);
	if (is_row_of(&ends->undercut, UNDERCUT_MOST, ends->wait.at[place_of_latest(ends)], lasted))
		latest_forget(ends);
}

bool ends_are_like(const struct ends *ends, uint32_t lasted)
{
	uint32_t least = lasted, most = lasted;

	for (unsigned i = 0; i < ends->count; i++) {
		least = ends->wait.at[i] < least ? ends->wait.at[i] : least;
		most = ends->wait.at[i] > most ? ends->wait.at[i] : most;
	}
	return most - least <= least / ALIKE_SHARE;
}

void ends_count_alike(struct ends *ends, bool alike)
{
	if (!alike)
		ends->alike = 0;
	else
		ends->alike = (uint8_t)(ends->alike + (ends->alike < ENDS_ALIKE));
}

bool ends_are_pair(const struct ends *ends)
{
	uint32_t first = ends->wait.at[0], second = ends->wait.at[1];

	return ends->count >= ENDS_PAIR && difference(first, second) <= (first < second ? first : second) / PAIR_SHARE;
}

uint32_t ends_earliest(const struct ends *ends)
{
	return ends->count > 0 ? ends->wait.at[place_of_earliest(ends)] : 0;
}

uint64_t ends_latest(const struct ends *ends)
{
	uint32_t most = ends->count > 0 ? ends->wait.at[place_of_latest(ends)] : 0;

	return (uint64_t)most + most / VARIED_SHARE + UINT64_C(2) * ends->wait.varied;
}

/* The time since the last end, where every end that is kept has one, and they vary clearly less. */
static bool since_is_steadier(const struct ends *ends)
{
	if (ends->ended_ns == 0 || ends->since.varied >= ends->wait.varied / 2)
		return false;
	for (unsigned i = 0; i < ends->count; i++)
		if (ends->since.at[i] == 0)
			return false;
	return true;
}

uint64_t ends_next(const struct ends *ends, uint64_t began_ns, uint64_t now_ns, unsigned *ret_count)
{
	bool since = since_is_steadier(ends);
	const struct ends_times *times = since ? &ends->since : &ends->wait;
	uint64_t base_ns = since ? ends->ended_ns : began_ns;
	uint32_t elapsed = ends_units(base_ns, now_ns), least = UINT32_MAX;
	unsigned count = 0;

	for (unsigned i = 0; i < ends->count; i++) {
		uint32_t end = times->at[i];

		if ((uint64_t)end + (end >> PASSED_SHIFT) <= elapsed)
			continue;
		count++;
		least = end < least ? end : least;
	}
	*ret_count = count;
	return count < (ends->count < FORECAST_LEAST ? ends->count : FORECAST_LEAST)
	               ? 0
	               : base_ns + ((uint64_t)least << ENDS_UNIT_SHIFT);
}
