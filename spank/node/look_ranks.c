#include "spank/node/look_ranks.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "preload/contract/stats.h"
#include "spank/base/error.h"
#include "spank/node/slots.h"

#define HARDLY    10 /* a thread hardly sleeps if another of the step sleeps this many times as long */
#define LANE_HEAD offsetof(struct mpiwait_lane, phases)

/* The head of a slot and the head of its first lane, which are adjacent: one read takes both. */
struct slot_head {
	_Alignas(128) uint8_t head[offsetof(struct mpiwait_slot, lane)];
	_Alignas(128) uint8_t lane[LANE_HEAD];
};

_Static_assert(sizeof(struct slot_head) == offsetof(struct mpiwait_slot, lane) + LANE_HEAD, "read in one piece");

static uint64_t word_at(const uint8_t *bytes, size_t offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

static uint32_t half_at(const uint8_t *bytes, size_t offset)
{
	uint32_t half;

	memcpy(&half, bytes + offset, sizeof(half));
	return half;
}

static int read_at(int segment, void *buffer, size_t size, uint64_t offset)
{
	ssize_t got = pread(segment, buffer, size, (off_t)offset);

	if (got < 0)
		return -errno;
	return (size_t)got == size ? 0 : -EINVAL;
}

/* The longest sleep of a thread of each kind, plus 1; 0: there is no thread of that kind. */
struct sleepers {
	uint64_t most_ns[LOOK_RANKS_KINDS];
};

/* Adds what one thread tells: which looks it follows, and how long it slept. */
static void lane_add(struct look_ranks *ranks, struct sleepers *sleepers, const uint8_t *lane, uint64_t seed)
{
	uint64_t told = word_at(lane, offsetof(struct mpiwait_lane, look)), asleep_ns = 0, *most_ns;

	for (unsigned rung = 0; rung < MPIWAIT_RUNGS; rung++)
		if (MPIWAIT_RUNGS_SLEEP & 1u << rung)
			asleep_ns += word_at(lane, offsetof(struct mpiwait_lane, asleep_ns) + 8 * rung);
	ranks->asleep_ns += asleep_ns;
	if (told == 0)
		return;
	ranks->apart |= told > LOOK_RANKS_KINDS || (ranks->threads > 0 && ranks->seed != seed);
	ranks->seed = seed;
	ranks->threads++;
	most_ns = &sleepers->most_ns[told <= LOOK_RANKS_KINDS ? told - 1 : 0];
	if (asleep_ns >= *most_ns)
		*most_ns = asleep_ns < UINT64_MAX ? asleep_ns + 1 : asleep_ns;
}

/* Keeps the kinds with a thread that sleeps a tenth of the longest sleeper's time or more. */
static void kinds_set(struct look_ranks *ranks, const struct sleepers *sleepers)
{
	uint64_t most_ns = 0;

	for (uint64_t i = 0; i < LOOK_RANKS_KINDS; i++)
		most_ns = sleepers->most_ns[i] > most_ns ? sleepers->most_ns[i] : most_ns;
	for (uint64_t i = 0; i < LOOK_RANKS_KINDS; i++)
		if (sleepers->most_ns[i] > most_ns / HARDLY)
			ranks->told[ranks->kinds++] = i + 1;
}

/* Reads the threads of a slot, and adds them if its rank runs. Returns 0 or -errno. */
static int slot_add(struct look_ranks *ranks, struct sleepers *sleepers, int segment, uint64_t offset)
{
	struct slot_head slot;
	int result = read_at(segment, &slot, sizeof(slot), offset);
	uint32_t lanes = half_at(slot.head, offsetof(struct mpiwait_slot, lanes));
	uint64_t seed = word_at(slot.head, offsetof(struct mpiwait_slot, launch));

	if (result || half_at(slot.head, offsetof(struct mpiwait_slot, state)) != MPIWAIT_SLOT_RUNNING)
		return result;
	/* without an account there are no looks */
	ranks->apart |= word_at(slot.head, offsetof(struct mpiwait_slot, slowdown_ppm)) == 0;
	for (uint32_t i = 0; i < lanes && i < MPIWAIT_LANES && !result; i++) {
		if (i > 0)
			result = read_at(segment, slot.lane, sizeof(slot.lane),
			                 offset + sizeof(slot.head) + i * sizeof(struct mpiwait_lane));
		if (!result)
			lane_add(ranks, sleepers, slot.lane, seed);
	}
	return result;
}

int look_ranks_read(int segment, struct look_ranks *ret_ranks)
{
	struct look_ranks ranks = {0};
	struct sleepers sleepers = {{0}};
	struct mpiwait_header header;
	struct error error = {0};
	uint32_t room = 0;
	int result = slots_header_read(segment, &header, &room, &error);

	for (uint32_t i = 0; i < room && i < header.slot_count && i < header.claimed && !result; i++)
		result = slot_add(&ranks, &sleepers, segment,
		                  MPIWAIT_SLOTS_OFFSET + (uint64_t)i * sizeof(struct mpiwait_slot));
	kinds_set(&ranks, &sleepers);
	if (!result)
		*ret_ranks = ranks;
	return result;
}

bool look_ranks_same(const struct look_ranks *a, const struct look_ranks *b)
{
	return !a->apart && !b->apart && a->threads == b->threads && a->seed == b->seed && a->kinds == b->kinds &&
	       memcmp(a->told, b->told, sizeof(a->told)) == 0;
}
