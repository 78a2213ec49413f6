/*
 * pstate by the kernel's own files, which are the user's for the job's time (grant=file). Invariant: nothing but the
 * two limits that root passed is ever written, and the high one last.
 *
 * Core and neighbours are looked at here, because nobody else does; about 10 microseconds each time, and no allocation.
 */
#include "preload/rung/pstate.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process/decimal.h"

#define CORE_CPUS   8u
#define MASK_BYTES  2048 /* 16384 CPUs */
#define THREADS_MAX 1024
#define FIELD_CPU   39 /* of /proc/<pid>/stat, counted from 1: the CPU that the thread last ran on */
#define CPUS        "/sys/devices/system/cpu/cpu"

struct core {
	uint32_t count;
	uint32_t cpu[CORE_CPUS]; /* the hardware threads, ascending */
};

static const struct config *limits;
static struct core lowered; /* which core that is: the rung belongs to one thread at a time */

static bool core_has(const struct core *core, uint32_t cpu)
{
	for (uint32_t i = 0; i < core->count; i++)
		if (core->cpu[i] == cpu)
			return true;
	return false;
}

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

	do {
		at = number_read(at, &first);
		last = at ? first : 0;
		if (at && *at == '-')
			at = number_read(at + 1, &last);
		for (uint32_t cpu = first; at && cpu <= last; cpu++) {
			if (core->count == CORE_CPUS)
				return false;
			core->cpu[core->count++] = cpu;
		}
	} while (at && *at++ == ',');
	return at && (at[-1] == '\n' || at[-1] == '\0');
}

static bool siblings_read(uint32_t cpu, struct core *core)
{
	char path[80], text[128];

	strcpy(decimal_write(stpcpy(path, CPUS), cpu), "/topology/thread_siblings_list");
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
		for (long at = 0; at < length; at += ((struct dirent64 *)(buffer + at))->d_reclen) {
			const char *name = ((struct dirent64 *)(buffer + at))->d_name;

			if (!number_read(name, &tid) || tid == self)
				continue;
			if (++seen > THREADS_MAX || thread_runs(tasks, name, core))
				return true;
		}
	return length < 0;
}

/*
 * Finds the calling thread's core. Returns false, with *ret_core zeros, where the thread may run elsewhere too, where
 * another thread of the process is running on that core, or where this cannot be told.
 */
static bool core_find_own(struct core *ret_core)
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

static bool cpu_write(uint32_t cpu, uint32_t khz)
{
	char path[80], text[12];
	long length = decimal_write(text, khz) - text;
	bool done;
	int fd;

	stpcpy(decimal_write(stpcpy(path, CPUS), cpu),
	       limits->cpufreq_setspeed ? "/cpufreq/scaling_setspeed" : "/cpufreq/scaling_max_freq");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	done = syscall(SYS_pwrite64, fd, text, length, 0L) == length;
	close(fd);
	return done;
}

static bool core_write(struct rung_thread *thread, uint32_t khz)
{
	bool done = true;

	thread->lane->transitions++;
	for (uint32_t i = 0; i < lowered.count; i++)
		done &= cpu_write(lowered.cpu[i], khz);
	return done;
}

static bool files_probe(const struct config *config)
{
	limits = config;
	return true;
}

static enum pstate_outcome files_restore(struct rung_thread *thread, bool waits)
{
	(void)waits;
	return core_write(thread, limits->cpufreq_high_khz) ? PSTATE_FOUND : PSTATE_OVER;
}

static enum pstate_outcome files_lower(struct rung_thread *thread)
{
	struct core now;
	bool own = core_find_own(&now);

	if (thread->pstate.sure) {
		if (own && memcmp(&now, &lowered, sizeof(now)) == 0)
			return PSTATE_LOW;
		return files_restore(thread, true) == PSTATE_OVER ? PSTATE_OVER : PSTATE_REFUSED;
	}
	lowered = now;
	if (!own)
		return PSTATE_REFUSED;
	if (core_write(thread, limits->cpufreq_low_khz))
		return PSTATE_LOW;
	core_write(thread, limits->cpufreq_high_khz);
	return PSTATE_OVER;
}

const struct pstate_way pstate_files = {.probe = files_probe, .lower = files_lower, .restore = files_restore};
