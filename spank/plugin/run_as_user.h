/*
 * Runs a program as the job's user, on behalf of slurmstepd, for files that the user asked for.
 *
 * Root never touches a path that a user chose: a child drops everything for good before it even changes directory, and
 * becomes a program of its own, so that nothing of slurmstepd's memory goes with it. It is killed when its time is up:
 * a file system that hangs holds no step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/base/error.h"

struct run_as_user {
	const char *program;
	char *const *words; /* argv, NULL at the end */
	int segment;        /* becomes the child's descriptor 3; it has no other but /dev/null on 0 to 2 */
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	int group_count;
	int mounts;            /* the namespace in which it sees files, -1: ours */
	const char *directory; /* where it is started, opened as the user */
	uint64_t most_ns;      /* then SIGKILL; the wait is not longer, even if the process cannot die */
	bool closed;           /* refuse a program that others than root may read: who reads it may trace it */
};

/*
 * Returns 0 if the program exited with 0; -ETIMEDOUT; else the negative of its exit status, which is to be an errno, or
 * what kept it from starting. error says which it was.
 */
int run_as_user(const struct run_as_user *export, struct error *error);
