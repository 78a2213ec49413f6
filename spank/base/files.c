#include "spank/base/files.h"

#include "spank/base/cleanup.h"
#include "spank/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#define LOCK_PAUSE_NS 1000000 /* 1 ms, between two tries */

bool files_name_ok(const char *name)
{
	size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return length > 0 && length <= FILES_NAME_MAX && name[0] != '.' && name[length] == '\0';
}

int files_directory(int parent, const char *name, mode_t mode)
{
	cleanup_close int directory = -1;
	struct stat status;

	if (mode && mkdirat(parent, name, mode) && errno != EEXIST)
		return -errno;
	directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	if (fstat(directory, &status))
		return -errno;
	if ((status.st_uid != 0 && status.st_uid != geteuid()) || (status.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return take_descriptor(&directory);
}

int files_directory_path(const char *path, mode_t mode)
{
	char prefix[PATH_MAX];

	if (path[0] != '/' || strlen(path) >= sizeof(prefix))
		return -EINVAL;
	strcpy(prefix, path);
	for (char *slash = strchr(prefix + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(prefix, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return files_directory(AT_FDCWD, path, mode);
}

const char *files_refusal(int file)
{
	struct stat status;

	if (fstat(file, &status))
		return strerror(errno);
	if (!S_ISREG(status.st_mode))
		return "no regular file";
	if (status.st_uid != 0 && status.st_uid != geteuid())
		return "another's";
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return "writable by others";
	return status.st_nlink > 1 ? "a second name" : NULL;
}

/* Reads to the end of the file, but at most max + 1 bytes. Returns the number of bytes read, or -errno. */
static ssize_t read_bounded(int file, char *buffer, size_t max)
{
	size_t have = 0;
	ssize_t got;

	do {
		got = TEMP_FAILURE_RETRY(read(file, buffer + have, max + 1 - have));
		have += got > 0 ? (size_t)got : 0;
	} while (got > 0 && have <= max);
	return got < 0 ? -errno : (ssize_t)have;
}

int files_read(int directory, const char *name, size_t max, char **ret_text, size_t *ret_length)
{
	/* O_NONBLOCK: opening a FIFO would wait for its writer */
	cleanup_close int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_free char *text = NULL;
	struct stat status;
	ssize_t length;

	if (file < 0 || fstat(file, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if ((uint64_t)status.st_size > max)
		return -EFBIG;
	max = (size_t)status.st_size;
	text = malloc(max + 2);
	if (!text)
		return -ENOMEM;
	length = read_bounded(file, text, max);
	if (length < 0)
		return (int)length;
	if ((size_t)length > max)
		return -EFBIG;
	text[length] = '\0';
	*ret_text = take_pointer(text);
	*ret_length = (size_t)length;
	return 0;
}

static int write_all(int file, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t done = TEMP_FAILURE_RETRY(write(file, bytes, length));

		if (done < 0)
			return -errno;
		bytes += done;
		length -= (size_t)done;
	}
	return 0;
}

static int write_temporary(int directory, const char *name, mode_t mode, const void *bytes, size_t length, bool durable)
{
	cleanup_close int file = -1;
	int result;

	file = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (file < 0)
		return -errno;
	result = write_all(file, bytes, length);
	return !result && durable && fsync(file) ? -errno : result;
}

uint32_t files_number(void)
{
	uint32_t number;

	/* early in the boot the kernel may have no randomness yet; then each file has one writer only */
	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
		number = (uint32_t)clock_monotonic_ns();
	return number;
}

int files_write(int directory, const char *name, mode_t mode, const void *bytes, size_t length, bool durable)
{
	char temporary[FILES_NAME_MAX + 64];
	int result;

	/* two writers of one file must not share a temporary file */
	snprintf(temporary, sizeof(temporary), ".%.*s.%" PRIu32, FILES_NAME_MAX, name, files_number());
	result = write_temporary(directory, temporary, mode, bytes, length, durable);
	if (!result && renameat(directory, temporary, directory, name))
		result = -errno;
	if (result)
		unlinkat(directory, temporary, 0);
	else if (durable && fsync(directory))
		result = -errno;
	return result;
}

bool files_is_temporary(const char *name)
{
	const char *end = strrchr(name, '.');

	return name[0] == '.' && end && end > name + 5 && strncmp(end - 5, ".json", 5) == 0 && end[1] &&
	       end[1 + strspn(end + 1, "0123456789")] == '\0';
}

long long files_age_s(time_t now, time_t date)
{
	return llabs((long long)now - (long long)date);
}

void files_tidy(int directory, time_t now)
{
	cleanup_closedir DIR *entries = files_entries(directory);
	const struct dirent *entry;
	struct stat status;

	while (entries && (entry = readdir(entries)))
		if (files_is_temporary(entry->d_name) &&
		    fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    files_age_s(now, status.st_mtime) > FILES_STALE_S)
			unlinkat(directory, entry->d_name, 0);
}

DIR *files_entries(int directory)
{
	int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = copy < 0 ? NULL : fdopendir(copy);

	if (!entries && copy >= 0)
		close(copy);
	return entries;
}

int files_read_json(int directory, const char *name, size_t max, json_t **ret_json)
{
	cleanup_free char *text = NULL;
	size_t length = 0;
	unsigned failures;
	json_t *json;
	int result = files_read(directory, name, max, &text, &length);

	if (result)
		return result;
	failures = memory_failures();
	json = memory_json(text, length, JSON_REJECT_DUPLICATES);
	if (!json_is_object(json)) {
		json_decref(json);
		return memory_failures() == failures ? -EBADMSG : -ENOMEM;
	}
	*ret_json = json;
	return 0;
}

bool files_is_bad(int result)
{
	static const int faults[] = {-EBADMSG, -EINVAL, -EFBIG, -ENOENT, -ELOOP, -EPERM, -EACCES, -ENXIO};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (result == faults[i])
			return true;
	return false;
}

int files_write_json(int directory, const char *name, mode_t mode, const json_t *json, bool durable)
{
	cleanup_free char *text = memory_text(json, 0);

	return text ? files_write(directory, name, mode, text, strlen(text), durable) : -ENOMEM;
}

int files_lock(int file, unsigned most_ms)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};

	for (unsigned i = 0; i < most_ms; i++) {
		if (flock(file, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

void files_unlock(int file)
{
	flock(file, LOCK_UN);
}
