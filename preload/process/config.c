/*
 * Parses MPI_WAIT_CONFIG. Invariant: strict. A text that is not wholly understood makes the library inert, so that a
 * library and a plugin of different releases never half understand each other.
 */
#include "preload/process/config.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "preload/contract/program_name.h"

#define SPAN_NS     UINT64_C(3600000000000) /* an hour: no time in a policy is longer */
#define EVENT_NS    UINT64_C(10000000)
#define TSC_KHZ_MAX UINT64_C(100000000) /* 100 GHz */
#define RANKS_MAX   UINT64_C(16777216)

const char config_rung_names[MPIWAIT_RUNG_COUNT][CONFIG_RUNG_BYTES] = {
#define RUNG(constant, name, ...) name,
#include "preload/contract/rungs.def"
};

/* A piece of the text, without a terminator. */
struct span {
	const char *at;
	size_t length;
};

static struct span span_until(const char **cursor, const char *end, char separator)
{
	const char *at = *cursor;
	const char *stop = memchr(at, separator, (size_t)(end - at));

	if (!stop)
		stop = end;
	*cursor = stop < end ? stop + 1 : end;
	return (struct span){at, (size_t)(stop - at)};
}

static bool span_is(struct span span, const char *text)
{
	return strlen(text) == span.length && memcmp(span.at, text, span.length) == 0;
}

static bool number_parse(struct span span, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (span.length == 0 || span.length > 19)
		return false;
	for (size_t i = 0; i < span.length; i++) {
		if (span.at[i] < '0' || span.at[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(span.at[i] - '0');
	}
	if (value > max)
		return false;
	*ret = value;
	return true;
}

static bool flag_parse(struct span span, bool *ret)
{
	uint64_t value;

	if (!number_parse(span, 1, &value))
		return false;
	*ret = value == 1;
	return true;
}

static int rung_by_name(struct span name)
{
	for (int rung = 0; rung < (int)MPIWAIT_RUNG_COUNT; rung++)
		if (span_is(name, config_rung_names[rung]))
			return rung;
	return -1;
}

static bool rungs_parse(struct span span, uint32_t *ret)
{
	const char *cursor = span.at, *end = span.at + span.length;
	uint32_t rungs = 0;

	if (span_is(span, "none")) {
		*ret = 0;
		return true;
	}
	if (span.length == 0 || end[-1] == '+')
		return false;
	while (cursor < end) {
		struct span name = span_until(&cursor, end, '+');
		int rung = rung_by_name(name);

		if (rung < 0 || rungs & (1u << rung))
			return false;
		rungs |= 1u << rung;
	}
	*ret = rungs;
	return true;
}

/* Parses the next number of a list with colons. Returns false at the end of the list. */
static bool next_number(const char **cursor, const char *end, uint64_t max, uint64_t *ret)
{
	return *cursor < end && number_parse(span_until(cursor, end, ':'), max, ret);
}

/* Parses FD:DEV:INO. */
static bool descriptor_parse(struct span span, int *ret_fd, uint64_t *ret_dev, uint64_t *ret_ino)
{
	const char *cursor = span.at, *end = span.at + span.length;
	uint64_t fd;

	if (span.length == 0 || end[-1] == ':' || !next_number(&cursor, end, INT32_MAX, &fd) ||
	    !next_number(&cursor, end, INT64_MAX, ret_dev) || !next_number(&cursor, end, INT64_MAX, ret_ino))
		return false;
	*ret_fd = (int)fd;
	return cursor == end;
}

/* Parses ID:KEY. */
static bool notes_parse(struct span span, struct config *config)
{
	const char *cursor = span.at, *end = span.at + span.length;
	uint64_t id;

	if (span.length == 0 || end[-1] == ':' || !next_number(&cursor, end, INT32_MAX, &id) ||
	    !next_number(&cursor, end, INT64_MAX, &config->notes_key))
		return false;
	config->notes_id = (int)id;
	return cursor == end;
}

static bool cpufreq_parse(struct span span, struct config *config)
{
	const char *cursor = span.at, *end = span.at + span.length;
	bool leased = span_is(span_until(&cursor, end, ':'), "lease");
	struct span board = {cursor, (size_t)(end - cursor)};

	return leased && descriptor_parse(board, &config->cpufreq_fd, &config->cpufreq_dev, &config->cpufreq_ino);
}

/* Parses ranges of tasks, "4-7,12", each below the number of tasks. */
static bool ranges_parse(const char *cursor, const char *end, struct config_near *near)
{
	while (cursor < end && near->ranges < CONFIG_NEAR_MAX) {
		struct span range = span_until(&cursor, end, ',');
		const char *inside = range.at, *stop = range.at + range.length;
		struct span first = span_until(&inside, stop, '-');
		struct span last = first.length < range.length ? (struct span){inside, (size_t)(stop - inside)} : first;
		uint64_t from, to;

		if (!number_parse(first, near->size - 1, &from) || !number_parse(last, near->size - 1, &to) ||
		    from > to)
			return false;
		near->range[near->ranges++] = (struct config_range){(uint32_t)from, (uint32_t)to};
	}
	return cursor == end && near->ranges > 0;
}

static bool near_parse(struct span span, struct config_near *near)
{
	const char *cursor = span.at, *end = span.at + span.length;
	uint64_t size, rank;

	if (span.length == 0 || end[-1] == ',' || !next_number(&cursor, end, RANKS_MAX, &size) || size == 0 ||
	    !next_number(&cursor, end, size - 1, &rank))
		return false;
	near->size = (uint32_t)size;
	near->rank = (uint32_t)rank;
	return ranges_parse(cursor, end, near);
}

enum field {
	VERSION,
	RUNGS,
	SPIN,
	RELATIVE,
	ABSOLUTE,
	MAX,
	RMA,
	EVENT,
	SLOWDOWN,
	SHARED,
	PROFILE,
	IBARRIER,
	POLLS,
	SITES,
	OFF,
	TSC,
	UMWAIT_MAX,
	UMWAIT_C02,
	PSTATE_AFTER,
	/* things that the task was given; no policy has them */
	GIVEN,
	PATH = GIVEN,
	SEGMENT,
	TASK,
	NOTES,
	CPUFREQ,
	NEAR,
	FIELDS
};

static const char *const field_names[FIELDS] = {
        [VERSION] = "v",
        [RUNGS] = "rungs",
        [SPIN] = "spin_ns",
        [RELATIVE] = "relative_ppm",
        [ABSOLUTE] = "absolute_ns",
        [MAX] = "max_ns",
        [RMA] = "rma_ns",
        [EVENT] = "event_ns",
        [SLOWDOWN] = "slowdown_ppm",
        [SHARED] = "shared",
        [PROFILE] = "profile",
        [IBARRIER] = "ibarrier",
        [POLLS] = "polls",
        [SITES] = "sites",
        [OFF] = "off",
        [PATH] = "path",
        [TSC] = "tsc_khz",
        [UMWAIT_MAX] = "umwait_max_ns",
        [UMWAIT_C02] = "umwait_c02",
        [SEGMENT] = "segment",
        [TASK] = "task",
        [NOTES] = "notes",
        [PSTATE_AFTER] = "pstate_after_ns",
        [CPUFREQ] = "cpufreq",
        [NEAR] = "near",
};

/* Parses one of the things that the task was given. */
static bool given_parse(enum field field, struct span value, struct config *config)
{
	uint64_t number;

	switch (field) {
	case PATH:
		return flag_parse(value, &config->path);
	case SEGMENT:
		return descriptor_parse(value, &config->segment_fd, &config->segment_dev, &config->segment_ino);
	case TASK:
		if (!number_parse(value, INT32_MAX, &number))
			return false;
		config->task_pid = (int32_t)number;
		return number > 0;
	case NOTES:
		return notes_parse(value, config);
	case CPUFREQ:
		return cpufreq_parse(value, config);
	case NEAR:
		return near_parse(value, &config->near);
	default:
		return false;
	}
}

/* Parses the value of any field. */
static bool field_parse(enum field field, struct span value, struct config *config)
{
	switch (field) {
	case VERSION:
		return span_is(value, "1");
	case RUNGS:
		return rungs_parse(value, &config->rungs);
	case SPIN:
		return number_parse(value, SPAN_NS, &config->spin_ns);
	case RELATIVE:
		return number_parse(value, 1000000, &config->relative_ppm);
	case ABSOLUTE:
		return number_parse(value, SPAN_NS, &config->absolute_ns);
	case MAX:
		return number_parse(value, SPAN_NS, &config->max_ns);
	case RMA:
		return number_parse(value, SPAN_NS, &config->rma_ns);
	case EVENT:
		return number_parse(value, SPAN_NS, &config->event_ns);
	case SLOWDOWN:
		return number_parse(value, 1000000, &config->slowdown_ppm) && config->slowdown_ppm > 0;
	case SHARED:
		return flag_parse(value, &config->shared);
	case PROFILE:
		return flag_parse(value, &config->profile);
	case IBARRIER:
		return flag_parse(value, &config->ibarrier);
	case POLLS:
		return flag_parse(value, &config->polls);
	case SITES:
		return flag_parse(value, &config->sites);
	case OFF:
		return flag_parse(value, &config->off);
	case TSC:
		return number_parse(value, TSC_KHZ_MAX, &config->tsc_khz);
	case UMWAIT_MAX:
		return number_parse(value, SPAN_NS, &config->umwait_max_ns);
	case UMWAIT_C02:
		return flag_parse(value, &config->umwait_c02);
	case PSTATE_AFTER:
		return number_parse(value, SPAN_NS, &config->pstate_after_ns);
	default:
		return given_parse(field, value, config);
	}
}

static int field_by_name(struct span name)
{
	for (int field = 0; field < FIELDS; field++)
		if (span_is(name, field_names[field]))
			return field;
	return -1;
}

static const struct config nothing = {.segment_fd = -1, .notes_id = -1, .event_ns = EVENT_NS, .cpufreq_fd = -1};

/* Parses fields into *ret_config, of those in the enum before `fields` alone. Returns false if anything is wrong. */
static bool fields_parse(struct span text, int fields, struct config *ret_config)
{
	const char *cursor = text.at, *end = text.at + text.length;
	uint32_t seen = 0;

	*ret_config = nothing;
	while (cursor < end) {
		struct span value = span_until(&cursor, end, ';');
		const char *inside = value.at, *stop = value.at + value.length;
		struct span name = span_until(&inside, stop, '=');
		int field = field_by_name(name);

		if (field < 0 || field >= fields || name.length == value.length || seen & (1u << field) ||
		    (seen == 0) != (field == VERSION))
			return false;
		value = (struct span){inside, (size_t)(stop - inside)};
		if (!field_parse((enum field)field, value, ret_config))
			return false;
		seen |= 1u << field;
	}
	return seen & 1u << VERSION && seen & 1u << RUNGS && !(seen & 1u << TASK && ret_config->segment_fd < 0);
}

/* Parses NAME:NUMBER,... *ret_number is that of the first pattern that the program matches, 0 for none. */
static bool names_parse(struct span text, const char *program, uint32_t count, uint32_t *ret_number)
{
	const char *cursor = text.at, *end = text.at + text.length;

	*ret_number = 0;
	if (text.length == 0 || end[-1] == ',')
		return false;
	while (cursor < end) {
		struct span entry = span_until(&cursor, end, ',');
		const char *inside = entry.at, *stop = entry.at + entry.length;
		struct span name = span_until(&inside, stop, ':');
		uint64_t number;

		if (name.length == 0 || name.length >= CONFIG_PROGRAM_MAX ||
		    !number_parse((struct span){inside, (size_t)(stop - inside)}, count, &number) || number == 0)
			return false;
		if (*ret_number == 0 && program_name_matches(name.at, name.length, program))
			*ret_number = (uint32_t)number;
	}
	return true;
}

/* Replaces the policy in *config by the one with that number. What the task was given stays. */
static bool policy_take(struct span text, uint32_t number, struct config *config)
{
	struct config chosen;

	if (!fields_parse(text, GIVEN, &chosen))
		return false;
	chosen.path = config->path;
	chosen.segment_fd = config->segment_fd;
	chosen.segment_dev = config->segment_dev;
	chosen.segment_ino = config->segment_ino;
	chosen.task_pid = config->task_pid;
	chosen.notes_id = config->notes_id;
	chosen.notes_key = config->notes_key;
	chosen.cpufreq_fd = config->cpufreq_fd;
	chosen.cpufreq_dev = config->cpufreq_dev;
	chosen.cpufreq_ino = config->cpufreq_ino;
	chosen.near = config->near;
	chosen.program = number;
	*config = chosen;
	return true;
}

/* Parses the policies to choose from, and the names behind them. Takes the program's policy into *config. */
static bool choices_parse(struct span text, const char *program, struct config *config)
{
	const char *cursor = text.at, *end = text.at + text.length;
	struct span policy[CONFIG_CHOICES_MAX], part = span_until(&cursor, end, '|');
	struct config unused;
	uint32_t count = 0, number;

	for (; cursor < end && count < CONFIG_CHOICES_MAX; part = span_until(&cursor, end, '|'))
		policy[count++] = part;
	if (cursor < end || end[-1] == '|' || !names_parse(part, program, count, &number))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!fields_parse(policy[i], GIVEN, &unused))
			return false;
	return number == 0 || policy_take(policy[number - 1], number, config);
}

int config_parse(const char *text, const char *program, struct config *ret_config)
{
	const char *cursor = text, *end = text + strlen(text);
	struct span step = span_until(&cursor, end, '|');
	struct config config;

	if (!fields_parse(step, FIELDS, &config))
		return -EINVAL;
	if (step.at + step.length < end &&
	    (cursor == end || !choices_parse((struct span){cursor, (size_t)(end - cursor)}, program, &config)))
		return -EINVAL;
	*ret_config = config;
	return 0;
}
