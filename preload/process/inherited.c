/* Finds descriptors again. Invariant: inherited.h. */
#include "preload/process/inherited.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process/decimal.h"

/* A raw system call: fstat is newer than glibc 2.17, or before 2.33 no function at all. */
static bool is_the_one(int fd, const struct inherited *inherited)
{
	struct stat status;

	return syscall(SYS_fstat, fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_dev == inherited->device &&
	       status.st_ino == inherited->inode;
}

/* The number may be a pipe by now, whose opening would wait for a writer. */
static int open_again(const struct inherited *inherited, uint32_t number)
{
	char path[48];
	char *at = decimal_write(stpcpy(path, "/proc/"), (uint32_t)inherited->task);
	int fd;

	*decimal_write(stpcpy(at, "/fd/"), number) = '\0';
	fd = open(path, inherited->flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || is_the_one(fd, inherited))
		return fd;
	close(fd);
	return -1;
}

int inherited_find(const struct inherited *inherited, bool *ret_opened)
{
	const uint32_t numbers[] = {(uint32_t)inherited->number, (uint32_t)inherited->number + INHERITED_SPARE};
	int found = -1;

	*ret_opened = false;
	if (inherited->number < 0)
		return -1;
	for (int i = 1; i >= 0; i--) {
		if (!is_the_one((int)numbers[i], inherited))
			continue;
		found = (int)numbers[i];
		if (found >= INHERITED_FIRST)
			ioctl(found, FIOCLEX); /* fcntl is newer than glibc 2.17 if file offsets have 64 bits */
	}
	for (int i = 0; i < 2 && found < 0 && inherited->task > 0; i++) {
		found = open_again(inherited, numbers[i]);
		*ret_opened = found >= 0;
	}
	return found;
}
