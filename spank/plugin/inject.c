#include "spank/plugin/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/process/config.h"
#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"
#include "spank/plugin/program.h"
#include "spank/policy/openmp.h"

#define PRELOAD      "LD_PRELOAD"
#define PRELOAD_MAX  (1 << 20)
#define LIBRARY_NAME "libmpiwait.so"
#define SEGMENT_MAX  96
#define NEAR_MAX     2048
#define NOTES_MAX    48
#define SEARCH_MAX   8192

/* Those that close the descriptors which they did not open (podman, runc, shifter) get the path: a bind mount helps. */
static const char *const runtimes[] = {"apptainer", "singularity", "enroot", "ch-run"};

static bool is_ours(const char *entry, size_t length)
{
	const size_t name_length = strlen(LIBRARY_NAME);

	if (strncmp(entry, INJECT_BY_DESCRIPTOR, strlen(INJECT_BY_DESCRIPTOR)) == 0)
		return true;
	return length >= name_length && strncmp(entry + length - name_length, LIBRARY_NAME, name_length) == 0 &&
	       (length == name_length || entry[length - name_length - 1] == '/');
}

/* Takes our entries out of the value of LD_PRELOAD; the others keep their order, and separators become ':'. */
static void preload_strip(char *value)
{
	char *end = value;

	for (char *entry = value; *(entry += strspn(entry, ": "));) {
		size_t length = strcspn(entry, ": ");
		bool ours = is_ours(entry, length);

		if (!ours && end > value)
			*end++ = ':';
		if (!ours)
			end = (char *)memmove(end, entry, length) + length;
		entry += length;
	}
	*end = '\0';
}

/* Takes our library away. *ret_others, the caller's, is what else the task preloads, "" for nothing. */
static int preload_clean(spank_t spank, char **ret_others)
{
	cleanup_free char *value = malloc(PRELOAD_MAX);
	spank_err_t found;

	if (!value)
		return -ENOMEM;
	found = spank_getenv(spank, PRELOAD, value, PRELOAD_MAX);
	if (found == ESPANK_NOSPACE)
		return -E2BIG;
	if (found != ESPANK_SUCCESS)
		value[0] = '\0';
	if (strstr(value, LIBRARY_NAME) || strstr(value, INJECT_BY_DESCRIPTOR)) {
		preload_strip(value);
		if (value[0])
			spank_setenv(spank, PRELOAD, value, 1);
		else
			spank_unsetenv(spank, PRELOAD);
	}
	*ret_others = take_pointer(value);
	return 0;
}

/* What an outer step of ours has set is not the user's. */
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

static void threads_set(spank_t spank, const struct injection *injection, const char *program)
{
	struct openmp_settings settings;
	char value[2];
	uint32_t set = 0;

	if (openmp_is_daemon(program))
		return;
	for (unsigned i = 0; i < OPENMP_VARIABLES; i++)
		if (spank_getenv(spank, openmp_name(i), value, sizeof(value)) != ESPANK_ENV_NOEXIST)
			set |= 1u << i;
	openmp_choose(injection->threads, set, injection->spins, &settings);
	/* The mark first: without it an inner step would take ours for the user's. */
	if (!settings.text[0] || spank_setenv(spank, OPENMP_VARIABLE, settings.text, 1) != ESPANK_SUCCESS)
		return;
	for (unsigned i = 0; i < OPENMP_VARIABLES; i++)
		if (settings.value[i][0])
			spank_setenv(spank, openmp_name(i), settings.value[i], 0);
}

/* Appends the local tasks' numbers in the step as ranges. Returns whether all could be said. */
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

/* Which tasks are here; nothing where all are, where they are no ranks of one program that srun starts, and where it is
 * too much to say. */
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
		error_set(error, -errno, "no stats segment: no descriptor from %d on: %s", INHERIT_FROM,
		          strerror(errno));
	else
		snprintf(text, SEGMENT_MAX, ";segment=%d:%llu:%llu;task=%d", descriptor,
		         (unsigned long long)status.st_dev, (unsigned long long)status.st_ino, (int)getpid());
	if (text[0])
		inherit_spare(descriptor);
}

/* MPI_WAIT_CONFIG as config.h has it. All its parts have room. */
static int config_set(spank_t spank, const struct job *job, const struct injection *injection, struct error *error)
{
	char grant[GRANT_TEXT_MAX] = "", near[NEAR_MAX] = "", segment[SEGMENT_MAX] = "", notes[NOTES_MAX] = "";
	char config[POLICY_FLAT_MAX + GRANT_TEXT_MAX + NEAR_MAX + SEGMENT_MAX + NOTES_MAX];
	int task = job_task(spank);

	if (injection->grant && task >= 0)
		grant_describe(injection->grant, (uint32_t)task, grant);
	if (injection->near)
		near_print(spank, &job->facts, near);
	if (injection->segment >= 0)
		segment_print(injection->segment, segment, error);
	if (injection->notes.id >= 0)
		snprintf(notes, sizeof(notes), ";notes=%d:%" PRIu64, injection->notes.id, injection->notes.page->key);
	snprintf(config, sizeof(config), "%s%s%s%s%s", injection->flat, grant, near, segment, notes);
	return spank_setenv(spank, MPIWAIT_CONFIG_VARIABLE, config, 1) == ESPANK_SUCCESS ? 0 : -ENOMEM;
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

const char *inject_library_name(const char *path, int descriptor, const char *command, char buffer[INJECT_NAME_MAX])
{
	int kept;

	if (descriptor < 0 || (access(path, R_OK) == 0 && !is_runtime(command)))
		return path;
	kept = inherit_descriptor(descriptor, INHERIT_LIBRARY_FROM);
	if (kept < 0)
		return path;
	snprintf(buffer, INJECT_NAME_MAX, INJECT_BY_DESCRIPTOR "%d", kept);
	return buffer;
}

/* Tells why nothing will be preloaded into the task's program, where that is so. */
static void program_note(spank_t spank, const struct injection *injection, const char *program)
{
	char search[SEARCH_MAX] = "";
	enum mpiwait_note note;

	if (injection->notes.id < 0 || spank_getenv(spank, "PATH", search, sizeof(search)) == ESPANK_NOSPACE)
		return;
	note = program_look(program, search);
	if (note != MPIWAIT_NOTES)
		__atomic_fetch_add(&injection->notes.page->count[note], 1, __ATOMIC_RELAXED);
}

static int preload_set(spank_t spank, const char *library, const char *others)
{
	cleanup_free char *value = NULL;

	if (asprintf(&value, "%s%s%s", library, others[0] ? ":" : "", others) < 0) {
		value = NULL;
		return -ENOMEM;
	}
	return spank_setenv(spank, PRELOAD, value, 1) == ESPANK_SUCCESS ? 0 : -ENOMEM;
}

void inject_task(spank_t spank, const struct job *job, const struct injection *injection, struct error *error)
{
	cleanup_free char *others = NULL;
	const char *library, *program = "";
	char name[INJECT_NAME_MAX], **words = NULL;
	int count = 0, rc = preload_clean(spank, &others);

	spank_unsetenv(spank, MPIWAIT_CONFIG_VARIABLE);
	threads_clean(spank);
	if (rc < 0)
		error_set(error, rc, "LD_PRELOAD is left alone: %s", strerror(-rc));
	if (rc < 0 || !injection)
		return;
	if (spank_get_item(spank, S_JOB_ARGV, &count, &words) == ESPANK_SUCCESS && count > 0)
		program = words[0];
	library = inject_library_name(MPIWAIT_LIBRARY, injection->library, program, name);
	rc = config_set(spank, job, injection, error);
	if (rc == 0)
		rc = preload_set(spank, library, others);
	if (rc == 0) {
		program_note(spank, injection, program);
		threads_set(spank, injection, program);
		return;
	}
	spank_unsetenv(spank, MPIWAIT_CONFIG_VARIABLE);
	error_set(error, rc, "the task runs without the library: %s", strerror(-rc));
}
