/*
 * Files in directories that only root writes: opened without following links, read with a bound, written whole.
 *
 * A file is either the old one or the new one, never a part: every write goes to a temporary name and is renamed.
 */
#pragma once

#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define FILES_NAME_MAX 200 /* bytes of a name that comes from elsewhere, its NUL excluded */

/* Whether name may become one component of a path: [A-Za-z0-9._-], not beginning with a dot, not too long. */
bool files_name_ok(const char *name);

/*
 * Opens a directory under parent (AT_FDCWD: an absolute path), made with that mode where it is missing (mode 0: not
 * made). It must be a directory, no link, owned by us or root and writable by nobody else.
 * Returns a descriptor (O_CLOEXEC), or -errno; -EPERM where owner or mode are not as said.
 */
int files_directory(int parent, const char *name, mode_t mode);

/* The same for an absolute path whose missing parents are made too. */
int files_directory_path(const char *path, mode_t mode);

/*
 * Why an open file is not one that only we can have written: "no regular file", "another's", "writable by others",
 * "a second name" (a hard link); NULL if it is. Its directory is files_directory's.
 */
const char *files_refusal(int file);

/*
 * Reads a regular file of at most max bytes into *ret_text (NUL-terminated, the caller's to free).
 * Returns 0, -EFBIG, -EINVAL (no regular file), -ENOMEM or -errno.
 */
int files_read(int directory, const char *name, size_t max, char **ret_text, size_t *ret_length);

/* Writes a file whole: temporary name, fsync of file and directory where asked, rename. Returns 0 or -errno. */
int files_write(int directory, const char *name, mode_t mode, const void *bytes, size_t length, bool durable);

/*
 * Returns a random number for a name that no other writer uses at the same time. Process numbers would not do: a
 * slurmstepd in a PID namespace may have the same one as another.
 */
uint32_t files_number(void);

/* Whether that is a name under which files_write begins; one that stays is of a writer that was killed. */
bool files_is_temporary(const char *name);

/* A directory's entries, read anew from their begin; closed by closedir. NULL and errno where that fails. */
DIR *files_entries(int directory);

/* The same for one JSON value: an object, of at most max bytes. -EBADMSG: no JSON object. */
int files_read_json(int directory, const char *name, size_t max, json_t **ret_json);

/* Whether a file that could not be read is no good, or not there; else it is memory or the disk, and may be good. */
bool files_is_bad(int result);

/* Writes a JSON value; see files_write. */
int files_write_json(int directory, const char *name, mode_t mode, const json_t *json, bool durable);

/*
 * Takes the lock (flock) of an open file or directory, trying for so long. Returns 0, -EBUSY (another holds it) or
 * -errno. The unlocking is said, not left to close: a child that was forked meanwhile holds the description too.
 */
int files_lock(int file, unsigned most_ms);
void files_unlock(int file);

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

/* Seconds since the epoch. */
static inline double clock_wall_s(void)
{
	return (double)clock_ns(CLOCK_REALTIME) / 1e9;
}
