#include "spank/node/slots.h"

#include "preload/budget/account.h"
#include "spank/base/cleanup.h"
#include "spank/base/json.h"
#include "spank/node/bounds.h"
#include "spank/node/call_names.h"
#include "spank/node/callsites.h"
#include "spank/node/phases.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define BYTES_MAX  UINT64_C(1000000000000000000)
#define SUM_MAX    INT64_C(1000000000000000000) /* what the reader of a node's record takes */
#define UNSEEN_MAX 1000000u

#define PPM 1000000

static void add(uint64_t *sum, uint64_t value)
{
	integer_add(sum, value, SUM_MAX);
}

static void count(uint64_t *sum, uint64_t value, struct bounds *bounds)
{
	add(sum, bounded(bounds, value, BOUNDS_COUNT_MAX));
}

static int read_at(int segment, void *buffer, size_t size, uint64_t offset)
{
	ssize_t got = pread(segment, buffer, size, (off_t)offset);

	if (got < 0)
		return -errno;
	return (size_t)got == size ? 0 : -EINVAL;
}

/* ret_room: slots that the sealed file was made for; the header's number is the user's. */
static int header_read(int segment, struct mpiwait_header *header, uint32_t *ret_room, struct error *error)
{
	struct stat status;
	uint64_t room;
	int result = read_at(segment, header, sizeof(*header), 0);

	if (result || fstat(segment, &status))
		return error_set(error, result ? result : -errno, "stats segment cannot be read");
	if (header->magic != MPIWAIT_MAGIC || header->version != MPIWAIT_VERSION ||
	    header->header_size != sizeof(*header) || header->slot_size != sizeof(struct mpiwait_slot) ||
	    header->sizes_size != sizeof(struct mpiwait_sizes))
		return error_set(error, -EINVAL, "stats segment is not one of version %u", MPIWAIT_VERSION);
	if (status.st_size < (off_t)mpiwait_segment_size(1))
		return error_set(error, -EINVAL, "stats segment of %lld bytes has no slot", (long long)status.st_size);
	room = ((uint64_t)status.st_size - MPIWAIT_SLOTS_OFFSET) /
	       (sizeof(struct mpiwait_slot) + sizeof(struct mpiwait_sizes));
	*ret_room = room < MPIWAIT_SLOTS_MAX ? (uint32_t)room : MPIWAIT_SLOTS_MAX;
	return 0;
}

static bool rung_rests(unsigned rung)
{
	return rung == MPIWAIT_RUNG_UMWAIT || rung == MPIWAIT_RUNG_MWAITX || rung == MPIWAIT_RUNG_NAP ||
	       rung == MPIWAIT_RUNG_EVENT;
}

static void call_add(struct slots_call *sum, struct slots_rank *rank, const struct mpiwait_call_stats *call,
                     struct bounds *bounds)
{
	uint64_t wait_ns = bounded_ns(bounds, call->wait_ns);
	uint64_t longest_ns = bounded_ns(bounds, call->longest_ns);
	uint64_t burned_ns = bounded_ns(bounds, call->burned_ns);

	count(&sum->calls, call->calls, bounds);
	count(&sum->waits, call->waits, bounds);
	add(&sum->wait_ns, wait_ns);
	add(&rank->wait_ns, wait_ns);
	add(&sum->time_ns, bounded_ns(bounds, call->time_ns));
	add(&sum->bytes, bounded(bounds, call->bytes, BYTES_MAX));
	add(&sum->burned_ns, burned_ns);
	add(&sum->burned_cpu_ns, bounded(bounds, call->burned_cpu_ns, burned_ns));
	if (longest_ns > sum->longest_ns)
		sum->longest_ns = longest_ns;
}

/* The wait that a rank without Finalize is still in, or died in. */
static void open_add(struct slots *slots, struct slots_rank *rank, const struct mpiwait_lane *lane,
                     struct bounds *bounds)
{
	struct mpiwait_call_stats open = {.waits = 1};

	open.wait_ns = open.longest_ns = open_wait_ns(lane);
	if (open.wait_ns > 0)
		call_add(&slots->call[lane->open_call - 1], rank, &open, bounds);
}

/* No more than every CPU there can be. */
static uint64_t threads_ns(const struct mpiwait_lane *lane, uint64_t sampled_ns, struct bounds *bounds)
{
	if (lane->threads_cpu_ns / MPIWAIT_WORDS < sampled_ns)
		return bounded(bounds, lane->threads_cpu_ns, SUM_MAX);
	return bounded(bounds, lane->threads_cpu_ns, 0);
}

static void lane_add(struct slots *slots, struct slots_rank *rank, const struct mpiwait_lane *lane, bool open,
                     struct bounds *bounds)
{
	uint64_t sampled_ns = bounded_ns(bounds, lane->sampled_ns);

	for (size_t row = 0; row < MPIWAIT_CALLS; row++)
		call_add(&slots->call[row], rank, &lane->calls[row], bounds);
	if (open)
		open_add(slots, rank, lane, bounds);
	for (unsigned hook = 0; hook < MPIWAIT_HOOKS; hook++)
		count(&slots->polls[hook], lane->hook_polls[hook], bounds);
	for (unsigned rung = 0; rung < MPIWAIT_RUNGS; rung++) {
		if (!rung_rests(rung))
			continue;
		add(&rank->asleep_ns, bounded_ns(bounds, lane->asleep_ns[rung]));
		count(&slots->sum[WAIT_naps], lane->naps[rung], bounds);
	}
	count(&slots->forecast[SERVICE_FORECASTS], lane->forecasts, bounds);
	count(&slots->forecast[SERVICE_EARLY], lane->early, bounds);
	add(&slots->forecast[SERVICE_EARLY_US], bounded_ns(bounds, lane->early_ns) / 1000);
	count(&slots->forecast[SERVICE_FORESEEN], lane->foreseen, bounds);
	count(&slots->forecast[SERVICE_UNFORESEEN], lane->unforeseen, bounds);
	for (int place = 0; place < MPIWAIT_PLACES; place++)
		add(&slots->place_bytes[place], bounded(bounds, lane->place_bytes[place], BYTES_MAX));
	add(&slots->sum[WAIT_low_s], bounded_ns(bounds, lane->asleep_ns[MPIWAIT_RUNG_PSTATE]));
	count(&slots->sum[WAIT_transitions], lane->transitions, bounds);
	count(&slots->sum[WAIT_late], lane->late, bounds);
	add(&slots->sum[WAIT_late_s], bounded_ns(bounds, lane->late_ns));
	add(&slots->sum[WAIT_SAMPLED_S], sampled_ns);
	add(&slots->sum[WAIT_SAMPLED_CPU_S], bounded(bounds, lane->sampled_cpu_ns, sampled_ns));
	add(&slots->sum[WAIT_threads_s], threads_ns(lane, sampled_ns, bounds));
}

static uint64_t span_ns(const struct mpiwait_slot *slot, struct bounds *bounds)
{
	uint64_t end_ns = slot->state == MPIWAIT_SLOT_FINALIZED ? slot->end_ns : bounds->now_ns;

	if (slot->start_ns >= bounds->begun_ns && slot->start_ns <= end_ns && end_ns <= bounds->now_ns)
		return end_ns - slot->start_ns;
	bounds->exceeded = true;
	return bounds->now_ns - bounds->begun_ns;
}

/* What the slot's head says of the rank; the numbers that MPI gave are kept only where they can be true. */
static void head_add(struct slots_rank *rank, const struct mpiwait_slot *head, struct bounds *bounds)
{
	rank->rank = head->rank;
	rank->size = head->size;
	rank->pid = head->pid;
	rank->span_ns = span_ns(head, bounds);
	if (head->size < 0 || head->size >= SLOTS_RANK_MAX) {
		rank->size = 0;
		bounds->exceeded = true;
	}
	if (head->rank < -1 || head->rank >= SLOTS_RANK_MAX || (rank->size > 0 && head->rank >= rank->size)) {
		rank->rank = -1;
		bounds->exceeded = true;
	}
}

static bool lane_is_profiled(const struct mpiwait_lane *lane)
{
	for (size_t row = 0; row < MPIWAIT_CALLS; row++)
		if (lane->calls[row].time_ns > 0 || lane->calls[row].bytes > 0)
			return true;
	return false;
}

/* How late the rank might have been in all: preload/budget/account.h. */
static void allowed_add(struct slots *slots, const struct slots_rank *rank, uint64_t slowdown_ppm,
                        struct bounds *bounds)
{
	double ppm = (double)bounded(bounds, slowdown_ppm, PPM);
	uint64_t parts = account_parts(rank->size > 0 ? (uint32_t)rank->size : 0);

	if (slowdown_ppm > 0)
		add(&slots->forecast[SERVICE_ALLOWED_US],
		    (uint64_t)((ACCOUNT_START_NS / 1e3 + (double)rank->span_ns / 1e3 * ppm / PPM) / (double)parts));
}

static int sizes_add(struct slots *slots, int segment, uint64_t offset, struct bounds *bounds)
{
	cleanup_free struct mpiwait_sizes *sizes = malloc(sizeof(*sizes));
	int result = sizes ? read_at(segment, sizes, sizeof(*sizes), offset) : -ENOMEM;

	for (size_t row = 0; row < MPIWAIT_CALLS && !result; row++)
		for (size_t class = 0; class < MPIWAIT_SIZES_ROOM; class ++)
			count(&slots->call[row].sizes[class < MPIWAIT_SIZES ? class : MPIWAIT_SIZES - 1],
			      sizes->calls[row][class], bounds);
	return result;
}

static int slot_add(struct slots *slots, int segment, uint32_t index, uint32_t room, struct bounds bounds)
{
	uint64_t offset = MPIWAIT_SLOTS_OFFSET + (uint64_t)index * sizeof(struct mpiwait_slot);
	const size_t head_size = offsetof(struct mpiwait_slot, lane);
	cleanup_free struct mpiwait_slot *slot = aligned_alloc(128, sizeof(*slot));
	struct slots_rank *rank = &slots->rank[slots->count];
	bool profiled = false;
	uint32_t lanes;
	int result;

	if (!slot)
		return -ENOMEM;
	result = read_at(segment, slot, head_size, offset);
	if (result || (slot->state != MPIWAIT_SLOT_RUNNING && slot->state != MPIWAIT_SLOT_FINALIZED))
		return result;
	lanes = slot->lanes < MPIWAIT_LANES ? slot->lanes : MPIWAIT_LANES;
	result = read_at(segment, slot->lane, lanes * sizeof(slot->lane[0]), offset + head_size);
	if (result)
		return result;
	head_add(rank, slot, &bounds);
	allowed_add(slots, rank, slot->slowdown_ppm, &bounds);
	for (uint32_t i = 0; i < lanes; i++) {
		lane_add(slots, rank, &slot->lane[i], slot->state == MPIWAIT_SLOT_RUNNING, &bounds);
		profiled |= lane_is_profiled(&slot->lane[i]);
	}
	if (profiled)
		result = sizes_add(slots, segment, mpiwait_sizes_offset(room, index), &bounds);
	phases_add(&slots->phases, slot, lanes, rank->rank, &bounds);
	if (slot->has_sites && !result)
		result = read_at(segment, &slot->sites, sizeof(slot->sites),
		                 offset + offsetof(struct mpiwait_slot, sites));
	if (slot->has_sites && !result)
		callsites_of(&slots->sites, &slot->sites, lanes, rank->rank, &bounds);
	slots->profiled |= profiled;
	for (unsigned flag = 0; flag < SERVICE_FLAGS; flag++)
		slots->flagged[flag] += slot->flags >> flag & 1;
	/* no thread waits longer than the step has lasted, however many functions it says so of */
	rank->wait_ns = bounded(&bounds, rank->wait_ns, lanes * (bounds.now_ns - bounds.begun_ns));
	if (rank->asleep_ns > rank->wait_ns)
		rank->asleep_ns = rank->wait_ns;
	rank->doubtful = bounds.exceeded;
	slots->count++;
	return result;
}

int slots_read(int segment, uint64_t begun_ns, uint64_t now_ns, struct slots **ret_slots, struct error *error)
{
	const struct bounds bounds = {.begun_ns = begun_ns, .now_ns = now_ns};
	cleanup_free struct slots *slots = NULL;
	struct mpiwait_header header;
	uint32_t room = 0, there;
	int result = header_read(segment, &header, &room, error);

	if (result)
		return result;
	there = header.slot_count < room ? header.slot_count : room;
	slots = calloc(1, sizeof(*slots) + there * sizeof(slots->rank[0]));
	if (!slots)
		return error_set(error, -ENOMEM, "out of memory");
	slots->phases = (struct record_rows){.room = ROWS_PHASE_MAX, .row = slots->phase};
	slots->sites = (struct record_rows){.room = ROWS_SITE_MAX, .row = slots->site};
	if (header.claimed > there)
		slots->sum[WAIT_unseen] = header.claimed - there < UNSEEN_MAX ? header.claimed - there : UNSEEN_MAX;
	for (uint32_t i = 0; i < there && i < header.claimed && !result; i++)
		result = slot_add(slots, segment, i, room, bounds);
	if (result)
		return error_set(error, result, "stats segment: %s", strerror(-result));
	*ret_slots = take_pointer(slots);
	return 0;
}

static uint64_t microseconds(uint64_t ns)
{
	return ns / 1000;
}

static json_t *calls_to_json(const struct slots *slots)
{
	struct record_row other = {.most_rank = -1};
	json_t *calls = json_object();

	for (size_t row = 0; row < MPIWAIT_CALLS; row++) {
		const struct slots_call *from = &slots->call[row];
		struct record_row own = {.number = {(double)from->calls, (double)from->waits,
		                                    (double)microseconds(from->wait_ns),
		                                    (double)microseconds(from->longest_ns)}};

		/* on another node it may have waited: then this one's calls are counted too */
		if (from->waits == 0 && from->wait_ns == 0 && (from->calls == 0 || !call_may_wait(row)))
			continue;
		snprintf(own.name, sizeof(own.name), "%s", call_name(row));
		if (row >= CALL_ROWS)
			row_add(ROWS_CALLS, &other, &own);
		row_write(ROWS_CALLS, calls, row < CALL_ROWS ? &own : &other);
	}
	return calls;
}

static json_t *profile_to_json(const struct slots *slots)
{
	json_t *profile = json_object();

	for (size_t row = 0; row < CALL_ROWS; row++) {
		const struct slots_call *call = &slots->call[row];
		/* The wait that a rank died in has no exit that would have been timed. */
		uint64_t time_ns = call->time_ns > call->wait_ns ? call->time_ns : call->wait_ns;
		double sizes[MPIWAIT_SIZES];
		struct record_row own = {.number = {(double)call->calls, (double)microseconds(time_ns),
		                                    (double)microseconds(call->wait_ns), (double)call->bytes},
		                         .sizes = sizes};
		bool called = time_ns > 0;

		for (size_t class = 0; class < MPIWAIT_SIZES; class ++) {
			sizes[class] = (double)call->sizes[class];
			called |= call->sizes[class] > 0;
		}
		snprintf(own.name, sizeof(own.name), "%s", call_name(row));
		if (called)
			row_write(ROWS_PROFILE, profile, &own);
	}
	return profile;
}

/* A row that mostly waited by a hook or a loop has no need to be named for the calls before that was found out. */
static bool call_spun(const struct slots_call *call)
{
	return call->burned_ns >= 1000 && call->burned_ns > call->wait_ns / 4;
}

static double counted(uint64_t count)
{
	return (double)(count < JSON_COUNT_MAX ? count : JSON_COUNT_MAX);
}

static void service_set(const struct slots *slots, struct record_wait *wait)
{
	for (unsigned hook = 0; hook < MPIWAIT_HOOKS; hook++)
		wait->sum[WAIT_HOOKS + hook] = counted(slots->polls[hook]);
	for (unsigned i = 0; i < SERVICE_FORECAST_COUNT; i++)
		wait->sum[WAIT_FORECASTS + i] = counted(slots->forecast[i]);
	for (unsigned flag = 0; flag < SERVICE_FLAGS; flag++)
		wait->sum[WAIT_FLAGS + flag] = (double)slots->flagged[flag];
	for (size_t row = 0; row < MPIWAIT_CALLS; row++) {
		const struct slots_call *call = &slots->call[row];
		struct record_row spun = {
		        .number = {(double)microseconds(call->burned_ns), (double)microseconds(call->burned_cpu_ns)}};

		snprintf(spun.name, sizeof(spun.name), "%s", call_name(row));
		if (call_spun(call))
			rows_put(ROWS_SPUN, &wait->rows[ROWS_SPUN], &spun);
	}
}

/* The ranks' list, and what is made of all of them. */
static json_t *ranks_to_json(const struct slots *slots, struct record_wait *wait, uint64_t sums_us[WAIT_SUMS])
{
	json_t *ranks = json_array();
	uint64_t span_ns = 0;

	for (size_t i = 0; i < slots->count; i++) {
		const struct slots_rank *from = &slots->rank[i];

		record_rank_write(ranks, from->rank, microseconds(from->wait_ns), microseconds(from->asleep_ns));
		wait->size = from->size > wait->size ? from->size : wait->size;
		sums_us[WAIT_doubtful] += from->doubtful;
		add(&span_ns, from->span_ns);
	}
	sums_us[WAIT_SPAN_S] = microseconds(span_ns);
	return ranks;
}

json_t *slots_to_json(const struct slots *slots)
{
	struct record_wait wait = {.rows = {[ROWS_PHASES] = slots->phases, [ROWS_SITES] = slots->sites}};
	json_t *json = json_object();
	uint64_t sums_us[WAIT_SUMS];

	for (int i = 0; i < WAIT_SUMS; i++)
		sums_us[i] = record_wait_is_time((enum wait_sum)i) ? microseconds(slots->sum[i]) : slots->sum[i];
	for (int place = 0; place < MPIWAIT_PLACES; place++)
		wait.place_bytes[place] = (double)slots->place_bytes[place];
	json_object_set_new(json, "ranks", ranks_to_json(slots, &wait, sums_us));
	service_set(slots, &wait);
	record_wait_write(json, &wait, sums_us);
	rows_free(&wait.rows[ROWS_SPUN]);
	json_object_set_new(json, "calls", calls_to_json(slots));
	if (slots->profiled)
		json_object_set_new(json, "profile", profile_to_json(slots));
	return json;
}
