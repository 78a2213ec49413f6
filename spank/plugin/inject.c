#include "spank/plugin/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/process/config.h"
#include "spank/base/cleanup.h"
#include "spank/plugin/preload_path.h"

#define LIBRARY_NAME "libmpiwait.so"
#define PRELOAD_MAX  (1u << 20)

static bool is_ours(const char *entry, size_t length, const char *library_name)
{
	size_t name_length = strlen(library_name);

	if (strncmp(entry, LIBRARY_BY_DESCRIPTOR, strlen(LIBRARY_BY_DESCRIPTOR)) == 0)
		return true;
	return length >= name_length && strncmp(entry + length - name_length, library_name, name_length) == 0 &&
	       (length == name_length || entry[length - name_length - 1] == '/');
}

void inject_strip(const char *value, const char *library_name, char *ret_value)
{
	size_t used = 0;

	while (*(value += strspn(value, ": "))) {
		size_t length = strcspn(value, ": ");

		if (!is_ours(value, length, library_name)) {
			if (used)
				ret_value[used++] = ':';
			memcpy(ret_value + used, value, length);
			used += length;
		}
		value += length;
	}
	ret_value[used] = '\0';
}

/* *ret_value is the caller's; NULL where the task has no LD_PRELOAD. */
static int get_preload(spank_t spank, char **ret_value)
{
	for (size_t size = 4096; size <= PRELOAD_MAX; size *= 16) {
		cleanup_free char *value = malloc(size);
		spank_err_t rc;

		if (!value)
			return -ENOMEM;
		rc = spank_getenv(spank, "LD_PRELOAD", value, (int)size);
		if (rc == ESPANK_NOSPACE)
			continue;
		*ret_value = rc == ESPANK_SUCCESS ? take_pointer(value) : NULL;
		return 0;
	}
	return -E2BIG;
}

/* What an outer step of ours has set is not the user's. */
static void clean_threads(spank_t spank)
{
	char ours[OPENMP_TEXT_MAX], value[OPENMP_VALUE_MAX];

	if (spank_getenv(spank, OPENMP_VARIABLE, ours, sizeof(ours)) == ESPANK_SUCCESS)
		for (unsigned i = 0; i < OPENMP_VARIABLES; i++)
			if (spank_getenv(spank, openmp_name(i), value, sizeof(value)) == ESPANK_SUCCESS &&
			    openmp_is_ours(ours, i, value))
				spank_unsetenv(spank, openmp_name(i));
	spank_unsetenv(spank, OPENMP_VARIABLE);
}

void inject_threads(spank_t spank, enum site_threads threads, uint64_t spins, const char *program)
{
	struct openmp_settings settings;
	char value[2];
	uint32_t set = 0;

	if (openmp_is_daemon(program))
		return;
	for (unsigned i = 0; i < OPENMP_VARIABLES; i++)
		if (spank_getenv(spank, openmp_name(i), value, sizeof(value)) != ESPANK_ENV_NOEXIST)
			set |= 1u << i;
	openmp_choose(threads, set, spins, &settings);
	/* The mark first: without it an inner step would take ours for the user's. */
	if (!settings.text[0] || spank_setenv(spank, OPENMP_VARIABLE, settings.text, 1) != ESPANK_SUCCESS)
		return;
	for (unsigned i = 0; i < OPENMP_VARIABLES; i++)
		if (settings.value[i][0])
			spank_setenv(spank, openmp_name(i), settings.value[i], 0);
}

int inject_clean(spank_t spank, struct error *error)
{
	cleanup_free char *value = NULL;
	cleanup_free char *stripped = NULL;
	int rc = get_preload(spank, &value);

	spank_unsetenv(spank, MPIWAIT_CONFIG_VARIABLE);
	clean_threads(spank);
	if (rc < 0)
		return error_set(error, rc, "LD_PRELOAD is left alone: %s", strerror(-rc));
	if (!value || (!strstr(value, LIBRARY_NAME) && !strstr(value, LIBRARY_BY_DESCRIPTOR)))
		return 0;
	stripped = malloc(strlen(value) + 1);
	if (!stripped)
		return error_set(error, -ENOMEM, "LD_PRELOAD is left alone: no memory");
	inject_strip(value, LIBRARY_NAME, stripped);
	if (stripped[0])
		spank_setenv(spank, "LD_PRELOAD", stripped, 1);
	else
		spank_unsetenv(spank, "LD_PRELOAD");
	return 0;
}

static int set_config(spank_t spank, const char *flat, const char *added, const struct segment *segment,
                      struct error *error)
{
	char config[4096];
	int length = snprintf(config, sizeof(config), "%s%s", flat, added);
	int descriptor = segment->descriptor >= 0 ? segment_hand_down(segment, error) : -1;

	if (descriptor >= 0 && length > 0 && (size_t)length < sizeof(config))
		length += snprintf(config + length, sizeof(config) - (size_t)length, ";segment=%d:%llu:%llu;task=%d",
		                   descriptor, (unsigned long long)segment->device, (unsigned long long)segment->inode,
		                   (int)getpid());
	if (length < 0 || (size_t)length >= sizeof(config))
		return -ENOSPC;
	return spank_setenv(spank, MPIWAIT_CONFIG_VARIABLE, config, 1) == ESPANK_SUCCESS ? 0 : -ENOMEM;
}

int inject_task(spank_t spank, const char *library, const char *flat, const char *added, const struct segment *segment,
                struct error *error)
{
	cleanup_free char *value = NULL;
	cleanup_free char *preload = NULL;
	int rc = get_preload(spank, &value);

	if (rc == 0 && asprintf(&preload, "%s%s%s", library, value && value[0] ? ":" : "", value ? value : "") < 0) {
		preload = NULL;
		rc = -ENOMEM;
	}
	if (rc == 0)
		rc = set_config(spank, flat, added, segment, error);
	if (rc == 0 && spank_setenv(spank, "LD_PRELOAD", preload, 1) != ESPANK_SUCCESS) {
		spank_unsetenv(spank, MPIWAIT_CONFIG_VARIABLE);
		rc = -ENOMEM;
	}
	return rc < 0 ? error_set(error, rc, "the task runs without the library: %s", strerror(-rc)) : 0;
}
