#include "spank/node/slots.h"

#include "preload/contract/allowance.h"
#include "preload/contract/call_rows.h"
#include "preload/contract/config_format.h"
#include "spank/base/cleanup.h"
#include "spank/base/json.h"
#include "spank/record/waits/worlds.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define SUM_MAX    INT64_C(1000000000000000000) /* bound of the reader of a node's record */
#define COUNT_MAX  UINT64_C(1000000000000000)
#define UNSEEN_MAX 1000000u

#define PPM        COST_PPM
#define COST_CALLS MPIWAIT_CALLS /* most calls of a thread whose periods are measured at one time */

/* A copy of one slot, and the bounds of its numbers. Each number is a claim. */
struct reading {
	struct mpiwait_slot slot;
	uint32_t lanes;
	uint64_t begun_ns; /* CLOCK_MONOTONIC when the step began */
	uint64_t now_ns;
	bool exceeded; /* a number was cut */
	bool profiled;
};

static const struct {
	const char *name;
	enum call_kind kind;
} rows[CALL_ROWS] = {
#define CALL(name, arguments, kind, ...) {"MPI_" #name, CALL_##kind},
#include "preload/contract/mpi_calls.def"
#undef CALL
};

const char *slots_call_name(size_t row)
{
	return row < CALL_ROWS ? rows[row].name : NULL;
}

static const char *call_name(size_t row)
{
	const char *name = slots_call_name(row);

	return name ? name : "other";
}

/* Returns the value, cut to `most`. Notes if it was cut, which makes the rank doubtful. */
static uint64_t bounded(struct reading *at, uint64_t value, uint64_t most)
{
	if (value <= most)
		return value;
	at->exceeded = true;
	return most;
}

/* Bounds a time of one thread by the time that the step has lasted. */
static uint64_t bounded_ns(struct reading *at, uint64_t value)
{
	return bounded(at, value, at->now_ns - at->begun_ns);
}

/* Bounds a sum of times over the rank's threads. */
static uint64_t bounded_all_ns(struct reading *at, uint64_t value)
{
	return bounded(at, value, at->lanes * (at->now_ns - at->begun_ns));
}

static void add(uint64_t *sum, uint64_t value)
{
	integer_add(sum, value, SUM_MAX);
}

/* Adds a bounded number of events to a sum. */
static void count(uint64_t *sum, uint64_t value, struct reading *at)
{
	add(sum, bounded(at, value, COUNT_MAX));
}

static int read_at(int segment, void *buffer, size_t size, uint64_t offset)
{
	ssize_t got = pread(segment, buffer, size, (off_t)offset);

	if (got < 0)
		return -errno;
	return (size_t)got == size ? 0 : -EINVAL;
}

int slots_header_read(int segment, struct mpiwait_header *header, uint32_t *ret_room, struct error *error)
{
	struct stat status;
	uint64_t room;
	int result = read_at(segment, header, sizeof(*header), 0);

	if (result || fstat(segment, &status))
		return error_set(error, result ? result : -errno, "cannot read the stats segment");
	if (header->magic != MPIWAIT_MAGIC || header->version != MPIWAIT_VERSION ||
	    header->header_size != sizeof(*header) || header->slot_size != sizeof(struct mpiwait_slot) ||
	    header->sizes_size != sizeof(struct mpiwait_sizes))
		return error_set(error, -EINVAL, "stats segment has a wrong format, not that of version %d",
		                 MPIWAIT_VERSION);
	if (status.st_size < (off_t)mpiwait_segment_size(1))
		return error_set(error, -EINVAL, "stats segment of %lld bytes has no slot", (long long)status.st_size);
	room = ((uint64_t)status.st_size - MPIWAIT_SLOTS_OFFSET) /
	       (sizeof(struct mpiwait_slot) + sizeof(struct mpiwait_sizes));
	*ret_room = room < MPIWAIT_SLOTS_MAX ? (uint32_t)room : MPIWAIT_SLOTS_MAX;
	return 0;
}

/* Reads the head of a slot, and, if a rank has claimed the slot, its lanes and callsites too. Returns 0 or -errno. */
static int slot_read(int segment, uint64_t offset, struct reading *at)
{
	struct mpiwait_slot *slot = &at->slot;
	const size_t head_size = offsetof(struct mpiwait_slot, lane);
	int result = read_at(segment, slot, head_size, offset);

	if (result || (slot->state != MPIWAIT_SLOT_RUNNING && slot->state != MPIWAIT_SLOT_FINALIZED))
		return result;
	at->lanes = slot->lanes < MPIWAIT_LANES ? slot->lanes : MPIWAIT_LANES;
	result = read_at(segment, slot->lane, at->lanes * sizeof(slot->lane[0]), offset + head_size);
	if (result || !slot->has_sites)
		return result;
	return read_at(segment, &slot->sites, sizeof(slot->sites), offset + offsetof(struct mpiwait_slot, sites));
}

/* Returns when the rank ended by its own claim, or now if it has not. */
static uint64_t end_ns(const struct reading *at)
{
	return at->slot.state == MPIWAIT_SLOT_FINALIZED ? at->slot.end_ns : at->now_ns;
}

/* Returns true if the thread of a rank without Finalize is in a wait, or died in one. */
static bool lane_waits(const struct reading *at, const struct mpiwait_lane *lane)
{
	return at->slot.state == MPIWAIT_SLOT_RUNNING && lane->open_call != 0 && lane->open_call <= MPIWAIT_CALLS;
}

/* Returns how long that wait has lasted, 0 if there is none. Unbounded. */
static uint64_t open_wait_ns(const struct reading *at, const struct mpiwait_lane *lane)
{
	return lane_waits(at, lane) && lane->open_last_ns > lane->open_since_ns
	               ? lane->open_last_ns - lane->open_since_ns
	               : 0;
}

/* Adds one thread's claims about one function to the sums of that function, and its waits to the rank's. */
static void call_add(struct mpiwait_call_stats *sum, struct slots_rank *rank, const struct mpiwait_call_stats *call,
                     struct reading *at)
{
	uint64_t wait_ns = bounded_ns(at, call->wait_ns);
	uint64_t longest_ns = bounded_ns(at, call->longest_ns);
	uint64_t burned_ns = bounded_ns(at, call->burned_ns);

	count(&sum->calls, call->calls, at);
	count(&sum->waits, call->waits, at);
	add(&sum->wait_ns, wait_ns);
	add(&rank->wait_ns, wait_ns);
	add(&sum->time_ns, bounded_ns(at, call->time_ns));
	add(&sum->bytes, bounded(at, call->bytes, SUM_MAX));
	add(&sum->burned_ns, burned_ns);
	add(&sum->burned_cpu_ns, bounded(at, call->burned_cpu_ns, burned_ns));
	if (longest_ns > sum->longest_ns)
		sum->longest_ns = longest_ns;
	at->profiled |= call->time_ns > 0 || call->bytes > 0;
}

/* Returns the CPU time of other threads, 0 if the claim exceeds what all CPUs can give. */
static uint64_t threads_ns(const struct mpiwait_lane *lane, uint64_t sampled_ns, struct reading *at)
{
	if (lane->threads_cpu_ns / MPIWAIT_WORDS < sampled_ns)
		return bounded(at, lane->threads_cpu_ns, SUM_MAX);
	return bounded(at, lane->threads_cpu_ns, 0);
}

/*
 * Adds the cost of sleeping by this thread's account. Periods of several calls overlap in time, so that their sum may
 * exceed the step's length. A deviation above the sum of periods means that nothing is known; it is no lie, and is only
 * cut.
 */
static void cost_add(struct slots *slots, const struct mpiwait_lane *lane, struct reading *at)
{
	uint64_t lasted_ns = at->now_ns - at->begun_ns,
	         slept_ns = bounded(at, lane->cost_slept_ns, COST_CALLS * lasted_ns);
	bool shorter = lane->cost_more_ns < 0;
	uint64_t more_ns = shorter ? 0 - (uint64_t)lane->cost_more_ns : (uint64_t)lane->cost_more_ns;
	double slept_us = trunc((double)slept_ns / 1000),
	       more_us = trunc((double)bounded(at, more_ns, slept_ns) / 1000);
	struct record_cost cost = {
	        .slept_us = slept_us,
	        .more_us = shorter ? -more_us : more_us,
	        .deviation_us = fmin(ceil(sqrt((double)lane->cost_variance_us)), slept_us),
	        .windows = (double)bounded(at, lane->cost_windows, lasted_ns / 1000),
	        .slowdown_ppm = (double)bounded(at, at->slot.slowdown_ppm, PPM),
	};

	if (slept_us > 0)
		record_cost_add(&slots->cost, &cost);
}

/* Keeps the call of the thread that has waited longest. */
static void open_wait_note(struct slots_rank *rank, const struct mpiwait_lane *lane, struct reading *at)
{
	uint64_t open_ns = bounded_ns(at, open_wait_ns(at, lane));

	if (!lane_waits(at, lane) || open_ns < rank->open_ns)
		return;
	rank->open_call = lane->open_call;
	rank->open_ns = open_ns;
}

/* Adds the claims of one thread to the step's sums and to its rank's. */
static void lane_add(struct slots *slots, struct slots_rank *rank, const struct mpiwait_lane *lane, struct reading *at)
{
	uint64_t sampled_ns = bounded_ns(at, lane->sampled_ns), open_ns = open_wait_ns(at, lane);

	for (size_t row = 0; row < MPIWAIT_CALLS; row++)
		call_add(&slots->call[row], rank, &lane->calls[row], at);
	if (open_ns > 0)
		call_add(&slots->call[lane->open_call - 1], rank,
		         &(struct mpiwait_call_stats){.waits = 1, .wait_ns = open_ns, .longest_ns = open_ns}, at);
	open_wait_note(rank, lane, at);
	for (unsigned hook = 0; hook < MPIWAIT_HOOKS; hook++)
		count(&slots->sum[WAIT_HOOKS + hook], lane->hook_polls[hook], at);
	for (unsigned rung = 0; rung < MPIWAIT_RUNGS; rung++) {
		if (!(MPIWAIT_RUNGS_SLEEP & 1u << rung))
			continue;
		add(&rank->asleep_ns, bounded_ns(at, lane->asleep_ns[rung]));
		count(&slots->sum[WAIT_naps], lane->naps[rung], at);
	}
	count(&slots->sum[WAIT_FORECAST_naps], lane->forecasts, at);
	count(&slots->sum[WAIT_FORECAST_early], lane->early, at);
	add(&slots->sum[WAIT_FORECAST_early_s], bounded_ns(at, lane->early_ns) / 1000);
	count(&slots->sum[WAIT_FORECAST_foreseen], lane->foreseen, at);
	count(&slots->sum[WAIT_FORECAST_unforeseen], lane->unforeseen, at);
	cost_add(slots, lane, at);
	for (int locality = 0; locality < MPIWAIT_LOCALITIES; locality++)
		add(&slots->locality_bytes[locality], bounded(at, lane->locality_bytes[locality], SUM_MAX));
	add(&slots->sum[WAIT_low_s], bounded_ns(at, lane->asleep_ns[MPIWAIT_RUNG_PSTATE]));
	count(&slots->sum[WAIT_transitions], lane->transitions, at);
	count(&slots->sum[WAIT_late], lane->late, at);
	add(&slots->sum[WAIT_late_s], bounded_ns(at, lane->late_ns));
	add(&slots->sum[WAIT_SAMPLED_S], sampled_ns);
	add(&slots->sum[WAIT_SAMPLED_CPU_S], bounded(at, lane->sampled_cpu_ns, sampled_ns));
	add(&slots->sum[WAIT_threads_s], threads_ns(lane, sampled_ns, at));
}

/* Takes rank, size, launch, task and life from the slot's head; drops numbers of MPI that cannot be true. */
static void head_add(struct slots_rank *rank, struct reading *at)
{
	const struct mpiwait_slot *head = &at->slot;
	bool in_order = head->start_ns >= at->begun_ns && head->start_ns <= end_ns(at) && end_ns(at) <= at->now_ns;
	bool has_size = head->size >= 0 && head->size < SLOTS_RANK_MAX;
	int32_t ranks = has_size && head->size > 0 ? head->size : SLOTS_RANK_MAX;
	bool has_rank = head->rank >= -1 && head->rank < ranks;

	rank->rank = has_rank ? head->rank : -1;
	rank->size = has_size ? head->size : 0;
	rank->launch = head->launch & WORLD_LAUNCH_MAX;
	rank->task = head->task <= SLOTS_RANK_MAX ? (int32_t)head->task - 1 : -1;
	rank->program = head->program <= CONFIG_CHOICES_MAX ? head->program : 0;
	rank->pid = head->pid;
	rank->span_ns = in_order ? end_ns(at) - head->start_ns : at->now_ns - at->begun_ns;
	at->exceeded |= !in_order || !has_size || !has_rank || rank->program != head->program;
}

/* Adds what the rank's sleeping was allowed to cost the job. */
static void allowed_add(struct slots *slots, const struct slots_rank *rank, struct reading *at)
{
	uint64_t ppm = bounded(at, at->slot.slowdown_ppm, (uint64_t)PPM);

	if (ppm > 0)
		add(&slots->sum[WAIT_FORECAST_allowed_s], (uint64_t)(allowance_ns(rank->span_ns, ppm) / 1e3));
}

/* Adds the rank's calls by size. Returns 0 or -errno. */
static int sizes_add(struct slots *slots, int segment, uint64_t offset, struct reading *at)
{
	cleanup_free struct mpiwait_sizes *sizes = malloc(sizeof(*sizes));
	int result = sizes ? read_at(segment, sizes, sizeof(*sizes), offset) : -ENOMEM;

	for (size_t row = 0; row < MPIWAIT_CALLS && !result; row++)
		for (size_t class = 0; class < MPIWAIT_SIZES_ROOM; class ++)
			count(&slots->sizes[row][class < MPIWAIT_SIZES ? class : MPIWAIT_SIZES - 1],
			      sizes->calls[row][class], at);
	return result;
}

static void row_numbers(struct record_row *row, uint64_t first, uint64_t second, uint64_t third, uint64_t fourth)
{
	row->number[0] = (double)first;
	row->number[1] = (double)second;
	row->number[2] = (double)third;
	row->number[3] = (double)fourth;
}

/* Returns the level of the phase with that index. An index without a valid level marks the rank as doubtful. */
static int32_t level_of(uint32_t index, struct reading *at)
{
	int32_t level = ROW_PHASE_OTHER;

	if (index == MPIWAIT_PHASE_NONE)
		return ROW_PHASE_NONE;
	if (index < MPIWAIT_PHASE_OTHER)
		level = at->slot.phases.level[index - 1];
	if (level >= ROW_PHASE_FIRST || index == MPIWAIT_PHASE_OTHER)
		return level;
	at->exceeded = true;
	return ROW_PHASE_OTHER;
}

/* Returns the time in that phase: completed visits, and the current one. */
static uint64_t phase_time_ns(uint32_t index, struct reading *at)
{
	const struct mpiwait_phases *phases = &at->slot.phases;
	bool goes_on = index == phases->latest && end_ns(at) > phases->since_ns;

	return bounded_ns(at, phases->time_ns[index]) + (goes_on ? bounded_ns(at, end_ns(at) - phases->since_ns) : 0);
}

/* Adds a row for each phase in which the rank spent time or waited. */
static void phases_add(struct record_rows *sum, int32_t rank, struct reading *at)
{
	for (uint32_t index = 0; at->slot.phases.since_ns != 0 && index < MPIWAIT_PHASE_PLACES; index++) {
		uint64_t time_us = phase_time_ns(index, at) / 1000, waits = 0, wait_ns = 0, wait_us;
		struct record_row phase = {.most_rank = rank};

		for (uint32_t i = 0; i < at->lanes; i++) {
			const struct mpiwait_lane *lane = &at->slot.lane[i];
			uint64_t open_ns = index == at->slot.phases.latest ? open_wait_ns(at, lane) : 0;

			waits += bounded(at, lane->phases[index].waits, COUNT_MAX) + (open_ns > 0);
			wait_ns += bounded_ns(at, lane->phases[index].wait_ns) + bounded_ns(at, open_ns);
		}
		wait_us = bounded_all_ns(at, wait_ns) / 1000;
		if (time_us == 0 && waits == 0 && wait_us == 0)
			continue;
		row_numbers(&phase, time_us, waits, wait_us, wait_us);
		row_phase(&phase, level_of(index, at));
		rows_put(ROWS_PHASES, sum, &phase);
	}
}

/* Takes a module's name and build id. Characters that no module's name should have become '_'. */
static void module_read(const struct mpiwait_module *module, struct record_row *site)
{
	uint32_t size = module->build_id_size <= MPIWAIT_BUILD_ID ? module->build_id_size : 0;

	snprintf(site->name, sizeof(site->name), "%.*s", (int)sizeof(module->name) - 1, module->name);
	for (char *at = site->name; *at; at++)
		if (!strchr(ROW_MODULE_LETTERS, *at) || (at == site->name && *at == '.'))
			*at = '_';
	for (uint32_t i = 0; i < size; i++)
		snprintf(site->build_id + 2 * (size_t)i, 3, "%02x", module->build_id[i]);
}

/* Adds a row for each callsite at which the rank waited. */
static void sites_add(struct record_rows *sum, int32_t rank, struct reading *at)
{
	for (size_t i = 0; at->slot.has_sites && i <= MPIWAIT_SITES; i++) {
		const struct mpiwait_callsite *from = &at->slot.sites.site[i];
		struct record_row site = {.most_rank = rank};
		uint64_t wait_us;

		if (from->waits == 0 && from->wait_ns == 0)
			continue;
		if (i < MPIWAIT_SITES && from->module >= 1 && from->module <= MPIWAIT_MODULES)
			module_read(&at->slot.sites.module[from->module - 1], &site);
		site.where = (int64_t)bounded(at, from->offset, INT64_MAX);
		snprintf(site.call, sizeof(site.call), "%s", call_name(from->row));
		wait_us = bounded_all_ns(at, from->wait_ns) / 1000;
		row_numbers(&site, bounded(at, from->waits, COUNT_MAX), wait_us, wait_us, 0);
		rows_put(ROWS_SITES, sum, &site);
	}
}

/* Adds all claims of the slot that was read, and bounds those of the rank as a whole. */
static void rank_add(struct slots *slots, struct slots_rank *rank, struct reading *at)
{
	head_add(rank, at);
	allowed_add(slots, rank, at);
	for (uint32_t i = 0; i < at->lanes; i++)
		lane_add(slots, rank, &at->slot.lane[i], at);
	phases_add(&slots->phases, rank->rank, at);
	sites_add(&slots->sites, rank->rank, at);
	slots->profiled |= at->profiled;
	for (unsigned flag = 0; flag < WAIT_FLAG_BITS; flag++)
		slots->sum[WAIT_FLAGS + flag] += at->slot.flags >> flag & 1;
	/* a thread cannot wait longer than the step has lasted, whatever its functions claim in sum */
	rank->wait_ns = bounded_all_ns(at, rank->wait_ns);
	if (rank->asleep_ns > rank->wait_ns)
		rank->asleep_ns = rank->wait_ns;
}

/* Reads a slot, and adds its rank if one has claimed it. Returns 0 or -errno. */
static int slot_add(struct slots *slots, int segment, uint32_t index, uint32_t room, struct reading *at)
{
	struct slots_rank *rank = &slots->rank[slots->count];
	int result = slot_read(segment, MPIWAIT_SLOTS_OFFSET + (uint64_t)index * sizeof(at->slot), at);

	if (result || (at->slot.state != MPIWAIT_SLOT_RUNNING && at->slot.state != MPIWAIT_SLOT_FINALIZED))
		return result;
	at->exceeded = at->profiled = false;
	rank->slot = index;
	rank->running = at->slot.state == MPIWAIT_SLOT_RUNNING;
	rank_add(slots, rank, at);
	if (at->profiled)
		result = sizes_add(slots, segment, mpiwait_sizes_offset(room, index), at);
	rank->doubtful = at->exceeded;
	slots->count++;
	return result;
}

int slots_read(int segment, uint64_t begun_ns, uint64_t now_ns, struct slots **ret_slots, struct error *error)
{
	cleanup_free struct slots *slots = NULL;
	cleanup_free struct reading *at = NULL;
	struct mpiwait_header header;
	uint32_t room = 0, there;
	int result = slots_header_read(segment, &header, &room, error);

	if (result)
		return result;
	there = header.slot_count < room ? header.slot_count : room;
	slots = calloc(1, sizeof(*slots) + there * sizeof(slots->rank[0]));
	at = aligned_alloc(_Alignof(struct reading), sizeof(*at));
	if (!slots || !at)
		return error_set(error, -ENOMEM, "out of memory");
	slots->phases = (struct record_rows){.has_room = true, .row = slots->phase};
	slots->sites = (struct record_rows){.has_room = true, .row = slots->site};
	slots->alive = header.alive;
	slots->csv = header.csv;
	at->begun_ns = begun_ns;
	at->now_ns = now_ns;
	if (header.claimed > there)
		slots->sum[WAIT_unseen] = header.claimed - there < UNSEEN_MAX ? header.claimed - there : UNSEEN_MAX;
	for (uint32_t i = 0; i < there && i < header.claimed && !result; i++)
		result = slot_add(slots, segment, i, room, at);
	if (result)
		return error_set(error, result, "cannot read the stats segment: %s", strerror(-result));
	*ret_slots = take_pointer(slots);
	return 0;
}

static struct record_row call_row(size_t row, uint64_t first, uint64_t second, uint64_t third, uint64_t fourth)
{
	struct record_row call = {.most_rank = -1};

	snprintf(call.name, sizeof(call.name), "%s", call_name(row));
	row_numbers(&call, first, second, third, fourth);
	return call;
}

/* Returns "calls": the functions that waited or may wait. */
static json_t *calls_to_json(const struct slots *slots)
{
	struct record_row other = {.most_rank = -1};
	json_t *calls = json_object();

	for (size_t row = 0; row < MPIWAIT_CALLS; row++) {
		const struct mpiwait_call_stats *from = &slots->call[row];
		struct record_row own =
		        call_row(row, from->calls, from->waits, from->wait_ns / 1000, from->longest_ns / 1000);
		bool may_wait = row < CALL_ROWS && rows[row].kind != CALL_MARK;

		/* the function may have waited on another node, which needs this node's calls */
		if (from->waits == 0 && from->wait_ns == 0 && (from->calls == 0 || !may_wait))
			continue;
		if (row >= CALL_ROWS)
			row_add(ROWS_CALLS, &other, &own);
		row_write(ROWS_CALLS, calls, row < CALL_ROWS ? &own : &other);
	}
	return calls;
}

/* Returns "profile": all functions that were called, with their bytes and sizes. */
static json_t *profile_to_json(const struct slots *slots)
{
	json_t *profile = json_object();

	for (size_t row = 0; row < CALL_ROWS; row++) {
		const struct mpiwait_call_stats *call = &slots->call[row];
		/* The wait that a rank died in was never timed to its exit. */
		uint64_t time_ns = call->time_ns > call->wait_ns ? call->time_ns : call->wait_ns;
		struct record_row own = call_row(row, call->calls, time_ns / 1000, call->wait_ns / 1000, call->bytes);
		double sizes[MPIWAIT_SIZES];
		bool called = time_ns > 0;

		for (size_t class = 0; class < MPIWAIT_SIZES; class ++) {
			sizes[class] = (double)slots->sizes[row][class];
			called |= slots->sizes[row][class] > 0;
		}
		own.sizes = sizes;
		if (called)
			row_write(ROWS_PROFILE, profile, &own);
	}
	return profile;
}

/*
 * Adds a function that kept its CPU busy, unless it mostly waited by a hook or loop: its calls before that was known do
 * not matter.
 */
static void spun_add(struct record_rows *spun, size_t row, const struct mpiwait_call_stats *call)
{
	struct record_row own = call_row(row, call->burned_ns / 1000, call->burned_cpu_ns / 1000, 0, 0);

	if (call->burned_ns >= 1000 && call->burned_ns > call->wait_ns / 4)
		rows_put(ROWS_SPUN, spun, &own);
}

/* Writes a rank. A rank that is alone or has no number is named by its task. */
static void rank_write(json_t *ranks, const struct slots_rank *from, uint32_t world)
{
	bool by_task = from->size == 1 || from->rank < 0;
	struct record_rank rank = {.rank = from->rank, .world = world, .task = by_task ? from->task : -1};

	record_rank_write(ranks, &rank, from->wait_ns / 1000, from->asleep_ns / 1000);
}

/* Sets the ranks' list and their worlds, and computes the sums over ranks. */
static void ranks_set(json_t *json, const struct slots *slots, struct record_wait *wait, uint64_t sums_us[WAIT_SUMS])
{
	json_t *ranks = json_array();
	uint64_t span_ns = 0;

	for (size_t i = 0; i < slots->count; i++) {
		const struct slots_rank *from = &slots->rank[i];

		rank_write(ranks, from, record_worlds_put(json, from->launch, (uint32_t)from->size));
		wait->size = from->size > wait->size ? from->size : wait->size;
		sums_us[WAIT_doubtful] += from->doubtful;
		add(&span_ns, from->span_ns);
	}
	sums_us[WAIT_SPAN_S] = span_ns / 1000;
	json_object_set_new(json, "ranks", ranks);
}

json_t *slots_to_json(const struct slots *slots)
{
	struct record_wait wait = {.rows = {[ROWS_PHASES] = slots->phases, [ROWS_SITES] = slots->sites},
	                           .cost = slots->cost};
	json_t *json = json_object();
	uint64_t sums_us[WAIT_SUMS];

	for (int i = 0; i < WAIT_SUMS; i++)
		sums_us[i] = slots->sum[i] / (record_wait_is_time((enum wait_sum)i) ? 1000 : 1);
	for (int locality = 0; locality < MPIWAIT_LOCALITIES; locality++)
		wait.locality_bytes[locality] = (double)slots->locality_bytes[locality];
	for (size_t row = 0; row < MPIWAIT_CALLS; row++)
		spun_add(&wait.rows[ROWS_SPUN], row, &slots->call[row]);
	ranks_set(json, slots, &wait, sums_us);
	record_wait_write(json, &wait, sums_us);
	record_wait_free(&wait);
	json_object_set_new(json, "calls", calls_to_json(slots));
	if (slots->profiled)
		json_object_set_new(json, "profile", profile_to_json(slots));
	return json;
}
