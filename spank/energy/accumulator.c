#include "spank/energy/accumulator.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define BEGIN_WAIT_MS  2000 /* a process that finds no file waits so long for another one that may be creating it */
#define TRY_MS         1
#define FORMAT_VERSION 1

/* Processors exceed the power of their constraints for moments; a restarted counter does so by far more. */
#define POWER_MARGIN 4
#define SLACK_UJ     1000000
#define STOPPED_NS   UINT64_C(10000000000)

/* Returns the index of the zone, zone_count if there is none. */
static uint32_t zone_find(const struct energy_snapshot *snapshot, enum rapl_kind kind, uint32_t instance,
                          const char *name)
{
	const struct energy_zone *have = snapshot->zone, *end = have + snapshot->zone_count;

	while (have < end && (have->kind != kind || have->instance != instance || strcmp(have->name, name) != 0))
		have++;
	return (uint32_t)(have - snapshot->zone);
}

/* Adds a zone to the accumulator. A zone that comes after the first sample begins with a gap. */
static void zone_begin(struct energy_snapshot *accumulator, const struct rapl_zone *zone, bool first)
{
	struct energy_zone *new_zone = &accumulator->zone[accumulator->zone_count++];

	*new_zone = (struct energy_zone){
	        .kind = zone->kind,
	        .instance = zone->instance,
	        .counter_uj = zone->energy_uj,
	        .gaps = first ? 0 : 1,
	};
	memcpy(new_zone->name, zone->name, sizeof(new_zone->name));
	if (zone->mirror)
		new_zone->problem = ENERGY_MIRRORED;
}

static uint64_t zone_wrap_ns(const struct rapl_zone *zone)
{
	return (uint64_t)((double)zone->range_uj / (double)zone->power_max_uw * 1e9);
}

/* Sets the zone's problem. Its begin counts as a gap. */
static void zone_lose(struct energy_zone *have, enum energy_problem problem)
{
	if (have->problem == ENERGY_FINE || have->problem == ENERGY_DOUBTED)
		have->gaps++;
	have->problem = problem;
}

/* Returns true if the zone's latest reading was none or made no sense. */
static bool is_lost(const struct energy_zone *have)
{
	return have->problem == ENERGY_VANISHED || have->problem == ENERGY_NONSENSE;
}

/* Marks a zone as mirror. The mirrored zone counts the energy: nothing is lost, and nothing is added here. */
static void zone_mirror(struct energy_zone *have, const struct rapl_zone *zone)
{
	have->problem = ENERGY_MIRRORED;
	have->still_ns = 0;
	have->counter_uj = zone->energy_uj;
}

/* Returns how far the counter has advanced since the zone's latest sample. One wrap is taken into account. */
static uint64_t advance_of(const struct energy_zone *have, const struct rapl_zone *zone)
{
	bool wrapped = zone->energy_uj < have->counter_uj;

	return zone->energy_uj - have->counter_uj + (wrapped ? zone->range_uj : 0);
}

/* Returns true if the counter can have advanced that far. A reset looks like a wrap at an impossible power. */
static bool is_possible(const struct rapl_zone *zone, uint64_t advance_uj, uint64_t elapsed_ns)
{
	return (double)advance_uj <= POWER_MARGIN * (double)zone->power_max_uw * ((double)elapsed_ns / 1e9) + SLACK_UJ;
}

/* Watches for a counter that stands still: a running package always uses energy. */
static void zone_watch(struct energy_zone *have, uint64_t advance_uj, uint64_t elapsed_ns)
{
	if (advance_uj > 0 || (have->kind != RAPL_PACKAGE && have->kind != RAPL_PSYS))
		have->still_ns = 0;
	else
		have->still_ns += elapsed_ns;
	if (have->still_ns >= STOPPED_NS)
		zone_lose(have, ENERGY_STOPPED);
	else
		have->problem = ENERGY_FINE;
}

/* Adds a reading to a zone: its advance, or a gap where the advance cannot be known. Sets the zone's problem. */
static void zone_add(struct energy_zone *have, const struct rapl_zone *zone, uint64_t elapsed_ns)
{
	uint64_t advance_uj;

	if (zone->mirror) {
		zone_mirror(have, zone);
		return;
	}
	if (zone->energy_uj > zone->range_uj) {
		zone_lose(have, ENERGY_NONSENSE);
		return;
	}
	advance_uj = advance_of(have, zone);
	if (have->problem == ENERGY_MIRRORED) {
		have->gaps++;
		have->problem = ENERGY_FINE;
	} else if (is_lost(have)) {
		/* the gap was counted at the loss; from here on the zone may count again */
		if (have->problem == ENERGY_VANISHED || is_possible(zone, advance_uj, elapsed_ns))
			have->problem = ENERGY_FINE;
	} else if (elapsed_ns >= zone_wrap_ns(zone) || have->counter_uj > zone->range_uj) {
		have->gaps++;
	} else if (!is_possible(zone, advance_uj, elapsed_ns)) {
		have->gaps++;
		have->problem = have->problem == ENERGY_DOUBTED ? ENERGY_NONSENSE : ENERGY_DOUBTED;
	} else {
		have->used_uj += advance_uj;
		zone_watch(have, advance_uj, elapsed_ns);
	}
	have->counter_uj = zone->energy_uj;
}

void energy_add(struct energy_snapshot *accumulator, const struct rapl_zone zones[], size_t count, uint64_t now_ns)
{
	bool first = accumulator->zone_count == 0, seen[RAPL_ZONES_MAX] = {false};
	uint64_t elapsed_ns = now_ns - accumulator->at_ns + accumulator->took_ns;

	if (first)
		accumulator->begun_ns = now_ns;
	accumulator->wrap_ns = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		uint32_t at = zone_find(accumulator, zones[i].kind, zones[i].instance, zones[i].name);

		if (zone_wrap_ns(&zones[i]) < accumulator->wrap_ns)
			accumulator->wrap_ns = zone_wrap_ns(&zones[i]);
		if (at == RAPL_ZONES_MAX)
			continue;
		seen[at] = true;
		if (at < accumulator->zone_count)
			zone_add(&accumulator->zone[at], &zones[i], elapsed_ns);
		else
			zone_begin(accumulator, &zones[i], first);
	}
	for (uint32_t i = 0; i < accumulator->zone_count; i++)
		if (!seen[i])
			zone_lose(&accumulator->zone[i], ENERGY_VANISHED);
	accumulator->at_ns = now_ns;
	accumulator->took_ns = 0;
}

/* Identifies the accumulator's file. Returns false if there is none. */
static bool file_identify(int directory, struct energy_file *ret_file)
{
	struct stat status;

	if (fstatat(directory, "energy", &status, AT_SYMLINK_NOFOLLOW))
		return false;
	*ret_file = (struct energy_file){status.st_ino, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
	return true;
}

/*
 * Reads the accumulator. This needs no lock, because the file is renamed whole. An accumulator of another boot, or from
 * the future, counts as none: zone_count is 0. Returns 0, or -errno if the file may be good but could not be read.
 */
static int accumulator_load(int directory, struct energy_snapshot *ret_accumulator)
{
	char boot_id[ENERGY_BOOT_ID_MAX];
	json_auto_t *json = NULL;
	int result = files_read_json(directory, "energy", ENERGY_FILE_MAX, &json);

	if (result == -EACCES || (result && !files_is_bad(result)))
		return result;
	proc_boot_read(boot_id);
	memset(ret_accumulator, 0, sizeof(*ret_accumulator));
	if (!result && energy_from_json(json, ret_accumulator) == 0 && strcmp(ret_accumulator->boot_id, boot_id) == 0 &&
	    ret_accumulator->at_ns <= clock_monotonic_ns())
		return 0;
	memset(ret_accumulator, 0, sizeof(*ret_accumulator));
	memcpy(ret_accumulator->boot_id, boot_id, sizeof(boot_id));
	return 0;
}

/* Reads the file if it changed since this process last wrote or read it. */
static int memory_refresh(int directory, struct energy_memory *memory)
{
	struct energy_file file = {0};
	int result;

	if (file_identify(directory, &file) && memcmp(&file, &memory->file, sizeof(file)) == 0)
		return 0;
	result = accumulator_load(directory, &memory->snapshot);
	if (!result)
		memory->file = file;
	return result;
}

/* Writes the accumulator's file, and keeps in `memory` what was written. Returns 0 or -errno. */
static int accumulator_store(int directory, const struct energy_snapshot *snapshot, struct energy_memory *memory)
{
	unsigned failures = memory_failures();
	json_auto_t *json = energy_to_json(snapshot);
	int result = memory_failures() == failures ? files_write_json(directory, "energy", 0600, json, false) : -ENOMEM;

	if (!result && file_identify(directory, &memory->file))
		memory->snapshot = *snapshot;
	return result;
}

static bool is_young(const struct energy_snapshot *snapshot, uint64_t young_ns)
{
	return snapshot->zone_count > 0 && clock_monotonic_ns() - snapshot->at_ns < young_ns;
}

/*
 * Returns true if the sample must be written although another process holds the lock: nobody added one for so long that
 * a counter could soon wrap. Two writers at once do no harm: each file is right for its time.
 */
static bool is_overdue(const struct energy_snapshot *snapshot, uint64_t now_ns)
{
	return snapshot->zone_count == 0 || now_ns - snapshot->at_ns > snapshot->wrap_ns / 3;
}

/* Readings of the counters, made between begin_ns and end_ns. */
struct sample {
	struct rapl_zone zones[RAPL_ZONES_MAX];
	size_t count;
	uint64_t begin_ns, end_ns;
};

/*
 * Adds the sample to the accumulator. Returns false if another process's sample was read meanwhile. That one is as new,
 * and which of the two saw a counter first is unknown; therefore this one is not added.
 */
static bool sample_add(const struct sample *sample, struct energy_snapshot *accumulator)
{
	if (accumulator->zone_count > 0 && accumulator->at_ns > sample->begin_ns)
		return false;
	energy_add(accumulator, sample->zones, sample->count, sample->end_ns);
	accumulator->took_ns = sample->end_ns - sample->begin_ns;
	snprintf(accumulator->source, sizeof(accumulator->source), "%s", rapl_source());
	return true;
}

/*
 * Adds the sample to the file. The counters were read before the lock is taken: the current sum is the file's plus
 * their advance, whichever process holds the lock. A busy lock costs only the writing of this sample.
 */
static int sample_store(int directory, const struct sample *sample, struct energy_memory *memory,
                        struct energy_snapshot *ret_snapshot)
{
	cleanup_close int lock = openat(directory, "energy.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool begins = memory->snapshot.zone_count == 0;
	bool has_lock = lock >= 0 && files_lock(lock, begins ? BEGIN_WAIT_MS : TRY_MS) == 0;
	int result = memory_refresh(directory, memory);

	if (!result) {
		*ret_snapshot = memory->snapshot;
		if (sample_add(sample, ret_snapshot) && (has_lock || is_overdue(&memory->snapshot, sample->end_ns)))
			result = accumulator_store(directory, ret_snapshot, memory);
	}
	if (has_lock)
		files_unlock(lock);
	return result;
}

static int sample_read(const struct rapl *rapl, struct sample *ret_sample)
{
	ret_sample->begin_ns = clock_monotonic_ns();
	ret_sample->count = rapl_read(rapl, ret_sample->zones);
	ret_sample->end_ns = clock_monotonic_ns();
	return ret_sample->count > 0 ? 0 : -ENODEV;
}

int energy_update(int directory, const struct rapl *rapl, const struct energy_need *need, struct energy_memory *memory,
                  struct energy_snapshot *ret_snapshot, struct error *error)
{
	struct energy_snapshot snapshot;
	struct sample sample;
	int result = memory_refresh(directory, memory);
	bool known = memory->snapshot.zone_count > 0, young = !result && is_young(&memory->snapshot, need->young_ns);
	/* slurmstepd may have dropped its privileges for a moment: the file as this process knows it will do */
	bool is_private = known && (result || young);

	if (young && !need->exact) {
		*ret_snapshot = memory->snapshot;
		return 0;
	}
	if (!result || is_private)
		result = sample_read(rapl, &sample);
	if (!result && is_private) {
		snapshot = memory->snapshot;
		sample_add(&sample, &snapshot);
	} else if (!result) {
		result = sample_store(directory, &sample, memory, &snapshot);
	}
	if (result)
		return error_set(error, result, "energy counters: %s", strerror(-result));
	*ret_snapshot = snapshot;
	return 0;
}

int energy_sample(int directory, struct energy_snapshot *ret_snapshot, struct error *error)
{
	const struct energy_need need = {.exact = true};
	struct energy_memory memory = {.file = {0}};
	struct rapl *rapl = NULL;
	int result = rapl_open(&rapl, error);

	if (!result)
		result = energy_update(directory, rapl, &need, &memory, ret_snapshot, error);
	rapl_close(rapl);
	return result;
}

/*
 * Adds a zone to the window: what it used from start to end. A zone that is missing at the start (NULL) began in the
 * window, with a gap. A zone that counts less than at the start used nothing that is known: the start was not written,
 * and the next sample that was written had a gap.
 */
static void window_add(struct energy_window *window, const struct energy_zone *start, const struct energy_zone *end)
{
	struct energy_zone *zone = &window->zone[window->zone_count++];

	*zone = *end;
	if (!start) {
		zone->gaps++;
	} else if (start->used_uj <= end->used_uj && start->gaps <= end->gaps) {
		zone->used_uj -= start->used_uj;
		zone->gaps -= start->gaps;
	} else {
		zone->used_uj = 0;
		zone->gaps = 1;
	}
	window->mirrored += zone->kind == RAPL_PACKAGE && zone->problem == ENERGY_MIRRORED;
	window->has[end->kind] = true;
	window->kind_uj[end->kind] += zone->used_uj;
	if (zone->gaps > window->gaps)
		window->gaps = zone->gaps;
}

void energy_between(const struct energy_snapshot *from, const struct energy_snapshot *to,
                    struct energy_window *ret_window)
{
	bool same = strcmp(from->boot_id, to->boot_id) == 0 && from->begun_ns == to->begun_ns;

	memset(ret_window, 0, sizeof(*ret_window));
	memcpy(ret_window->source, to->source, sizeof(ret_window->source));
	for (uint32_t i = 0; i < to->zone_count; i++) {
		const struct energy_zone *end = &to->zone[i];
		uint32_t at = zone_find(from, end->kind, end->instance, end->name);

		window_add(ret_window, same && at < from->zone_count ? &from->zone[at] : NULL, end);
	}
}

bool energy_kind_counts(const bool has[RAPL_KIND_COUNT], enum rapl_kind kind)
{
	if (has[RAPL_PACKAGE])
		return kind == RAPL_PACKAGE || kind == RAPL_DRAM;
	return has[RAPL_PSYS] ? kind == RAPL_PSYS : kind == RAPL_DRAM;
}

uint64_t energy_window_uj(const struct energy_window *window)
{
	uint64_t sum_uj = 0;

	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (window->has[kind] && energy_kind_counts(window->has, (enum rapl_kind)kind))
			sum_uj += window->kind_uj[kind];
	return sum_uj;
}

const char *energy_problem_name(enum energy_problem problem)
{
	static const char *const names[ENERGY_PROBLEM_COUNT] = {
	        [ENERGY_VANISHED] = "vanished",
	        [ENERGY_STOPPED] = "stopped",
	        [ENERGY_NONSENSE] = "nonsense",
	};

	return names[problem];
}

/* Fields of a zone's row. Rows are cheaper than objects: with 200 zones each second, most work would be field names. */
#define ZONE_FIELDS 8

static json_t *zone_to_json(const struct energy_zone *zone)
{
	return json_pack("[s, s, I, I, I, I, I, i]", zone->name, rapl_kind_name(zone->kind), (json_int_t)zone->instance,
	                 (json_int_t)zone->counter_uj, (json_int_t)zone->used_uj, (json_int_t)zone->gaps,
	                 (json_int_t)zone->still_ns, (int)zone->problem);
}

json_t *energy_to_json(const struct energy_snapshot *snapshot)
{
	json_t *zones = json_array();

	for (uint32_t i = 0; i < snapshot->zone_count; i++)
		json_array_append_new(zones, zone_to_json(&snapshot->zone[i]));
	return json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "v", FORMAT_VERSION, "boot", snapshot->boot_id,
	                 "source", snapshot->source, "begun_ns", (json_int_t)snapshot->begun_ns, "at_ns",
	                 (json_int_t)snapshot->at_ns, "took_ns", (json_int_t)snapshot->took_ns, "wrap_ns",
	                 (json_int_t)(snapshot->wrap_ns & INT64_MAX), "zones", zones);
}

static bool zone_from_json(const json_t *json, struct energy_zone *ret_zone)
{
	const json_t *value[ZONE_FIELDS];
	uint64_t instance, gaps, problem;
	const char *name, *kind;
	int kind_index;

	for (size_t i = 0; i < ZONE_FIELDS; i++)
		value[i] = json_array_get(json, i);
	name = json_string_value(value[0]);
	kind = json_string_value(value[1]);
	kind_index = kind ? rapl_kind_find(kind) : -1;
	if (json_array_size(json) != ZONE_FIELDS || kind_index < 0 || !name || strlen(name) >= RAPL_NAME_MAX ||
	    !characters_ok(name, RAPL_NAME_LETTERS) || !integer_of(value[2], INT32_MAX, &instance) ||
	    !integer_of(value[3], INT64_MAX, &ret_zone->counter_uj) ||
	    !integer_of(value[4], INT64_MAX, &ret_zone->used_uj) || !integer_of(value[5], INT32_MAX, &gaps) ||
	    !integer_of(value[6], INT64_MAX, &ret_zone->still_ns) ||
	    !integer_of(value[7], ENERGY_PROBLEM_COUNT - 1, &problem))
		return false;
	strcpy(ret_zone->name, name);
	ret_zone->kind = (enum rapl_kind)kind_index;
	ret_zone->instance = (uint32_t)instance;
	ret_zone->gaps = (uint32_t)gaps;
	ret_zone->problem = (enum energy_problem)problem;
	return true;
}

int energy_from_json(const json_t *json, struct energy_snapshot *ret_snapshot)
{
	const json_t *zones = json_object_get(json, "zones");
	struct energy_snapshot snapshot = {0};
	uint64_t version;

	if (!integer_get(json, "v", FORMAT_VERSION, &version) || version != FORMAT_VERSION ||
	    !text_get(json, "boot", snapshot.boot_id, sizeof(snapshot.boot_id), NULL) ||
	    !text_get(json, "source", snapshot.source, sizeof(snapshot.source), NULL) ||
	    !integer_get(json, "begun_ns", INT64_MAX, &snapshot.begun_ns) ||
	    !integer_get(json, "at_ns", INT64_MAX, &snapshot.at_ns) ||
	    !integer_maybe(json, "took_ns", INT64_MAX, &snapshot.took_ns) ||
	    !integer_get(json, "wrap_ns", INT64_MAX, &snapshot.wrap_ns) || !json_is_array(zones) ||
	    json_array_size(zones) > RAPL_ZONES_MAX)
		return -EINVAL;
	for (; snapshot.zone_count < json_array_size(zones); snapshot.zone_count++)
		if (!zone_from_json(json_array_get(zones, snapshot.zone_count), &snapshot.zone[snapshot.zone_count]))
			return -EINVAL;
	*ret_snapshot = snapshot;
	return 0;
}
