#include "spank/node/meters_ask.h"

#include "spank/base/cleanup.h"
#include "spank/base/detach.h"
#include "spank/base/files.h"
#include "spank/base/memory.h"
#include "spank/base/text.h"
#include "spank/machine/board.h"
#include "spank/machine/gpus.h"
#include "spank/machine/hwmon.h"
#include "spank/node/upkeep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#define ANSWER_MAX   (32 * 1024)
#define ANSWER_MS    ((METERS_ALARM_S + 1) * 1000)
#define LOCK_MS      3000
#define KEPT_FILE    "meters"
#define KEPT_MAX     (2 * ANSWER_MAX)
#define ARGUMENT_MAX 64
#define NANO_PER_MS  UINT64_C(1000000)

/* Waits until `end` is readable. Returns false if the deadline passes first. */
static bool wait_readable(int end, uint64_t deadline_ns)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct pollfd poll_end = {.fd = end, .events = POLLIN};
	int result;

	do {
		if (now_ns >= deadline_ns)
			return false;
		result = poll(&poll_end, 1, (int)((deadline_ns - now_ns) / NANO_PER_MS) + 1);
		now_ns = clock_monotonic_ns();
	} while (result < 0 && errno == EINTR);
	return result > 0;
}

/* Reads until the writer closes its end. Returns the length, or -ETIMEDOUT, -EFBIG or -errno. */
static ssize_t answer_read(int end, char text[ANSWER_MAX])
{
	uint64_t deadline_ns = clock_monotonic_ns() + ANSWER_MS * NANO_PER_MS;
	size_t length = 0;

	while (length < ANSWER_MAX) {
		ssize_t count;

		if (!wait_readable(end, deadline_ns))
			return -ETIMEDOUT;
		count = read(end, text + length, ANSWER_MAX - length);
		if (count == 0)
			return (ssize_t)length;
		if (count < 0 && errno != EINTR)
			return -errno;
		length += count > 0 ? (size_t)count : 0;
	}
	return -EFBIG;
}

/* Starts the reader, which holds the lock while it lives. Returns the pipe's end with its answer, or -errno. */
static int reader_start(int lock, char *sources)
{
	static char verb[] = "meters", path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", helper[] = MPIWAIT_HELPER;
	char *command[] = {helper, verb, sources, NULL}, *environment[] = {path, NULL};
	int ends[2], result = pipe2(ends, O_CLOEXEC) ? -errno : 0;
	cleanup_close int begin = result ? -1 : ends[1], end = result ? -1 : ends[0];

	if (!result)
		result = detach_start(helper, command, environment, &(struct detach_files){begin, lock});
	return result ? result : take_descriptor(&end);
}

/* Asks the reader for the meters. Returns NULL, or why there is no answer. */
static const char *ask(int lock, char *sources, struct meters *ret_meters)
{
	cleanup_close int end = reader_start(lock, sources);
	cleanup_free char *text = malloc(ANSWER_MAX);
	ssize_t length = text && end >= 0 ? answer_read(end, text) : -ENOMEM;
	json_auto_t *json = NULL;

	if (end < 0)
		return "the meters' reader could not be started";
	if (length == -ETIMEDOUT || length == 0)
		return "a meter's driver hangs or crashed";
	if (length > 0)
		json = memory_json(text, (size_t)length, JSON_REJECT_DUPLICATES);
	if (!json || meters_from_json(json, ret_meters))
		return "the meters' reader failed";
	return NULL;
}

/*
 * Writes the site argument "energy=cray+nvml" for the sources that are wanted and present. Returns false if there is
 * none.
 */
static bool sources_choose(const struct meters_wanted *wanted, char argument[ARGUMENT_MAX])
{
	uint32_t minor;
	const bool there[METER_SOURCE_COUNT] = {
	        [METER_NVML] = wanted->gpus && gpus_of_nvidia() > 0,
	        [METER_CRAY] = board_there(),
	        [METER_HWMON] = hwmon_there(),
	        [METER_RSMI] = wanted->gpus && gpus_of_amd() > 0,
	        [METER_INTEL] = wanted->gpus && gpus_of_intel(&minor, 1) > 0,
	};
	bool has_some = false;

	strcpy(argument, "energy=");
	for (int source = 0; source < METER_SOURCE_COUNT; source++) {
		if (!there[source] || !meter_source_is_wanted(wanted->sources, (enum meter_source)source))
			continue;
		text_add(argument, ARGUMENT_MAX, "%s%s", has_some ? "+" : "",
		         meter_source_name((enum meter_source)source));
		has_some = true;
	}
	return has_some;
}

/* Marks Intel's counters with the time since when they have been read without a gap. */
static void intel_mark(int directory, struct meters *meters)
{
	uint64_t since_us = 0;

	for (uint32_t i = 0; i < meters->count; i++)
		if (meters->meter[i].source == METER_INTEL)
			meters->meter[i].mark = since_us = since_us ? since_us : upkeep_note(directory);
}

void meters_keep(int directory)
{
	struct meters meters;

	if (upkeep_is_due(directory))
		meters_ask(directory, &(struct meters_wanted){meter_source_name(METER_INTEL), true}, &meters);
}

/* Keeps an answer for those who asked before began_ns (CLOCK_BOOTTIME), when its reader was started. */
static void answer_keep(int directory, const char *sources, uint64_t began_ns, const struct meters *meters)
{
	json_auto_t *json = json_pack("{s:I, s:s, s:o}", "began_ns", (json_int_t)began_ns, "sources", sources, "meters",
	                              meters_to_json(meters));

	if (json)
		files_write_json(directory, KEPT_FILE, 0600, json, false);
}

/* Finds the kept answer, if it has those sources and its reader was started after asked_ns. */
static bool answer_find(int directory, const char *sources, uint64_t asked_ns, struct meters *ret_meters)
{
	json_auto_t *json = NULL;
	uint64_t began_ns;
	const char *kept;

	if (files_read_json(directory, KEPT_FILE, KEPT_MAX, &json) ||
	    !integer_get(json, "began_ns", INT64_MAX, &began_ns) || began_ns <= asked_ns)
		return false;
	kept = json_string_value(json_object_get(json, "sources"));
	return kept && strcmp(kept, sources) == 0 && meters_from_json(json_object_get(json, "meters"), ret_meters) == 0;
}

/* Asks the reader under the lock, and keeps its answer. Returns as `ask`. */
static const char *ask_locked(int directory, int lock, char *sources, struct meters *ret_meters)
{
	uint64_t began_ns = clock_ns(CLOCK_BOOTTIME);
	const char *why = ask(lock, sources, ret_meters);

	if (why)
		return why; /* a reader that hangs shares the lock and keeps it: unlocking would take it from the reader
		             */
	intel_mark(directory, ret_meters);
	answer_keep(directory, sources, began_ns, ret_meters);
	files_unlock(lock);
	return NULL;
}

void meters_ask(int directory, const struct meters_wanted *wanted, struct meters *ret_meters)
{
	uint64_t asked_ns = clock_ns(CLOCK_BOOTTIME);
	char argument[ARGUMENT_MAX];
	cleanup_close int lock = -1;
	const char *why = NULL;
	bool has_lock;

	memset(ret_meters, 0, sizeof(*ret_meters));
	if (!sources_choose(wanted, argument))
		return;
	lock = openat(directory, "meters.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	has_lock = lock >= 0 && files_lock(lock, LOCK_MS) == 0;
	if (!answer_find(directory, argument, asked_ns, ret_meters))
		why = has_lock ? ask_locked(directory, lock, argument, ret_meters)
		               : "another reader of the meters hangs";
	else if (has_lock)
		files_unlock(lock);
	if (why)
		snprintf(ret_meters->why, sizeof(ret_meters->why), "%s", why);
}
