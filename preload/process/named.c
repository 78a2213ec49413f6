/* Renames the library in LD_PRELOAD. Invariant: named.h. */
#include "preload/process/named.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process/decimal.h"

#define VARIABLE      "LD_PRELOAD="
#define BY_DESCRIPTOR "/proc/self/fd/"
#define TEXT_MAX      4096 /* bytes; a longer list is not changed */
#define LINK_BYTES    32   /* bytes of a link like /proc/self/fd/3 */

extern char **environ;

/* The new variable. It stays in the environment while the process lives. */
static char renamed[TEXT_MAX];

/* A raw system call: see inherited.c. */
static bool file_of(const char *path, struct stat *ret_status)
{
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	bool read = descriptor >= 0 && syscall(SYS_fstat, descriptor, ret_status) == 0;

	if (descriptor >= 0)
		close(descriptor);
	return read;
}

static bool is_file(const char *path, const struct stat *file)
{
	struct stat status;

	return file_of(path, &status) && status.st_dev == file->st_dev && status.st_ino == file->st_ino;
}

/* Writes the link's target, if a list can contain it and it leads to the file. Returns its length or 0. */
static size_t path_find(const char *link, const struct stat *file, char *path, size_t size)
{
	ssize_t length = readlink(link, path, size - 1);

	if (length <= 0 || (size_t)length == size - 1)
		return 0;
	path[length] = '\0';
	return path[0] == '/' && !strpbrk(path, ": ") && is_file(path, file) ? (size_t)length : 0;
}

/*
 * Writes the link with this process's number in place of "self". Returns its length, or 0 if children could not follow
 * it.
 */
static size_t number_find(const char *link, const struct stat *file, char *path, size_t size)
{
	if (size < 2 * LINK_BYTES || prctl(PR_GET_DUMPABLE) != 1)
		return 0;
	stpcpy(decimal_write(stpcpy(path, "/proc/"), (uint32_t)getpid()), link + strlen("/proc/self"));
	return is_file(path, file) ? strlen(path) : 0;
}

static size_t name_find(const char *link, bool by_path, char *name, size_t size)
{
	struct stat file;
	size_t length;

	if (!file_of(link, &file))
		return 0;
	length = path_find(link, &file, name, size);
	if (length > 0)
		return by_path ? length : 0;
	return number_find(link, &file, name, size);
}

/*
 * Copies the variable with a better name for the entry at that offset. Returns false if there is no better name, or no
 * room.
 */
static bool variable_rename(const char *variable, size_t before, bool by_path)
{
	size_t entry = strcspn(variable + before, ": "), rest = strlen(variable) - before - entry, length;
	char link[LINK_BYTES];

	if (entry >= sizeof(link) || before >= TEXT_MAX)
		return false;
	memcpy(link, variable + before, entry);
	link[entry] = '\0';
	length = name_find(link, by_path, renamed + before, TEXT_MAX - before);
	if (length == 0 || before + length + rest >= TEXT_MAX)
		return false;
	memcpy(renamed, variable, before);
	memcpy(renamed + before + length, variable + before + entry, rest + 1);
	return true;
}

void named_settle(bool by_path)
{
	int saved = errno;

	for (char **variable = environ; variable && *variable; variable++) {
		const char *entry = strstr(*variable, BY_DESCRIPTOR);

		if (strncmp(*variable, VARIABLE, strlen(VARIABLE)) != 0)
			continue;
		if (entry && variable_rename(*variable, (size_t)(entry - *variable), by_path))
			*variable = renamed;
		break;
	}
	errno = saved;
}
