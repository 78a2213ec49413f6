#include "spank/base/namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/proc.h"

#define OURS          "/proc/self/ns/mnt"
#define ROOTS         "\nUid:\t0\t0\t0\t0\n" /* line of a status file: real, effective, saved and file system's user */
#define STATUS_MAX    4096
#define ANCESTORS_MAX 16 /* a script of the site may lie between slurmd and this process */

/* Returns true if root runs the process of that directory of /proc. The directory's owner would not tell. */
static bool is_root(int process)
{
	char status[STATUS_MAX];

	return proc_text_read(process, "status", status, sizeof(status)) > 0 && strstr(status, ROOTS);
}

/*
 * Opens the directory in /proc of the nearest ancestor that is called slurmd. Any user may call a process so. Returns
 * -1 if there is none.
 */
static int slurmd_open(void)
{
	struct proc_stat stat;
	int result = proc_stat_read(AT_FDCWD, "/proc/self/stat", &stat);

	for (int i = 0; i < ANCESTORS_MAX && result == 0 && stat.parent > 0; i++) {
		cleanup_close int process = -1;
		char path[32];

		snprintf(path, sizeof(path), "/proc/%d", (int)stat.parent);
		process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		result = process < 0 ? -1 : proc_stat_read(process, "stat", &stat);
		if (result == 0 && strcmp(stat.name, "slurmd") == 0)
			return take_descriptor(&process);
	}
	return -1;
}

int namespace_of_slurmd(void)
{
	cleanup_close int slurmd = slurmd_open(), namespace = -1;
	struct stat ours, theirs;

	if (slurmd < 0 || !is_root(slurmd))
		return -1;
	namespace = openat(slurmd, "ns/mnt", O_RDONLY | O_CLOEXEC);
	if (namespace < 0 || fstat(namespace, &theirs) || stat(OURS, &ours) ||
	    (ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino))
		return -1;
	return take_descriptor(&namespace);
}

void namespace_enter(int namespace, const char *program)
{
	cleanup_close int ours = namespace < 0 ? -1 : open(OURS, O_RDONLY | O_CLOEXEC);

	if (ours >= 0 && setns(namespace, CLONE_NEWNS) == 0 && access(program, X_OK))
		setns(ours, CLONE_NEWNS);
}
