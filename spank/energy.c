#include "spank/energy.h"

#include "spank/cleanup.h"
#include "spank/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>

#define FORMAT_VERSION 1
#define LOCK_TRIES     100
#define LOCK_PAUSE_NS  20000000

static void boot_id_read(char boot_id[ENERGY_BOOT_ID_MAX])
{
	cleanup_close int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? 0 : read(file, boot_id, ENERGY_BOOT_ID_MAX - 1);

	boot_id[length > 0 ? length : 0] = '\0';
	boot_id[strcspn(boot_id, "\n")] = '\0';
}

static struct energy_zone *zone_find(struct energy_snapshot *accumulator, const struct rapl_zone *zone)
{
	for (uint32_t i = 0; i < accumulator->zone_count; i++) {
		struct energy_zone *have = &accumulator->zone[i];

		if (have->kind == zone->kind && have->instance == zone->instance && strcmp(have->name, zone->name) == 0)
			return have;
	}
	return NULL;
}

static void zone_begin(struct energy_snapshot *accumulator, const struct rapl_zone *zone, bool first)
{
	struct energy_zone *new_zone;

	if (accumulator->zone_count >= RAPL_ZONES_MAX)
		return;
	new_zone = &accumulator->zone[accumulator->zone_count++];
	*new_zone = (struct energy_zone){
	        .kind = zone->kind,
	        .instance = zone->instance,
	        .counter_uj = zone->energy_uj,
	        .gaps = first ? 0 : 1,
	};
	memcpy(new_zone->name, zone->name, sizeof(new_zone->name));
}

static uint64_t zone_wrap_ns(const struct rapl_zone *zone)
{
	return (uint64_t)((double)zone->range_uj / (double)zone->power_max_uw * 1e9);
}

static void zone_add(struct energy_zone *have, const struct rapl_zone *zone, uint64_t elapsed_ns)
{
	bool wrapped = zone->energy_uj < have->counter_uj;

	if (elapsed_ns >= zone_wrap_ns(zone) || have->counter_uj > zone->range_uj)
		have->gaps++;
	else if (wrapped)
		have->total_uj += zone->range_uj - have->counter_uj + zone->energy_uj;
	else
		have->total_uj += zone->energy_uj - have->counter_uj;
	have->counter_uj = zone->energy_uj;
}

void energy_add(struct energy_snapshot *accumulator, const struct rapl_zone zones[], size_t count, uint64_t now_ns)
{
	bool first = accumulator->zone_count == 0;
	uint64_t elapsed_ns = now_ns - accumulator->at_ns;

	if (first)
		accumulator->begun_ns = now_ns;
	accumulator->wrap_ns = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		struct energy_zone *have = zone_find(accumulator, &zones[i]);

		if (have)
			zone_add(have, &zones[i], elapsed_ns);
		else
			zone_begin(accumulator, &zones[i], first);
		if (zone_wrap_ns(&zones[i]) < accumulator->wrap_ns)
			accumulator->wrap_ns = zone_wrap_ns(&zones[i]);
	}
	accumulator->at_ns = now_ns;
}

/* An accumulator that a later boot, or time running backwards, makes useless counts as none. */
static void accumulator_load(int directory, struct energy_snapshot *ret_accumulator)
{
	char boot_id[ENERGY_BOOT_ID_MAX];
	json_auto_t *json = NULL;

	boot_id_read(boot_id);
	memset(ret_accumulator, 0, sizeof(*ret_accumulator));
	if (files_read_json(directory, "energy", ENERGY_FILE_MAX, &json) == 0 &&
	    energy_from_json(json, ret_accumulator) == 0 && strcmp(ret_accumulator->boot_id, boot_id) == 0 &&
	    ret_accumulator->at_ns <= clock_monotonic_ns())
		return;
	memset(ret_accumulator, 0, sizeof(*ret_accumulator));
	memcpy(ret_accumulator->boot_id, boot_id, sizeof(boot_id));
}

static int lock_take(int directory)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	cleanup_close int lock = openat(directory, "energy.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (lock < 0)
		return -errno;
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(lock, LOCK_EX | LOCK_NB) == 0)
			return take_descriptor(&lock);
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

static int accumulator_update(int directory, const struct rapl *rapl, struct energy_snapshot *ret_snapshot)
{
	struct rapl_zone zones[RAPL_ZONES_MAX];
	json_auto_t *json = NULL;
	size_t count;

	accumulator_load(directory, ret_snapshot);
	count = rapl_read(rapl, zones);
	if (count == 0)
		return -ENODEV;
	energy_add(ret_snapshot, zones, count, clock_monotonic_ns());
	snprintf(ret_snapshot->source, sizeof(ret_snapshot->source), "%s", rapl_source());
	json = energy_to_json(ret_snapshot);
	return json ? files_write_json(directory, "energy", 0600, json, false) : -ENOMEM;
}

int energy_update(int directory, const struct rapl *rapl, struct energy_snapshot *ret_snapshot, struct error *error)
{
	struct energy_snapshot snapshot;
	cleanup_close int lock = lock_take(directory);
	int result;

	if (lock < 0)
		return error_set(error, lock, "lock of the energy accumulator: %s", strerror(-lock));
	result = accumulator_update(directory, rapl, &snapshot);
	/* said, not left to close: a child forked meanwhile still holds the description until its exec */
	flock(lock, LOCK_UN);
	if (result)
		return error_set(error, result, "energy counters: %s", strerror(-result));
	*ret_snapshot = snapshot;
	return 0;
}

static const struct energy_zone *zone_same(const struct energy_snapshot *snapshot, const struct energy_zone *zone)
{
	for (uint32_t i = 0; i < snapshot->zone_count; i++) {
		const struct energy_zone *have = &snapshot->zone[i];

		if (have->kind == zone->kind && have->instance == zone->instance && strcmp(have->name, zone->name) == 0)
			return have;
	}
	return NULL;
}

void energy_between(const struct energy_snapshot *from, const struct energy_snapshot *to,
                    struct energy_window *ret_window)
{
	bool same = strcmp(from->boot_id, to->boot_id) == 0 && from->begun_ns == to->begun_ns;

	memset(ret_window, 0, sizeof(*ret_window));
	memcpy(ret_window->source, to->source, sizeof(ret_window->source));
	for (uint32_t i = 0; i < to->zone_count; i++) {
		const struct energy_zone *end = &to->zone[i];
		const struct energy_zone *start = same ? zone_same(from, end) : NULL;
		bool sane = start && start->total_uj <= end->total_uj && start->gaps <= end->gaps;
		uint32_t gaps = sane ? end->gaps - start->gaps : end->gaps + 1;

		ret_window->has[end->kind] = true;
		ret_window->kind_uj[end->kind] += end->total_uj - (sane ? start->total_uj : 0);
		if (gaps > ret_window->gaps)
			ret_window->gaps = gaps;
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

json_t *energy_to_json(const struct energy_snapshot *snapshot)
{
	json_t *zones = json_array();

	for (uint32_t i = 0; i < snapshot->zone_count; i++) {
		const struct energy_zone *zone = &snapshot->zone[i];

		json_array_append_new(zones,
		                      json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "name", zone->name, "kind",
		                                rapl_kind_name(zone->kind), "instance", (json_int_t)zone->instance,
		                                "counter_uj", (json_int_t)zone->counter_uj, "total_uj",
		                                (json_int_t)zone->total_uj, "gaps", (json_int_t)zone->gaps));
	}
	return json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:o}", "v", FORMAT_VERSION, "boot", snapshot->boot_id,
	                 "source", snapshot->source, "begun_ns", (json_int_t)snapshot->begun_ns, "at_ns",
	                 (json_int_t)snapshot->at_ns, "wrap_ns", (json_int_t)(snapshot->wrap_ns & INT64_MAX), "zones",
	                 zones);
}

static int zone_from_json(json_t *json, struct energy_zone *ret_zone)
{
	const char *name, *kind;
	json_int_t instance, counter, total, gaps;
	int kind_index;

	if (json_unpack(json, "{s:s, s:s, s:I, s:I, s:I, s:I}", "name", &name, "kind", &kind, "instance", &instance,
	                "counter_uj", &counter, "total_uj", &total, "gaps", &gaps))
		return -EINVAL;
	kind_index = rapl_kind_find(kind);
	if (kind_index < 0 || strlen(name) >= RAPL_NAME_MAX || instance < 0 || instance > INT32_MAX || counter < 0 ||
	    total < 0 || gaps < 0 || gaps > INT32_MAX)
		return -EINVAL;
	*ret_zone = (struct energy_zone){
	        .kind = (enum rapl_kind)kind_index,
	        .instance = (uint32_t)instance,
	        .counter_uj = (uint64_t)counter,
	        .total_uj = (uint64_t)total,
	        .gaps = (uint32_t)gaps,
	};
	strcpy(ret_zone->name, name);
	return 0;
}

int energy_from_json(const json_t *json, struct energy_snapshot *ret_snapshot)
{
	struct energy_snapshot snapshot = {0};
	const char *boot, *source;
	json_int_t begun, at, wrap;
	json_t *zones, *zone;
	int version;
	size_t i;

	if (json_unpack((json_t *)json, "{s:i, s:s, s:s, s:I, s:I, s:I, s:o}", "v", &version, "boot", &boot, "source",
	                &source, "begun_ns", &begun, "at_ns", &at, "wrap_ns", &wrap, "zones", &zones))
		return -EINVAL;
	if (version != FORMAT_VERSION || strlen(boot) >= sizeof(snapshot.boot_id) ||
	    strlen(source) >= sizeof(snapshot.source) || begun < 0 || at < 0 || wrap < 0 || !json_is_array(zones) ||
	    json_array_size(zones) > RAPL_ZONES_MAX)
		return -EINVAL;
	strcpy(snapshot.boot_id, boot);
	strcpy(snapshot.source, source);
	snapshot.begun_ns = (uint64_t)begun;
	snapshot.at_ns = (uint64_t)at;
	snapshot.wrap_ns = (uint64_t)wrap;
	json_array_foreach(zones, i,
	                   zone) if (zone_from_json(zone, &snapshot.zone[snapshot.zone_count++])) return -EINVAL;
	*ret_snapshot = snapshot;
	return 0;
}
