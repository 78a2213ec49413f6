/*
 * Files in directories that only root writes. They are opened without following links and read with a bound.
 *
 * A reader sees the whole old file or the whole new one: each write goes to a temporary file, which is then renamed.
 */
#pragma once

#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define FILES_NAME_MAX 200 /* bytes of a name from outside this program, without its NUL */

/* Returns true if name may be one component of a path: [A-Za-z0-9._-], no dot first, FILES_NAME_MAX bytes at most. */
bool files_name_ok(const char *name);

/*
 * Opens the directory `name` in parent; with AT_FDCWD, `name` is an absolute path. A missing directory is made with
 * `mode`, unless mode is 0. Returns a descriptor (O_CLOEXEC), or -errno. -EPERM: the directory belongs to a user other
 * than this process's and root, or others may write to it. A link is not followed (-ENOTDIR).
 */
int files_directory(int parent, const char *name, mode_t mode);

/* As files_directory for an absolute path; missing parents are made too, with mode 0755. */
int files_directory_path(const char *path, mode_t mode);

/*
 * Returns why an open file may have been written by other users: "no regular file", "another's", "writable by others",
 * "a second name" (a hard link). Returns NULL if only root and this process's user can have written it, given that it
 * lies in a directory opened by files_directory.
 */
const char *files_refusal(int file);

/*
 * Reads a regular file of at most max bytes into *ret_text, which ends with a NUL and which the caller frees.
 * Returns 0, -EFBIG, -EINVAL (no regular file), -ENOMEM or -errno.
 */
int files_read(int directory, const char *name, size_t max, char **ret_text, size_t *ret_length);

/*
 * Writes a temporary file and renames it to `name`. If durable, syncs the file before the rename and the directory
 * after it. Returns 0 or -errno.
 */
int files_write(int directory, const char *name, mode_t mode, const void *bytes, size_t length, bool durable);

/*
 * Returns a random number, for names that no other writer uses at the same time. Process ids would not do: two
 * slurmstepds in different PID namespaces may have the same one.
 */
uint32_t files_number(void);

/* Returns true if `name` is that of a temporary file of files_write. One that stays was left by a killed writer. */
bool files_is_temporary(const char *name);

#define FILES_STALE_S (24 * 3600) /* a temporary file older than this has no writer */

/*
 * Removes temporary files that killed writers have left in the directory, once they are FILES_STALE_S old. now: the
 * time by the clock that dates its files.
 */
void files_tidy(int directory, time_t now);

/* Returns the age of a date in seconds. A date in the future, by a wrong clock, counts by its distance from now. */
long long files_age_s(time_t now, time_t date);

/* Opens a directory's entries, from the first on. Returns them for closedir to close, or NULL and errno. */
DIR *files_entries(int directory);

/* As files_read for a file that holds one JSON object; the caller owns *ret_json. -EBADMSG: no JSON object. */
int files_read_json(int directory, const char *name, size_t max, json_t **ret_json);

/*
 * Returns true if a result of files_read or files_read_json says that the file is bad or missing. Other errors, such as
 * of memory or the disk, say nothing about the file.
 */
bool files_is_bad(int result);

/* Writes a JSON value as files_write does. */
int files_write_json(int directory, const char *name, mode_t mode, const json_t *json, bool durable);

/*
 * Takes the lock (flock) of an open file or directory. Tries once a millisecond, most_ms times. Returns 0, -EBUSY (it
 * is held elsewhere) or -errno. The holder calls files_unlock rather than close: a child forked meanwhile shares the
 * lock.
 */
int files_lock(int file, unsigned most_ms);

/* Gives up the lock of files_lock, also for children that share it. */
void files_unlock(int file);

/* Clocks, in nanoseconds. */
#define SECOND_NS UINT64_C(1000000000)

static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / SECOND_NS), .tv_nsec = (long)(ns % SECOND_NS)};
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Returns the seconds since the epoch. */
static inline double clock_wall_s(void)
{
	return (double)clock_ns(CLOCK_REALTIME) / 1e9;
}
