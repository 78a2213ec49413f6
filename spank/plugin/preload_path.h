/*
 * How a task's LD_PRELOAD names our library: by its path, or, where the task's root directory is a container's or is
 * about to be, by an open descriptor of it, which is as good there.
 */
#pragma once

/* What the entries by descriptor begin with. In a new task none but ours can mean anything. */
#define LIBRARY_BY_DESCRIPTOR     "/proc/self/fd/"
#define LIBRARY_BY_DESCRIPTOR_MAX 32

/* In slurmstepd, whose root is the host's: a descriptor for preload_path_name, close-on-exec; -1: there is none. */
int preload_path_open(const char *path);

/*
 * In the task: returns what LD_PRELOAD is to name, path itself or buffer. It is the descriptor where path cannot be
 * read from here, as in a container that another plugin has entered, and where command, the task's first word, is a
 * container runtime that hands descriptors on. The descriptor that is named stays open in the task and in all that it
 * starts.
 */
const char *preload_path_name(const char *path, int descriptor, const char *command,
                              char buffer[LIBRARY_BY_DESCRIPTOR_MAX]);
