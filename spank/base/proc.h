/* Reads small files of /proc and /sys: texts, lines, numbers, the stat of a process or thread, the boot's id. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_NAME_MAX 16 /* bytes of a thread's name, its NUL included (the kernel's TASK_COMM_LEN) */
#define PROC_BOOT_MAX 37 /* bytes of a UUID, its NUL included */

/*
 * Read a file by one call, as much as fits, and append a NUL. `path` is relative to the directory; a link at its end is
 * not followed. proc_line_read cuts the text at the first newline. Return the number of bytes read, or -errno with ""
 * in the buffer.
 */
ssize_t proc_text_read(int directory, const char *path, char *text, size_t size);
ssize_t proc_line_read(int directory, const char *path, char *line, size_t size);

/* Reads the number that is the file's first line. Returns true if there is one; if not, *ret_number is untouched. */
bool proc_number_read(int directory, const char *path, uint64_t *ret_number);

struct proc_stat {
	char name[PROC_NAME_MAX]; /* chosen by the process's user */
	char state;               /* proc(5): 'R' is running or runnable, 'T' stopped, 'Z' and 'X' dead */
	pid_t parent;
	uint64_t start; /* when it began, in clock ticks since the boot; UINT64_MAX: unknown */
	int cpu;        /* number of the CPU on which it ran last; -1: unknown */
};

/*
 * Reads the stat file at `path`, relative to the directory. Returns 0 or -errno; -ENOENT or -ESRCH: the process or
 * thread is gone.
 */
int proc_stat_read(int directory, const char *path, struct proc_stat *ret_stat);

/* As proc_stat_read, for a process or thread by its id. */
int proc_stat_of(pid_t process, struct proc_stat *ret_stat);

/* Returns the id of the next process or thread in /proc, or in a task directory, with its stat; 0 after the last. */
pid_t proc_next(DIR *directory, struct proc_stat *ret_stat);

/* Reads the id of this boot. Returns 0, or -errno with "" in boot; -EBADMSG: the file holds no UUID. */
int proc_boot_read(char boot[PROC_BOOT_MAX]);
