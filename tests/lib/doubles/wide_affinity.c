/*
 * Preloaded into slurmd: plays affinities of a machine with WIDE_CPUS CPUs, where this one may have two.
 * $WIDE_AFFINITY/PID holds the binding of a process, and each binding adds "PID CPU,CPU..." to $WIDE_AFFINITY/log. The
 * kernel is asked only for the CPUs that it has.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WIDE_CPUS 8

static const char *folder(void)
{
	return getenv("WIDE_AFFINITY");
}

static int mask_open(pid_t pid, int flags)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%d", folder(), pid ? (int)pid : (int)syscall(SYS_gettid));
	return open(path, flags | O_CLOEXEC, 0644);
}

static void write_log(pid_t pid, size_t size, const unsigned char *mask)
{
	char line[1024], path[4096];
	int length = snprintf(line, sizeof(line), "%d", pid ? (int)pid : (int)syscall(SYS_gettid));
	const char *before = " ";
	int file;

	for (int cpu = 0; cpu < WIDE_CPUS && (size_t)cpu / 8 < size; cpu++) {
		if (!(mask[cpu / 8] >> cpu % 8 & 1))
			continue;
		length += snprintf(line + length, sizeof(line) - (size_t)length, "%s%d", before, cpu);
		before = ",";
	}
	line[length++] = '\n';
	snprintf(path, sizeof(path), "%s/log", folder());
	file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (file < 0 || write(file, line, (size_t)length) != length)
		abort();
	close(file);
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	unsigned char mask[128] = {0};
	int file;

	if (!folder())
		return syscall(SYS_sched_setaffinity, pid, size, set) < 0 ? -1 : 0;
	memcpy(mask, set, size < sizeof(mask) ? size : sizeof(mask));
	file = mask_open(pid, O_WRONLY | O_CREAT | O_TRUNC);
	if (file < 0 || write(file, mask, sizeof(mask)) != (ssize_t)sizeof(mask))
		abort();
	close(file);
	write_log(pid, sizeof(mask), mask);
	if (syscall(SYS_sched_setaffinity, pid, size, set) < 0 && errno != EINVAL)
		return -1;
	return 0;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	unsigned char mask[128] = {(1 << WIDE_CPUS) - 1};
	int file = folder() ? mask_open(pid, O_RDONLY) : -1;

	if (!folder())
		return syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
	if (file >= 0 && read(file, mask, sizeof(mask)) != (ssize_t)sizeof(mask))
		abort();
	if (file >= 0)
		close(file);
	memset(set, 0, size);
	memcpy(set, mask, size < sizeof(mask) ? size : sizeof(mask));
	return 0;
}
