/* Computes where the windows are. The rules stand in looks.h. */
#include "preload/contract/looks.h"

#include "preload/contract/hash.h"

static unsigned period_shift(const struct looks *looks, uint64_t now_ns)
{
	unsigned shift = LOOKS_PERIOD_SHIFT + looks->level;

	return now_ns - looks->opened_ns >= (uint64_t)LOOKS_YOUNG << shift ? shift + LOOKS_STEADY_SHIFT : shift;
}

/*
 * Returns when the period's window begins, by the node's clock: descends through the halves of the period to a window
 * of level 0.
 */
static uint64_t window_begin(const struct looks *looks, uint64_t number, unsigned shift)
{
	uint64_t window_ns = looks_window_ns(looks);
	uint64_t latest_ns = ((number + 1) << shift) - window_ns, begin_ns;

	for (; shift > LOOKS_PERIOD_SHIFT; shift--)
		number = number * 2 + (hash_add(hash_add(looks->seed, number), shift) & 1);
	begin_ns = hash_add(looks->seed, number) % ((UINT64_C(1) << shift) - (UINT64_C(1) << LOOKS_WINDOW_SHIFT));
	begin_ns += number << shift;
	return begin_ns < latest_ns ? begin_ns : latest_ns;
}

void looks_open(struct looks *looks, uint64_t seed, uint64_t now_ns)
{
	*looks = (struct looks){.seed = seed, .opened_ns = now_ns};
}

bool looks_find(struct looks *looks, uint64_t now_ns, uint64_t real_ns)
{
	unsigned shift = period_shift(looks, now_ns);
	uint64_t window_ns = looks_window_ns(looks), number = real_ns >> shift, begin_ns;

	if (now_ns < looks->until_ns)
		return false;
	looks->since_ns += looks->since_ns != 0 ? (now_ns - looks->since_ns) / 2 : 0;
	for (unsigned level = 0; level <= LOOKS_LEVELS; level++)
		looks->covered_ns[level] /= 2;
	begin_ns = window_begin(looks, number, shift);
	if (real_ns >= begin_ns + window_ns)
		begin_ns = window_begin(looks, ++number, shift);
	looks->from_ns = now_ns + (begin_ns - real_ns);
	looks->until_ns = looks->from_ns + window_ns;
	looks->number = number;
	looks->strict = shift > LOOKS_PERIOD_SHIFT + looks->level && number % 4 == 0;
	return true;
}

void looks_step(struct looks *looks, uint64_t period_ns, uint64_t passed_ns, uint64_t now_ns)
{
	unsigned needed = 0;

	looks->since_ns = looks->since_ns != 0 ? looks->since_ns : now_ns - passed_ns;
	while (needed < LOOKS_LEVELS && period_ns * LOOKS_STEPS > UINT64_C(1) << (LOOKS_WINDOW_SHIFT + needed))
		needed++;
	for (unsigned level = needed; level <= LOOKS_LEVELS; level++) {
		uint64_t new_ns = now_ns - looks->covered_to_ns[level];

		looks->covered_ns[level] += new_ns < passed_ns ? new_ns : passed_ns;
		looks->covered_to_ns[level] = now_ns;
	}
	if (needed > looks->level && 2 * looks->covered_ns[looks->level] < now_ns - looks->since_ns)
		looks->level++;
	else if (looks->level > 0 && 4 * looks->covered_ns[looks->level - 1] >= 3 * (now_ns - looks->since_ns))
		looks->level--;
}

uint32_t looks_tell(const struct looks *looks, uint64_t now_ns)
{
	return 1 + 2 * looks->level + (period_shift(looks, now_ns) > LOOKS_PERIOD_SHIFT + looks->level);
}

bool looks_follow(struct looks *looks, uint64_t seed, uint64_t told, uint64_t now_ns)
{
	uint64_t level = (told - 1) / 2;

	if (told == 0 || level > LOOKS_LEVELS)
		return false;
	looks_open(looks, seed, now_ns);
	looks->level = (uint32_t)level;
	if (told % 2 == 0)
		looks->opened_ns = now_ns - ((uint64_t)LOOKS_YOUNG << (LOOKS_PERIOD_SHIFT + level));
	return true;
}
