/*
 * Where this thread runs, and whether alone. Its invariant stands in rung/core.h.
 */
#include "preload/rung/core.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process/decimal.h"

#define MASK_BYTES    2048 /* 16384 CPUs */
#define THREADS_MAX   1024
#define FIELD_CPU     39 /* of /proc/<pid>/stat, counted from 1: the CPU that the thread last ran on */
#define SIBLINGS_FILE "/topology/thread_siblings_list"

/* As the kernel fills it in. */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

static bool text_read(int directory, const char *path, char *text, size_t size)
{
	int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, text, size - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	return length > 0;
}

static const char *number_read(const char *at, uint32_t *ret)
{
	uint32_t value = 0;

	if (*at < '0' || *at > '9')
		return NULL;
	for (; *at >= '0' && *at <= '9' && value < 100000; at++)
		value = value * 10 + (uint32_t)(*at - '0');
	*ret = value;
	return at;
}

/* "0,4" or "0-1": the kernel's list of CPUs. */
static bool list_parse(const char *at, struct core *core)
{
	uint32_t first, last;

	while ((at = number_read(at, &first))) {
		last = first;
		if (*at == '-' && !(at = number_read(at + 1, &last)))
			return false;
		for (uint32_t cpu = first; cpu <= last; cpu++) {
			if (core->count == CORE_CPUS)
				return false;
			core->cpu[core->count++] = cpu;
		}
		if (*at != ',')
			return *at == '\n' || *at == '\0';
		at++;
	}
	return false;
}

static bool siblings_read(uint32_t cpu, struct core *core)
{
	char path[80], text[128];

	strcpy(decimal_write(stpcpy(path, "/sys/devices/system/cpu/cpu"), cpu), SIBLINGS_FILE);
	return text_read(AT_FDCWD, path, text, sizeof(text)) && list_parse(text, core) && core_has(core, cpu);
}

static bool mask_is_within(const struct core *core)
{
	unsigned char mask[MASK_BYTES];
	long length = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);

	for (long i = 0; i < length; i++)
		for (uint32_t bit = 0; bit < 8; bit++)
			if (mask[i] >> bit & 1 && !core_has(core, (uint32_t)i * 8 + bit))
				return false;
	return length > 0;
}

/* Whether the thread of that name is running, or waits to run, on the core. One that has gone is not. */
static bool thread_runs(int tasks, const char *name, const struct core *core)
{
	char path[32], text[512];
	const char *at;
	uint32_t cpu;

	if (strlen(name) > 10)
		return true;
	strcpy(stpcpy(path, name), "/stat");
	if (!text_read(tasks, path, text, sizeof(text)))
		return false;
	at = strrchr(text, ')');
	if (!at || at[1] != ' ' || at[2] != 'R')
		return !at;
	for (int field = 2; at && field < FIELD_CPU; field++)
		at = strchr(at + 1, ' ');
	return !at || !number_read(at + 1, &cpu) || core_has(core, cpu);
}

static bool others_run(int tasks, uint32_t self, const struct core *core)
{
	char buffer[4096] __attribute__((aligned(8)));
	uint32_t seen = 0, tid;
	long length;

	while ((length = syscall(SYS_getdents64, tasks, buffer, sizeof(buffer))) > 0)
		for (long at = 0; at < length; at += ((struct entry *)(buffer + at))->length) {
			const char *name = ((struct entry *)(buffer + at))->name;

			if (!number_read(name, &tid) || tid == self)
				continue;
			if (++seen > THREADS_MAX || thread_runs(tasks, name, core))
				return true;
		}
	return length < 0;
}

bool core_find_own(struct core *ret_core)
{
	struct core core = {0};
	unsigned int cpu;
	int tasks;
	bool own;

	memset(ret_core, 0, sizeof(*ret_core));
	if (syscall(SYS_getcpu, &cpu, NULL, NULL) != 0 || !siblings_read(cpu, &core) || !mask_is_within(&core))
		return false;
	tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tasks < 0)
		return false;
	own = !others_run(tasks, (uint32_t)syscall(SYS_gettid), &core);
	close(tasks);
	if (own)
		*ret_core = core;
	return own;
}
