#include "spank/cpufreq/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "spank/base/cleanup.h"
#include "spank/base/proc.h"
#include "spank/base/run_directory.h"

static ssize_t file_read(const char *path, char *text, size_t size)
{
	cleanup_close int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, size - 1);

	if (length < 0)
		return -errno;
	text[length] = '\0';
	return length;
}

int holder_boot(char boot[HOLDER_BOOT_MAX])
{
	char text[HOLDER_BOOT_MAX];
	ssize_t length = file_read("/proc/sys/kernel/random/boot_id", text, sizeof(text));

	if (length < 0)
		return (int)length;
	text[strcspn(text, "\n")] = '\0';
	if (strlen(text) != HOLDER_BOOT_MAX - 1)
		return -EBADMSG;
	memcpy(boot, text, HOLDER_BOOT_MAX);
	return 0;
}

/* Returns 0, -ESRCH for a process that has ended (nobody may have waited for it yet), or -errno. */
static int process_start(uint32_t process, uint64_t *ret_start)
{
	char path[32];
	struct proc_stat stat;
	int result;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", process);
	result = proc_stat_read(AT_FDCWD, path, &stat);
	if (result < 0)
		return result;
	if (stat.start == UINT64_MAX)
		return -EBADMSG;
	*ret_start = stat.start;
	return stat.state == 'Z' || stat.state == 'X' ? -ESRCH : 0;
}

int holder_init(uint32_t job_id, uint32_t step_id, struct holder *ret_holder)
{
	struct holder holder = {.job_id = job_id, .step_id = step_id};
	int result = holder_boot(holder.boot);

	if (!result && step_id != STATE_NONE) {
		holder.process = (uint32_t)getpid();
		result = process_start(holder.process, &holder.start);
	}
	if (!result)
		*ret_holder = holder;
	return result;
}

bool holder_same(const struct holder *left, const struct holder *right)
{
	return strcmp(left->boot, right->boot) == 0 && left->job_id == right->job_id &&
	       left->step_id == right->step_id && left->process == right->process && left->start == right->start;
}

bool holder_is_alive(const struct holder *holder, int job_directory)
{
	char boot[HOLDER_BOOT_MAX];
	uint64_t start;

	/* on doubt somebody is: what is alive undoes for itself, and the epilog does not ask */
	if (holder_boot(boot))
		return true;
	if (strcmp(boot, holder->boot) != 0)
		return false;
	if (holder->step_id == STATE_NONE)
		return faccessat(job_directory, "job.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	switch (process_start(holder->process, &start)) {
	case 0:
		return start == holder->start;
	case -ENOENT:
	case -ESRCH:
		return false;
	default:
		return true;
	}
}

void holder_journal(const struct holder *holder, char name[HOLDER_NAME_MAX])
{
	if (holder->step_id == STATE_NONE)
		strcpy(name, "journal.job");
	else
		snprintf(name, HOLDER_NAME_MAX, "journal.%" PRIu32 ".%" PRIu32 ".%" PRIu64, holder->step_id,
		         holder->process, holder->start);
}

void holder_describe(const struct holder *holder, char text[HOLDER_NAME_MAX])
{
	char step[16];

	if (holder->step_id == STATE_NONE) {
		snprintf(text, HOLDER_NAME_MAX, "job %" PRIu32, holder->job_id);
		return;
	}
	state_step_name(holder->step_id, step);
	snprintf(text, HOLDER_NAME_MAX, "job %" PRIu32 " step %s", holder->job_id, step);
}
