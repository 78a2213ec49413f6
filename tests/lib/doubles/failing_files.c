/*
 * A file system that fails, preloaded behind the library under test. FILES_FAIL=CALL:ERRNO makes a call fail; CALL:kill
 * ends the process there. Calls: mkdir, openat (to make a file), write, close (of a file that openat has made),
 * renameat.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int made = -1;

/* Returns true if that call must fail now, with errno set. */
static int fails(const char *call)
{
	const char *what = getenv("FILES_FAIL");
	size_t length = strlen(call);

	if (!what || strncmp(what, call, length) != 0 || what[length] != ':')
		return 0;
	if (strcmp(what + length + 1, "kill") == 0)
		kill(getpid(), SIGKILL);
	errno = atoi(what + length + 1);
	return 1;
}

int mkdir(const char *path, mode_t mode)
{
	return fails("mkdir") ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int openat64(int directory, const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	if (flags & O_CREAT && fails("openat"))
		return -1;
	made = (int)syscall(SYS_openat, directory, path, flags, mode);
	return made;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	return fd == made && fails("write") ? -1 : syscall(SYS_write, fd, bytes, size);
}

int close(int fd)
{
	int failed = fd == made && fails("close");

	syscall(SYS_close, fd);
	return failed ? -1 : 0;
}

int renameat(int from, const char *old, int to, const char *new)
{
	return fails("renameat") ? -1 : (int)syscall(SYS_renameat, from, old, to, new);
}
