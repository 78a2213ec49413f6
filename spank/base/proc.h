/*
 * What the kernel says in small files of /proc and /sys: one reader of them, of a process's or a thread's stat, and of
 * which boot this is.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_NAME_MAX 16
#define PROC_BOOT_MAX 37 /* a UUID with its NUL */

/*
 * Reads a file, no link, at that path, relative to the directory, in one call: what fits, ended by a NUL; of a line
 * only the first, without its newline. Return how many bytes were read, or -errno with "" in text.
 */
ssize_t proc_text_read(int directory, const char *path, char *text, size_t size);
ssize_t proc_line_read(int directory, const char *path, char *line, size_t size);

/* The number that is such a file's first line. Returns whether there is one; else *ret_number is untouched. */
bool proc_number_read(int directory, const char *path, uint64_t *ret_number);

struct proc_stat {
	char name[PROC_NAME_MAX]; /* the user's choice */
	char state;               /* proc(5): 'R' is running or runnable, 'T' stopped, 'Z' and 'X' dead */
	pid_t parent;
	uint64_t start; /* clock ticks since the boot; UINT64_MAX: not told */
	int cpu;        /* where it ran last; -1: not told */
};

/* Reads the stat at that path, relative to the directory. Returns 0, -ENOENT or -ESRCH where it is gone, or -errno. */
int proc_stat_read(int directory, const char *path, struct proc_stat *ret_stat);

/* The same of the process, or thread, of that number. */
int proc_stat_of(pid_t process, struct proc_stat *ret_stat);

/* The next process, or thread, that a directory of them has, with its stat; 0: that was all. */
pid_t proc_next(DIR *directory, struct proc_stat *ret_stat);

/* The boot's id. Returns 0, or -errno (-EBADMSG: it is no such id) with "" in boot. */
int proc_boot_read(char boot[PROC_BOOT_MAX]);
