#include "spank/energy/look.h"

#include <string.h>

#include "spank/energy/accumulator.h"

#define RENEWAL_NS \
	UINT64_C(1000000) /* update interval of the counters: Intel's manual, volume 3, 15.10; AMD's is the same */
#define LATE_PART 32      /* at most 1/LATE_PART of a look may lie on the wrong side */

/* As in accumulator.c: a restarted counter shows far more. */
#define POWER_MARGIN 4
#define SLACK_UJ     1e6

/* Returns how long the counters are watched at either side of a look of that length. */
static uint64_t beside_ns(uint64_t length_ns)
{
	return (length_ns - RENEWAL_NS) / 2;
}

void look_begin(struct look *look, struct look_span all, struct look_span any)
{
	uint64_t length_ns = all.until_ns - all.from_ns;

	look->taken = 0;
	look->broken = look->still = false;
	look->late_ns = length_ns / LATE_PART;
	look->due_ns[LOOK_BEFORE] = any.from_ns - beside_ns(length_ns);
	look->due_ns[LOOK_BEGIN] = any.from_ns;
	look->due_ns[LOOK_INSIDE] = all.from_ns + RENEWAL_NS;
	look->due_ns[LOOK_END] = all.until_ns;
	look->due_ns[LOOK_BEHIND] = any.until_ns + RENEWAL_NS;
	look->due_ns[LOOK_AFTER] = look->due_ns[LOOK_BEHIND] + beside_ns(length_ns);
}

/* Returns the counter's advance. Returns false if it is impossible in that time, or the zones differ. */
static bool advance_get(const struct rapl_zone *before, const struct rapl_zone *now, double seconds, double *ret_uj)
{
	double advance_uj = (double)now->energy_uj - (double)before->energy_uj;

	if (before->kind != now->kind || before->instance != now->instance || before->mirror != now->mirror ||
	    now->energy_uj > now->range_uj)
		return false;
	if (advance_uj < 0)
		advance_uj += (double)now->range_uj + 1;
	*ret_uj = advance_uj;
	return advance_uj <= POWER_MARGIN * (double)now->power_max_uw * seconds + SLACK_UJ;
}

/* Returns true if the part that ends at that moment counts. */
static bool is_counted(unsigned moment)
{
	return moment == LOOK_BEGIN || moment == LOOK_END || moment == LOOK_AFTER;
}

/*
 * Sets the energy used since the reading before, over the zones that make up the node's energy. Marks the look as
 * broken if the zones differ or an advance is impossible, and as still if a counter stood.
 */
static void zones_compare(struct look *look, const struct rapl_zone zones[], size_t count, double seconds)
{
	bool has[RAPL_KIND_COUNT] = {false};
	double used_uj = 0, uj;

	for (size_t i = 0; i < count; i++)
		has[zones[i].kind] = true;
	look->broken |= count != look->count;
	for (size_t i = 0; i < count && !look->broken; i++) {
		if (zones[i].mirror || !energy_kind_counts(has, zones[i].kind))
			continue;
		if (!advance_get(&look->zone[i], &zones[i], seconds, &uj)) {
			look->broken = true;
			return;
		}
		look->still |= uj <= 0 && zones[i].kind != RAPL_DRAM && is_counted(look->taken);
		used_uj += uj;
	}
	look->used_uj[look->taken] = used_uj;
}

void look_read(struct look *look, const struct rapl_zone zones[], size_t count, uint64_t began_ns, uint64_t ended_ns)
{
	unsigned moment = look->taken;

	if (moment == LOOK_MOMENTS)
		return;
	look->at_ns[moment] = began_ns + (ended_ns - began_ns) / 2;
	if (moment > 0)
		zones_compare(look, zones, count, (double)(ended_ns - look->at_ns[moment - 1]) / 1e9);
	if ((moment == LOOK_BEGIN || moment == LOOK_END) && began_ns > look->due_ns[moment] + look->late_ns)
		look->broken = true;
	look->count = count;
	memcpy(look->zone, zones, count * sizeof(zones[0]));
	look->taken++;
}

/* Returns the time from the reading before that moment to the reading at it. */
static double length_s(const struct look *look, unsigned moment)
{
	return (double)(look->at_ns[moment] - look->at_ns[moment - 1]) / 1e9;
}

bool look_end(const struct look *look, struct saving_look *ret_look)
{
	if (look->broken || look->taken < LOOK_MOMENTS)
		return false;
	*ret_look = (struct saving_look){
	        .look_j = look->used_uj[LOOK_END] / 1e6,
	        .look_s = length_s(look, LOOK_END),
	        .beside_j = (look->used_uj[LOOK_BEGIN] + look->used_uj[LOOK_AFTER]) / 1e6,
	        .beside_s = length_s(look, LOOK_BEGIN) + length_s(look, LOOK_AFTER),
	        .still = look->still,
	};
	return true;
}
