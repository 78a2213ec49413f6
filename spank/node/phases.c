#include "spank/node/phases.h"

/* A place that the program gave no number has nothing to say. */
static int32_t level_of(const struct mpiwait_slot *slot, uint32_t place, struct bounds *bounds)
{
	int32_t level = ROW_PHASE_OTHER;

	if (place == MPIWAIT_PHASE_NONE)
		return ROW_PHASE_NONE;
	if (place < MPIWAIT_PHASE_OTHER)
		level = slot->phases.level[place - 1];
	if (level >= ROW_PHASE_FIRST || place == MPIWAIT_PHASE_OTHER)
		return level;
	bounds->exceeded = true;
	return ROW_PHASE_OTHER;
}

/* In the phases before the latest one, and in that since it began. */
static uint64_t time_ns(const struct mpiwait_slot *slot, uint32_t place, struct bounds *bounds)
{
	const struct mpiwait_phases *phases = &slot->phases;
	uint64_t end_ns = slot->state == MPIWAIT_SLOT_FINALIZED ? slot->end_ns : bounds->now_ns;
	uint64_t latest_ns = end_ns > phases->since_ns ? end_ns - phases->since_ns : 0;

	return bounded_ns(bounds, phases->time_ns[place]) +
	       (place == phases->place ? bounded_ns(bounds, latest_ns) : 0);
}

static uint64_t wait_ns(const struct mpiwait_slot *slot, uint32_t lanes, uint32_t place, struct bounds *bounds)
{
	bool open = place == slot->phases.place && slot->state == MPIWAIT_SLOT_RUNNING;
	uint64_t sum_ns = 0;

	for (uint32_t i = 0; i < lanes; i++) {
		sum_ns += bounded_ns(bounds, slot->lane[i].phases[place].wait_ns);
		if (open)
			sum_ns += bounded_ns(bounds, open_wait_ns(&slot->lane[i]));
	}
	return bounded(bounds, sum_ns, lanes * (bounds->now_ns - bounds->begun_ns));
}

static uint64_t waits(const struct mpiwait_slot *slot, uint32_t lanes, uint32_t place, struct bounds *bounds)
{
	bool open = place == slot->phases.place && slot->state == MPIWAIT_SLOT_RUNNING;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < lanes; i++)
		sum += bounded(bounds, slot->lane[i].phases[place].waits, BOUNDS_COUNT_MAX) +
		       (open && open_wait_ns(&slot->lane[i]) > 0);
	return sum;
}

void phases_add(struct record_rows *sum, const struct mpiwait_slot *slot, uint32_t lanes, int32_t rank,
                struct bounds *bounds)
{
	if (slot->phases.since_ns == 0)
		return;
	for (uint32_t place = 0; place < MPIWAIT_PHASE_PLACES; place++) {
		uint64_t time_us = time_ns(slot, place, bounds) / 1000, count = waits(slot, lanes, place, bounds);
		uint64_t wait_us = wait_ns(slot, lanes, place, bounds) / 1000;
		struct record_row phase = {.number = {(double)time_us, (double)count, (double)wait_us, (double)wait_us},
		                           .most_rank = rank};

		if (time_us == 0 && count == 0 && wait_us == 0)
			continue;
		row_phase(&phase, level_of(slot, place, bounds));
		rows_put(ROWS_PHASES, sum, &phase);
	}
}
