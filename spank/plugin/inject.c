#include "spank/plugin/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/contract/config_format.h"
#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"
#include "spank/machine/topology.h"
#include "spank/plugin/program.h"
#include "spank/policy/openmp.h"
#include "spank/policy/preload_list.h"
#include "spank/policy/sanitizer.h"
#include "spank/policy/wrappers.h"

#define PRELOAD     "LD_PRELOAD"
#define VALUE_MAX   (1 << 20)
#define SEGMENT_MAX 96
#define NEAR_MAX    2048
#define NOTES_MAX   48
#define SEARCH_MAX  8192

/*
 * Container runtimes that hand descriptors on. Others (podman, runc, shifter) close the descriptors that they did not
 * open. They get the path, and a bind mount makes it valid.
 */
static const char *const runtimes[] = {"apptainer", "singularity", "enroot", "ch-run"};

/*
 * Reads a variable of the task. The caller frees *ret_value, which is "" if the task has no such variable. Returns 0,
 * -ENOMEM or -E2BIG.
 */
static int variable_read(spank_t spank, const char *name, char **ret_value)
{
	cleanup_free char *value = malloc(VALUE_MAX);
	spank_err_t found;

	if (!value)
		return -ENOMEM;
	found = spank_getenv(spank, name, value, VALUE_MAX);
	if (found == ESPANK_NOSPACE)
		return -E2BIG;
	if (found != ESPANK_SUCCESS)
		value[0] = '\0';
	*ret_value = take_pointer(value);
	return 0;
}

/* Sets a variable of the task; unsets it if the value is empty. */
static void variable_write(spank_t spank, const char *name, const char *value)
{
	if (value[0])
		spank_setenv(spank, name, value, 1);
	else
		spank_unsetenv(spank, name);
}

/* Takes our library out of LD_PRELOAD. The caller frees *ret_others: what else the task preloads, "" for nothing. */
static int preload_clean(spank_t spank, char **ret_others)
{
	cleanup_free char *value = NULL;
	size_t length;
	int rc = variable_read(spank, PRELOAD, &value);

	if (rc < 0)
		return rc;
	length = strlen(value);
	preload_list_strip(value);
	if (strlen(value) < length)
		variable_write(spank, PRELOAD, value);
	*ret_others = take_pointer(value);
	return 0;
}

/* Takes from ASAN_OPTIONS what an outer step of ours has added. */
static void sanitizer_clean(spank_t spank)
{
	cleanup_free char *options = NULL;
	char mark[2];

	if (spank_getenv(spank, SANITIZER_MARK, mark, sizeof(mark)) == ESPANK_SUCCESS &&
	    variable_read(spank, SANITIZER_VARIABLE, &options) == 0 && sanitizer_remove(options))
		variable_write(spank, SANITIZER_VARIABLE, options);
	spank_unsetenv(spank, SANITIZER_MARK);
}

static void sanitizer_set(spank_t spank)
{
	cleanup_free char *options = NULL, *told = NULL;

	if (variable_read(spank, SANITIZER_VARIABLE, &options) < 0 || sanitizer_is_told(options))
		return;
	told = sanitizer_add(options);
	/* The mark first: without it an inner step would take ours for the user's. */
	if (told && spank_setenv(spank, SANITIZER_MARK, "1", 1) == ESPANK_SUCCESS)
		spank_setenv(spank, SANITIZER_VARIABLE, told, 1);
}

/* Unsets the OpenMP variables that still have the value which an outer step of ours gave them. */
static void threads_clean(spank_t spank)
{
	char ours[OPENMP_TEXT_MAX], value[OPENMP_VALUE_MAX];

	if (spank_getenv(spank, OPENMP_VARIABLE, ours, sizeof(ours)) == ESPANK_SUCCESS)
		for (unsigned i = 0; i < OPENMP_VARIABLES; i++)
			if (spank_getenv(spank, openmp_name(i), value, sizeof(value)) == ESPANK_SUCCESS &&
			    openmp_is_ours(ours, i, value))
				spank_unsetenv(spank, openmp_name(i));
	spank_unsetenv(spank, OPENMP_VARIABLE);
}

/* Returns the number of CPUs of this task, which is bound by now; 0: unknown. */
static uint32_t cpus_count(void)
{
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	return cpus && topology_get_affinity(0, cpus) == 0 ? (uint32_t)hwloc_bitmap_weight(cpus) : 0;
}

static void threads_set(spank_t spank, const struct injection *injection, const char *program)
{
	enum site_threads threads = injection->threads;
	struct openmp_settings settings;
	char value[2], count[OPENMP_VALUE_MAX];
	uint32_t set = 0;

	if (openmp_is_daemon(program))
		return;
	for (unsigned i = 0; i < OPENMP_VARIABLES; i++)
		if (spank_getenv(spank, openmp_name(i), value, sizeof(value)) != ESPANK_ENV_NOEXIST)
			set |= 1u << i;
	if (spank_getenv(spank, OPENMP_COUNT, count, sizeof(count)) == ESPANK_SUCCESS)
		threads = openmp_waits(threads, count, cpus_count());
	openmp_choose(threads, set, injection->spins, &settings);
	/* The mark first: without it an inner step would take ours for the user's. */
	if (!settings.text[0] || spank_setenv(spank, OPENMP_VARIABLE, settings.text, 1) != ESPANK_SUCCESS)
		return;
	for (unsigned i = 0; i < OPENMP_VARIABLES; i++)
		if (settings.value[i][0])
			spank_setenv(spank, openmp_name(i), settings.value[i], 0);
}

/* Writes the local tasks' numbers in the step as ranges. Returns false if they do not fit. */
static bool tasks_print(spank_t spank, uint32_t local_tasks, char *text, size_t size)
{
	size_t used = 0, ranges = 0;

	for (uint32_t i = 0; i < local_tasks && used < size;) {
		uint32_t first, last, next;

		if (spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, i, &first) != ESPANK_SUCCESS ||
		    ++ranges > CONFIG_NEAR_MAX)
			return false;
		last = first;
		while (++i < local_tasks &&
		       spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, i, &next) == ESPANK_SUCCESS && next == last + 1)
			last = next;
		used += (size_t)snprintf(text + used, size - used, "%s%u-%u", used ? "," : "", first, last);
	}
	return used > 0 && used < size;
}

/*
 * Writes which tasks of the step are on this node. Writes nothing if all are, if the tasks are no ranks of one program
 * that srun starts, or if the text would be too long.
 */
static void near_print(spank_t spank, const struct plan_facts *facts, char near[NEAR_MAX])
{
	uint32_t tasks = job_number(spank, S_JOB_TOTAL_TASK_COUNT), task;
	int used;

	if (facts->kind != STEP_SRUN || tasks <= facts->local_tasks ||
	    spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS)
		return;
	used = snprintf(near, NEAR_MAX, ";near=%u:%u:", tasks, task);
	if (!tasks_print(spank, facts->local_tasks, near + used, NEAR_MAX - (size_t)used))
		near[0] = '\0';
}

static void segment_print(int segment, char text[SEGMENT_MAX], struct error *error)
{
	int descriptor = inherit_descriptor(segment, INHERIT_FROM);
	struct stat status;

	if (descriptor < 0 || fstat(descriptor, &status) < 0)
		error_set(error, -errno, "no stats segment: no descriptor from %d on: %s; waits are not counted",
		          INHERIT_FROM, strerror(errno));
	else
		snprintf(text, SEGMENT_MAX, ";segment=%d:%llu:%llu;task=%d", descriptor,
		         (unsigned long long)status.st_dev, (unsigned long long)status.st_ino, (int)getpid());
	if (text[0])
		inherit_spare(descriptor);
}

/* Sets MPI_WAIT_CONFIG as config_format.h describes it. choices: its last part, "" for none. */
static int config_set(spank_t spank, const struct job *job, const struct injection *injection, const char *choices,
                      bool at_first, struct error *error)
{
	char grant[GRANT_TEXT_MAX] = "", near[NEAR_MAX] = "", segment[SEGMENT_MAX] = "", notes[NOTES_MAX] = "";
	cleanup_free char *config = NULL;
	int task = job_task(spank);

	if (injection->grant && task >= 0)
		grant_describe(injection->grant, (uint32_t)task, grant);
	if (injection->near)
		near_print(spank, &job->facts, near);
	if (injection->segment >= 0)
		segment_print(injection->segment, segment, error);
	if (injection->notes.id >= 0)
		snprintf(notes, sizeof(notes), ";notes=%d:%" PRIu64, injection->notes.id, injection->notes.page->key);
	if (asprintf(&config, "%s%s%s%s%s%s%s", injection->flat, grant, near, segment, notes, at_first ? ";path=1" : "",
	             choices) < 0) {
		config = NULL;
		return -ENOMEM;
	}
	return spank_setenv(spank, MPIWAIT_CONFIG_VARIABLE, config, 1) == ESPANK_SUCCESS ? 0 : -ENOMEM;
}

/*
 * Sets MPI_WAIT_CSV as config_format.h describes it. A relative directory is made absolute here, so that it stays below
 * the task's own wherever the program goes. A directory whose name is too long is left out: no file could be opened
 * there.
 */
static void csv_set(spank_t spank, const struct injection *injection)
{
	const char *csv = injection->csv_directory;
	char text[MPIWAIT_CSV_MAX], here[PATH_MAX] = "";

	if (csv && csv[0] != '/' && !getcwd(here, sizeof(here)))
		here[0] = '\0';
	if (csv && snprintf(text, sizeof(text), "%s:%s%s%s", injection->csv_suffix, here, here[0] ? "/" : "", csv) <
	                   (int)sizeof(text))
		spank_setenv(spank, MPIWAIT_CSV_VARIABLE, text, 1);
}

int inject_library_open(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static bool is_runtime(const char *command)
{
	const char *slash = strrchr(command, '/');

	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (strcmp(slash ? slash + 1 : command, runtimes[i]) == 0)
			return true;
	return false;
}

enum inject_naming inject_naming_choose(const char *path, const char *command, bool may_move)
{
	if (access(path, R_OK) < 0 || is_runtime(command))
		return INJECT_DESCRIPTOR;
	return may_move ? INJECT_DESCRIPTOR_AT_FIRST : INJECT_PATH;
}

const char *inject_library_name(const char *path, int descriptor, enum inject_naming *naming,
                                char buffer[INJECT_NAME_MAX])
{
	int kept = -1;

	if (*naming != INJECT_PATH && descriptor >= 0)
		kept = inherit_descriptor(descriptor, INHERIT_LIBRARY_FROM);
	if (kept < 0) {
		*naming = INJECT_PATH;
		return path;
	}
	snprintf(buffer, INJECT_NAME_MAX, PRELOAD_BY_DESCRIPTOR "%d", kept);
	return buffer;
}

/* Reads the task's PATH into a buffer that is empty. Returns false if it is too long. */
static bool search_read(spank_t spank, char search[SEARCH_MAX])
{
	return spank_getenv(spank, "PATH", search, SEARCH_MAX) != ESPANK_NOSPACE;
}

/* Returns why nothing will be preloaded into the task's program, and counts its note, if so. */
static enum inject_hindrance program_note(spank_t spank, const struct injection *injection, const char *program)
{
	char search[SEARCH_MAX] = "";
	enum mpiwait_note note;

	if (!injection->acts || !search_read(spank, search))
		return INJECT_NO_HINDRANCE;
	note = program_look(program, search);
	if (note == MPIWAIT_NOTES)
		return INJECT_NO_HINDRANCE;
	if (injection->notes.id >= 0)
		__atomic_fetch_add(&injection->notes.page->count[note], 1, __ATOMIC_RELAXED);
	return note == MPIWAIT_NOTE_STATIC ? INJECT_STATIC : INJECT_SETUID;
}

/*
 * Returns true if ranks have nothing to choose, because the program that the command line tells is a binary. A script
 * may start a program for which the site has another policy.
 */
static bool is_settled(spank_t spank, const struct injection *injection, int count, char *const words[])
{
	char search[SEARCH_MAX] = "", buffer[WRAPPERS_TEXT_MAX];
	const char *program;

	if (!injection->choices)
		return true;
	if (!injection->is_named || !search_read(spank, search))
		return false;
	program = wrappers_program(count, words, injection->programs, buffer);
	return program && program_is_binary(program, search);
}

static int preload_set(spank_t spank, const char *library, const char *others)
{
	cleanup_free char *value = preload_list_add(others, library);

	return value && spank_setenv(spank, PRELOAD, value, 1) == ESPANK_SUCCESS ? 0 : -ENOMEM;
}

/* Removes what an outer step has set. Returns 0, or a negative errno after which nothing may be set. */
static int task_clean(spank_t spank, char **ret_others, struct error *error)
{
	int rc = preload_clean(spank, ret_others);

	spank_unsetenv(spank, MPIWAIT_CONFIG_VARIABLE);
	spank_unsetenv(spank, MPIWAIT_CSV_VARIABLE);
	threads_clean(spank);
	sanitizer_clean(spank);
	return rc < 0 ? error_set(error, rc, "LD_PRELOAD is left alone: %s", strerror(-rc)) : 0;
}

enum inject_hindrance inject_task(spank_t spank, const struct job *job, const struct injection *injection,
                                  struct error *error)
{
	cleanup_free char *others = NULL;
	const char *library, *choices, *program = "";
	char name[INJECT_NAME_MAX], **words = NULL;
	enum inject_hindrance hindrance;
	enum inject_naming naming;
	bool settled;
	int count = 0, rc = task_clean(spank, &others, error);

	if (rc < 0 || !injection)
		return INJECT_NO_HINDRANCE;
	if (spank_get_item(spank, S_JOB_ARGV, &count, &words) == ESPANK_SUCCESS && count > 0)
		program = words[0];
	settled = is_settled(spank, injection, count, words);
	if (settled && !injection->acts)
		return INJECT_NO_HINDRANCE;
	naming = inject_naming_choose(MPIWAIT_LIBRARY, program, injection->may_move);
	library = inject_library_name(MPIWAIT_LIBRARY, injection->library, &naming, name);
	choices = settled ? "" : injection->choices;
	rc = config_set(spank, job, injection, choices, naming == INJECT_DESCRIPTOR_AT_FIRST, error);
	if (rc == 0)
		rc = preload_set(spank, library, others);
	if (rc < 0) {
		spank_unsetenv(spank, MPIWAIT_CONFIG_VARIABLE);
		error_set(error, rc, "the task runs without the library: %s", strerror(-rc));
		return INJECT_NO_HINDRANCE;
	}
	csv_set(spank, injection);
	threads_set(spank, injection, program);
	sanitizer_set(spank);
	hindrance = program_note(spank, injection, program);
	if (hindrance == INJECT_NO_HINDRANCE && naming == INJECT_PATH && access(MPIWAIT_LIBRARY, R_OK) < 0)
		return INJECT_HIDDEN;
	return hindrance;
}
