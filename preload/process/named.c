/* Renames the library in LD_PRELOAD. Its invariant stands in named.h. */
#include "preload/process/named.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VARIABLE      "LD_PRELOAD="
#define BY_DESCRIPTOR "/proc/self/fd/"
#define TEXT_MAX      4096 /* a longer list stays as it is */

extern char **environ;

/* In the environment for as long as the process lives. */
static char renamed[TEXT_MAX];

/* System call: see inherited.c. */
static bool file_of(const char *path, struct stat *ret_status)
{
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	bool read = descriptor >= 0 && syscall(SYS_fstat, descriptor, ret_status) == 0;

	if (descriptor >= 0)
		close(descriptor);
	return read;
}

/* Writes the path of that link of /proc as a list can have it, if it leads to the same file. Returns its length or 0.
 */
static size_t path_find(const char *link, char *path, size_t size)
{
	ssize_t length = readlink(link, path, size - 1);
	struct stat named, open;

	if (length <= 0 || (size_t)length == size - 1)
		return 0;
	path[length] = '\0';
	if (path[0] != '/' || strpbrk(path, ": ") || !file_of(link, &named) || !file_of(path, &open) ||
	    named.st_dev != open.st_dev || named.st_ino != open.st_ino)
		return 0;
	return (size_t)length;
}

/* Copies the variable with the path in place of the entry at that offset. Returns false where that has no room. */
static bool variable_rename(const char *variable, size_t before)
{
	size_t entry = strcspn(variable + before, ": "), rest = strlen(variable) - before - entry, length;
	char link[32];

	if (entry >= sizeof(link) || before >= TEXT_MAX)
		return false;
	memcpy(link, variable + before, entry);
	link[entry] = '\0';
	length = path_find(link, renamed + before, TEXT_MAX - before);
	if (length == 0 || before + length + rest >= TEXT_MAX)
		return false;
	memcpy(renamed, variable, before);
	memcpy(renamed + before + length, variable + before + entry, rest + 1);
	return true;
}

void named_by_path(void)
{
	int saved = errno;

	for (char **variable = environ; variable && *variable; variable++) {
		const char *entry = strstr(*variable, BY_DESCRIPTOR);

		if (strncmp(*variable, VARIABLE, strlen(VARIABLE)) != 0)
			continue;
		if (entry && variable_rename(*variable, (size_t)(entry - *variable)))
			*variable = renamed;
		break;
	}
	errno = saved;
}
