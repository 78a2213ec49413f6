/* Asks /proc about a thread that may be any of the node's. */
#include "spank/machine/asker.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/proc.h"
#include "spank/machine/topology.h"

#define LEVELS_MAX  32
#define THREADS_MAX 1024
#define STATUS_MAX  (64 * 1024) /* bytes of a status file, which lists the user's groups */

bool asker_is_of_task(pid_t process, pid_t task)
{
	for (int level = 0; level < LEVELS_MAX && process > 1; level++) {
		struct proc_stat stat;

		if (proc_stat_of(process, &stat) || (level == 0 && (stat.state == 'Z' || stat.state == 'X')))
			return false;
		if (process == task)
			return true;
		process = stat.parent;
	}
	return false;
}

/*
 * The first line has the program's name, which the user chose. The kernel escapes newlines in it, so that it forges no
 * line.
 */
pid_t asker_process(pid_t thread, uid_t uid)
{
	char path[32], text[2048];
	const char *group, *users;
	unsigned user[4];
	int process;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)thread);
	if (thread <= 1 || proc_text_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	group = strstr(text, "\nTgid:");
	users = strstr(text, "\nUid:");
	if (!group || !users || sscanf(group, "\nTgid: %d", &process) != 1 ||
	    sscanf(users, "\nUid: %u %u %u %u", &user[0], &user[1], &user[2], &user[3]) != 4)
		return 0;
	for (int i = 0; i < 4; i++)
		if (user[i] != uid)
			return 0;
	return process;
}

/* Returns true if a thread other than `self` is runnable on `domain`. */
static bool others_run(DIR *tasks, pid_t self, hwloc_const_bitmap_t domain)
{
	struct proc_stat stat;
	pid_t thread;

	for (int seen = 0; (thread = proc_next(tasks, &stat)); seen++)
		if (seen > THREADS_MAX || (thread != self && stat.state == 'R' &&
		                           (stat.cpu < 0 || hwloc_bitmap_isset(domain, (unsigned)stat.cpu))))
			return true;
	return false;
}

static bool is_within(pid_t thread, hwloc_const_bitmap_t core)
{
	cleanup_bitmap hwloc_bitmap_t affinity = hwloc_bitmap_alloc();

	return affinity && topology_get_affinity(thread, affinity) == 0 && !hwloc_bitmap_iszero(affinity) &&
	       hwloc_bitmap_isincluded(affinity, core);
}

bool asker_has_core(pid_t process, pid_t thread, hwloc_const_bitmap_t core, hwloc_const_bitmap_t domain)
{
	char path[48];
	cleanup_closedir DIR *tasks = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)process, (int)thread);
	if (thread <= 0 || access(path, F_OK) < 0 || !is_within(thread, core))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
	tasks = opendir(path);
	return tasks && !others_run(tasks, thread, domain);
}
