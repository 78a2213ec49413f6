#include "spank/node/upkeep.h"

#include "spank/base/files.h"
#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/machine/intel.h"

#define FILE_NAME "intel"
#define FILE_MAX  256
#define US_PER_S  UINT64_C(1000000)
#define DUE_US    (60 * US_PER_S)
#define GAP_US    ((INTEL_WRAP_S - 10) * US_PER_S) /* a reader may take some seconds from its start to its reading */

/* Readings that follow one another without a gap. */
struct upkeep {
	uint64_t since_us, latest_us;
};

static uint64_t now_us(void)
{
	return clock_ns(CLOCK_BOOTTIME) / 1000;
}

/* Reads the note. Returns false if there is none, or it tells of a gap until now. */
static bool note_read(int directory, uint64_t now, struct upkeep *ret_upkeep)
{
	json_auto_t *json = NULL;

	return files_read_json(directory, FILE_NAME, FILE_MAX, &json) == 0 &&
	       integer_get(json, "since_us", INT64_MAX, &ret_upkeep->since_us) &&
	       integer_get(json, "latest_us", INT64_MAX, &ret_upkeep->latest_us) && ret_upkeep->latest_us <= now &&
	       now - ret_upkeep->latest_us <= GAP_US;
}

uint64_t upkeep_note(int directory)
{
	uint64_t now = now_us();
	struct upkeep upkeep;
	json_auto_t *json = NULL;

	if (!note_read(directory, now, &upkeep))
		upkeep.since_us = now;
	json = json_pack("{s:I, s:I}", "since_us", (json_int_t)upkeep.since_us, "latest_us", (json_int_t)now);
	if (json)
		files_write_json(directory, FILE_NAME, 0600, json, false);
	return upkeep.since_us;
}

bool upkeep_is_due(int directory)
{
	uint64_t now = now_us();
	struct upkeep upkeep;

	return note_read(directory, now, &upkeep) && now - upkeep.latest_us >= DUE_US;
}
