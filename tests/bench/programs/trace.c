/*
 * A SPANK plugin that notes when each callback runs. It is built twice, as "before" and "after": one stands before the
 * project's line in plugstack.conf, the other behind it. The difference of their times is the callback's time. The
 * line's only argument is the file, to which everybody may append: "NAME CALLBACK CONTEXT PID NANOSECONDS
 * CPU_NANOSECONDS" per callback.
 */
#include <fcntl.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef TRACE_NAME
#define TRACE_NAME before
#endif
#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)

extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;

const char plugin_name[] = "bench_" TEXT(TRACE_NAME), plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER, spank_plugin_version = 1;

static long long nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void note(const char *callback, const char *file)
{
	long long now = nanoseconds(CLOCK_MONOTONIC), cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
	int descriptor = open(file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);

	if (descriptor < 0)
		return;
	dprintf(descriptor, TEXT(TRACE_NAME) " %s %d %d %lld %lld\n", callback, (int)spank_context(), (int)getpid(),
	        now, cpu);
	close(descriptor);
}

#define CALLBACK(name)                                                     \
	int slurm_spank_##name(spank_t spank, int count, char **arguments) \
	{                                                                  \
		(void)spank;                                               \
		if (count == 1)                                            \
			note(#name, arguments[0]);                         \
		return ESPANK_SUCCESS;                                     \
	}

CALLBACK(init)
CALLBACK(init_post_opt)
CALLBACK(user_init)
CALLBACK(task_init_privileged)
CALLBACK(task_post_fork)
CALLBACK(task_init)
CALLBACK(task_exit)
CALLBACK(exit)
CALLBACK(job_prolog)
CALLBACK(job_epilog)
