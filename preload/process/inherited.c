/* Finds descriptors again. Its invariant stands in inherited.h. */
#include "preload/process/inherited.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process/decimal.h"

#define FD_FIRST 200 /* the plugin hands descriptors out from here on: a lower one is somebody else's */

/* System call: fstat itself is either newer than glibc 2.17 or, before 2.33, no function at all. */
static bool is_the_one(int fd, const struct inherited *inherited)
{
	struct stat status;

	return syscall(SYS_fstat, fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_dev == inherited->device &&
	       status.st_ino == inherited->inode;
}

static int open_again(const struct inherited *inherited)
{
	char path[48];
	char *at = decimal_write(stpcpy(path, "/proc/"), (uint32_t)inherited->task);

	*decimal_write(stpcpy(at, "/fd/"), (uint32_t)inherited->number) = '\0';
	return open(path, inherited->flags | O_CLOEXEC);
}

int inherited_find(const struct inherited *inherited, bool *ret_opened)
{
	int fd = inherited->number;

	*ret_opened = false;
	if (fd < 0)
		return -1;
	if (is_the_one(fd, inherited)) {
		if (fd >= FD_FIRST)
			ioctl(fd, FIOCLEX); /* fcntl is newer than glibc 2.17 where file offsets have 64 bits */
		return fd;
	}
	fd = inherited->task > 0 ? open_again(inherited) : -1;
	if (fd < 0 || is_the_one(fd, inherited)) {
		*ret_opened = fd >= 0;
		return fd;
	}
	close(fd);
	return -1;
}
