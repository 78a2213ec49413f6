#include "spank/cpufreq/holder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/proc.h"
#include "spank/base/run_directory.h"

/* Returns 0, -ESRCH for a process that has ended (nobody may have waited for it yet), or -errno. */
static int start_read(uint32_t process, uint64_t *ret_start)
{
	struct proc_stat stat;
	int result = proc_stat_of((pid_t)process, &stat);

	if (result < 0)
		return result;
	if (stat.start == UINT64_MAX)
		return -EBADMSG;
	*ret_start = stat.start;
	return stat.state == 'Z' || stat.state == 'X' ? -ESRCH : 0;
}

int holder_init(uint32_t job_id, uint32_t step_id, struct holder *ret_holder)
{
	struct holder holder = {.job_id = job_id, .step_id = step_id, .process = (uint32_t)getpid()};
	int result = proc_boot_read(holder.boot);

	if (!result)
		result = start_read(holder.process, &holder.start);
	if (!result)
		*ret_holder = holder;
	return result;
}

bool holder_is_of_this_boot(const struct holder *holder)
{
	char boot[PROC_BOOT_MAX];

	return proc_boot_read(boot) != 0 || strcmp(boot, holder->boot) == 0;
}

bool holder_is_alive(const struct holder *holder)
{
	uint64_t start;
	int result;

	if (!holder_is_of_this_boot(holder))
		return false;
	result = start_read(holder->process, &start);
	return result == 0 ? start == holder->start : result != -ENOENT && result != -ESRCH;
}

void holder_describe(const struct holder *holder, char text[HOLDER_TEXT_MAX])
{
	char step[16];

	state_step_name(holder->step_id, step);
	snprintf(text, HOLDER_TEXT_MAX, "job %" PRIu32 " step %s", holder->job_id, step);
}
