/*
 * A process or a thread, as /proc tells it: one reader of its stat.
 */
#ifndef MPIWAIT_SPANK_BASE_PROC_H
#define MPIWAIT_SPANK_BASE_PROC_H

#include <stdint.h>
#include <sys/types.h>

#define PROC_NAME_MAX 16

struct proc_stat {
	char name[PROC_NAME_MAX]; /* the user's choice */
	char state;               /* proc(5): 'R' is running or runnable, 'T' stopped, 'Z' and 'X' dead */
	pid_t parent;
	uint64_t start; /* clock ticks since the boot; UINT64_MAX: not told */
	int cpu;        /* where it ran last; -1: not told */
};

/* Reads the stat at that path, relative to the directory. Returns 0, -ENOENT or -ESRCH where it is gone, or -errno. */
int proc_stat_read(int directory, const char *path, struct proc_stat *ret_stat);

#endif
