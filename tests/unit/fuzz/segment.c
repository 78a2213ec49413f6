/*
 * The stats segment, which the job's user writes as it likes. The input is the segment's size and a list of writes.
 * What root makes of the segment must be a record that root's other half accepts: a user must not be able to lose the
 * job's record, which has the energy in it.
 */
#include "tests/unit/fuzz/fuzz.h"

#include <jansson.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/node/slots.h"
#include "tests/unit/fuzz/line.h"

#define SLOTS_MOST 3
#define PAGE       4096u
#define PAGES_MOST (35 + SLOTS_MOST * (sizeof(struct mpiwait_slot) + sizeof(struct mpiwait_sizes)) / PAGE)
#define BEGUN_NS   UINT64_C(1000000000)
#define NOW_NS     UINT64_C(3600000000000)
#define NODE                                                                                                \
	"{s:i,s:s,s:s,s:s,s:i,s:n,s:n,s:n,s:n,s:i,s:i,s:s,s:{s:s,s:s,s:s,s:s},s:i,s:i,s:i,s:i,s:n,s:s,s:i," \
	"s:[{s:s,s:i,s:i,s:O}]}"

enum area { AREA_HEADER, AREA_HEAD, AREA_LANE, AREA_CALLS, AREA_SIZES, AREA_SITES, AREA_COUNT };

/* One value into a word of an area; into that of all slots or lanes with the first bits of spread. */
struct __attribute__((packed)) command {
	uint8_t area;
	uint8_t slot;
	uint8_t lane;
	uint8_t spread;
	uint16_t word;
	uint8_t value;
	uint8_t repeat;
};

static uint64_t value_of(uint8_t value)
{
	static const uint64_t values[] = {UINT64_MAX,
	                                  INT64_MAX,
	                                  UINT64_C(1000000000000000),
	                                  UINT64_C(1) << 62,
	                                  UINT64_C(1000000000000000000),
	                                  NOW_NS,
	                                  NOW_NS + 1,
	                                  BEGUN_NS,
	                                  BEGUN_NS - 1,
	                                  NOW_NS - BEGUN_NS,
	                                  UINT32_MAX,
	                                  INT32_MAX,
	                                  1 << 24};
	const size_t count = sizeof(values) / sizeof(values[0]);

	if (value < count)
		return values[value];
	return value & 0x80 ? UINT64_C(1) << (value & 63) : value - count;
}

static uint32_t slots_of(const uint8_t *data, size_t size)
{
	return size == 0 ? 1 : 1 + data[0] % SLOTS_MOST;
}

/* One file and one mapping for each number of slots; pages that were written to are emptied for the next input. */
static struct segment {
	int file;
	uint8_t *bytes;
	bool written[PAGES_MOST];
} segments[1 + SLOTS_MOST];

static struct segment *segment_empty(uint32_t slots)
{
	struct segment *segment = &segments[slots];
	const size_t size = mpiwait_segment_size(slots);

	if (!segment->bytes) {
		segment->file = memfd_create("fuzz", 0);
		FUZZ_CHECK(segment->file >= 0 && ftruncate(segment->file, (off_t)size) == 0);
		segment->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, segment->file, 0);
		FUZZ_CHECK(segment->bytes != MAP_FAILED && size <= sizeof(segment->written) * PAGE);
	}
	for (size_t page = 0; page < size / PAGE; page++)
		if (segment->written[page])
			memset(segment->bytes + page * PAGE, 0, PAGE);
	memset(segment->written, 0, sizeof(segment->written));
	return segment;
}

static void head_put(struct segment *segment, uint32_t slots)
{
	const struct mpiwait_header header = {.magic = MPIWAIT_MAGIC,
	                                      .version = MPIWAIT_VERSION,
	                                      .header_size = sizeof(header),
	                                      .slot_size = sizeof(struct mpiwait_slot),
	                                      .slot_count = slots,
	                                      .sizes_size = sizeof(struct mpiwait_sizes)};

	memcpy(segment->bytes, &header, sizeof(header));
	segment->written[0] = true;
}

static void word_put(uint8_t *bytes, uint32_t slots, const struct command *command, uint32_t index, uint32_t lane_index,
                     bool *written)
{
	struct mpiwait_slot *slot = (struct mpiwait_slot *)(void *)(bytes + MPIWAIT_SLOTS_OFFSET) + index;
	struct mpiwait_lane *lane = &slot->lane[lane_index];
	uint64_t value = value_of(command->value);
	void *word;

	switch (command->area % AREA_COUNT) {
	case AREA_HEADER:
		word = (uint32_t *)(void *)bytes + command->word % 16;
		break;
	case AREA_HEAD:
		word = (uint32_t *)slot + command->word % (offsetof(struct mpiwait_slot, lane) / 4);
		break;
	case AREA_LANE:
		word = (uint64_t *)lane + command->word % (offsetof(struct mpiwait_lane, calls) / 8);
		break;
	case AREA_CALLS:
		word = (uint64_t *)lane->calls + command->word % (sizeof(lane->calls) / 8);
		break;
	case AREA_SITES:
		word = (uint64_t *)(void *)&slot->sites + command->word % (sizeof(slot->sites) / 8);
		break;
	default:
		word = (uint64_t *)(void *)(bytes + mpiwait_sizes_offset(slots, index)) + command->word % 10240;
	}
	memcpy(word, &value, command->area % AREA_COUNT <= AREA_HEAD ? 4 : 8);
	written[(size_t)((uint8_t *)word - bytes) / PAGE] = true;
}

static void command_play(struct segment *segment, uint32_t slots, struct command command)
{
	for (uint32_t more = command.repeat % 16; more > 0; more--, command.word++)
		for (uint32_t i = 0; i < (command.spread & 1 ? slots : 1); i++)
			for (uint32_t j = 0; j < (command.spread & 2 ? MPIWAIT_LANES : 1); j++)
				word_put(segment->bytes, slots, &command, (command.slot + i) % slots,
				         (command.lane + j) % MPIWAIT_LANES, segment->written);
}

static void record_check(const struct slots *slots)
{
	json_auto_t *wait = slots_to_json(slots), *json = NULL;
	struct record_node *node = NULL;
	struct error error = {""};

	json = json_pack(NODE, "v", 1, "kind", "node", "node", "c1", "cluster", "c", "job_id", 1, "array_job_id",
	                 "array_task_id", "het_job_id", "het_offset", "restart_count", 0, "gid", 0, "nodes", "c1",
	                 "policy", "asked", "nap", "used", "nap", "why", "", "by", "job", "start_s", 0, "end_s", 9,
	                 "cores", 1, "cores_total", 1, "energy", "energy_why", "", "steps_left_out", 0, "steps", "id",
	                 "0", "start_s", 0, "end_s", 9, "wait", wait);
	FUZZ_CHECK(wait && json);
	if (record_node_parse(json, &node, &error)) {
		fprintf(stderr, "refused: %s\n", error.text);
		abort();
	}
	line_check((const struct record_node *const *)&node, 1, NULL);
	record_node_free(node);
}

/* Checks what mpi-wait-segment relies on. */
static void ranks_check(const struct slots *slots, uint32_t count)
{
	for (size_t i = 0; i < slots->count; i++) {
		const struct slots_rank *rank = &slots->rank[i];

		FUZZ_CHECK(rank->slot < count && rank->open_call <= MPIWAIT_CALLS);
		FUZZ_CHECK(rank->open_ns <= NOW_NS - BEGUN_NS && rank->asleep_ns <= rank->wait_ns);
		FUZZ_CHECK(rank->running || rank->open_call == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t count = slots_of(data, size);
	cleanup_free struct slots *slots = NULL;
	struct error error = {""};
	struct command command;
	struct segment *segment = segment_empty(count);

	head_put(segment, count);
	for (size_t at = 1; at + sizeof(command) <= size; at += sizeof(command)) {
		memcpy(&command, data + at, sizeof(command));
		command_play(segment, count, command);
	}
	if (slots_read(segment->file, BEGUN_NS, NOW_NS, &slots, &error) == 0) {
		FUZZ_CHECK(slots->count <= count);
		ranks_check(slots, count);
		record_check(slots);
	} else {
		FUZZ_CHECK(error.text[0] && fuzz_is_printable(error.text));
	}
	return 0;
}
