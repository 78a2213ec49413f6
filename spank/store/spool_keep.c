/* What lies in the spool besides the jobs: records that stay, permits, a clock. Half of spool.h. */
#include "spank/store/spool.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/record/job_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#define STALE_S (24 * 3600) /* nobody writes one file for so long */

static int own_directory(const struct spool *spool)
{
	return spool->shared >= 0 ? spool->shared : spool->outbox;
}

time_t spool_now(struct spool *spool)
{
	cleanup_close int clock = -1;
	struct stat status = {0};
	bool known;

	if (spool->shared < 0)
		return time(NULL);
	spool_enter(spool);
	clock = openat(spool->shared, ".clock", O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	known = clock >= 0 && futimens(clock, NULL) == 0 && fstat(clock, &status) == 0;
	spool_leave(spool);
	return known ? status.st_mtime : time(NULL);
}

void spool_tidy(struct spool *spool)
{
	cleanup_closedir DIR *entries = files_entries(spool->outbox);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		struct stat status;

		if (files_is_temporary(entry->d_name) &&
		    fstatat(spool->outbox, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    status.st_mtime + STALE_S < time(NULL))
			unlinkat(spool->outbox, entry->d_name, 0);
	}
}

static unsigned random_number(void)
{
	unsigned number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (unsigned)getpid() * 2654435761u;
	return number;
}

/* Returns a descriptor, -EBUSY or -ENOTSUP. */
static int slot_try(struct spool *spool, unsigned number)
{
	cleanup_close int slot = -1;
	char name[16];

	snprintf(name, sizeof(name), ".slot.%u", number % SPOOL_SLOTS);
	spool_enter(spool);
	slot = openat(own_directory(spool), name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	spool_leave(spool);
	if (slot < 0)
		return -ENOTSUP;
	if (flock(slot, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -ENOTSUP;
	return take_descriptor(&slot);
}

int spool_slot_take(struct spool *spool, unsigned wait_s)
{
	uint64_t deadline_ns = clock_monotonic_ns() + wait_s * SECOND_NS;

	for (;;) {
		unsigned first = random_number();
		struct timespec pause = {.tv_nsec = 100000000 + first % 400000000};

		for (unsigned i = 0; i < SPOOL_SLOTS; i++) {
			int slot = slot_try(spool, first % SPOOL_SLOTS + i);

			if (slot != -EBUSY)
				return slot;
		}
		if (clock_monotonic_ns() >= deadline_ns)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
}

static void done_path(const struct spool *spool, char path[PATH_MAX + 16])
{
	if (spool->shared >= 0)
		snprintf(path, PATH_MAX + 16, "%s/done", spool->shared_path);
	else
		snprintf(path, PATH_MAX + 16, "%s/../done", spool->outbox_path);
}

int spool_kept(struct spool *spool, const char *key, char **ret_text)
{
	char path[PATH_MAX + 16], name[FILES_NAME_MAX + 1];
	cleanup_close int directory = -1;
	size_t length;
	int result;

	done_path(spool, path);
	snprintf(name, sizeof(name), "%s.json", key);
	spool_enter(spool);
	directory = files_directory(AT_FDCWD, path, 0);
	result = directory < 0 ? directory : files_read(directory, name, RECORD_MAX, ret_text, &length);
	spool_leave(spool);
	return files_is_bad(result) ? 0 : result;
}

/*
 * As root, in a directory of spool_user's, who may have put anything there by now: only a file of theirs that has no
 * other name is given away, and a FIFO holds nobody up. The file system decides who may give a file away: where it
 * refuses, the file stays with its writer's group.
 */
static void group_set(int directory, const char *name, uid_t owner, gid_t group)
{
	cleanup_close int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	if (file < 0 || fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_uid != owner ||
	    status.st_nlink != 1)
		return;
	if (fchown(file, (uid_t)-1, group))
		log_debug("\"%s\" could not be given to group %u: %s", name, (unsigned)group, strerror(errno));
}

int spool_keep(struct spool *spool, const char *key, gid_t group, const char *line, struct error *error)
{
	char path[PATH_MAX + 16], name[FILES_NAME_MAX + 1];
	cleanup_close int directory = -1;
	int result;

	done_path(spool, path);
	snprintf(name, sizeof(name), "%s.json", key);
	spool_enter(spool);
	directory = files_directory(AT_FDCWD, path, 0711);
	result = directory < 0 ? directory : files_write(directory, name, 0640, line, strlen(line), true);
	spool_leave(spool);
	if (result < 0)
		return error_set(error, result, "\"%s/%s\": %s", path, name, strerror(-result));
	group_set(directory, name, spool->user ? spool->user : geteuid(), group);
	return 0;
}
