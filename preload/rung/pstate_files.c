/*
 * pstate by the kernel's own files, which are the user's for the job's time (grant=file). Invariant: nothing but the
 * two limits that root passed is ever written, and the high one last.
 *
 * Core and neighbours are looked at here, because nobody else does; about 10 microseconds each time.
 */
#include "preload/rung/pstate.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process/decimal.h"
#include "preload/rung/core.h"

static const struct config *limits;
static struct core lowered; /* which core that is: the rung belongs to one thread at a time */

static bool files_probe(const struct config *config)
{
	limits = config;
	return true;
}

static bool khz_write(int fd, uint32_t khz)
{
	char text[12];
	size_t length = (size_t)(decimal_write(text, khz) - text);

	return syscall(SYS_pwrite64, fd, text, length, 0L) == (long)length;
}

static bool cpu_write(uint32_t cpu, uint32_t khz)
{
	char path[80];
	char *at = decimal_write(stpcpy(path, "/sys/devices/system/cpu/cpu"), cpu);
	int fd;
	bool done;

	stpcpy(at, limits->cpufreq_setspeed ? "/cpufreq/scaling_setspeed" : "/cpufreq/scaling_max_freq");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	done = khz_write(fd, khz);
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
