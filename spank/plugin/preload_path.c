#include "spank/plugin/preload_path.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/descriptor.h"

/* Those that close the descriptors which they did not open (podman, runc, shifter) get the path: a bind mount helps. */
static const char *const runtimes[] = {"apptainer", "singularity", "enroot", "ch-run"};

int preload_path_open(const char *path)
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

const char *preload_path_name(const char *path, int descriptor, const char *command,
                              char buffer[LIBRARY_BY_DESCRIPTOR_MAX])
{
	int kept;

	if (descriptor < 0 || (access(path, R_OK) == 0 && !is_runtime(command)))
		return path;
	kept = inherit_descriptor(descriptor, INHERIT_LIBRARY_FROM);
	if (kept < 0)
		return path;
	snprintf(buffer, LIBRARY_BY_DESCRIPTOR_MAX, LIBRARY_BY_DESCRIPTOR "%d", kept);
	return buffer;
}
