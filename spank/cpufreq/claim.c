#include "spank/cpufreq/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/cpufreq/journal_line.h"

#define FORMAT       "mpi-wait-claim 1 %36s %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu32 "%n"
#define FREE         "mpi-wait-claim 1 free"
#define SUM_SIZE     10 /* a space, eight digits, a newline: at the file's end */
#define LOCK_WAITS   2000
#define LOCK_WAIT_NS 1000000

static bool lock_try(int descriptor)
{
	return flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

/*
 * Who waits for a claim's lock holds its turn, a lock of the first byte, so that a holder who writes again and again
 * lets them in. A kernel that has no such lock (before 3.15) is only less fair.
 */
static bool turn_try(int descriptor)
{
	struct flock turn = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(descriptor, F_OFD_SETLK, &turn) == 0 || (errno != EAGAIN && errno != EACCES);
}

static void turn_end(int descriptor)
{
	struct flock turn = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};

	fcntl(descriptor, F_OFD_SETLK, &turn);
}

static bool lock_try_politely(int descriptor)
{
	struct flock turn = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	if (fcntl(descriptor, F_OFD_GETLK, &turn) == 0 && turn.l_type != F_UNLCK) {
		errno = EWOULDBLOCK;
		return false;
	}
	return lock_try(descriptor);
}

static int wait_for(bool (*try)(int descriptor), int descriptor)
{
	for (int i = 0; i < LOCK_WAITS; i++) {
		if (try(descriptor))
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR && errno != EACCES)
			return -errno;
		nanosleep(&(struct timespec){0, LOCK_WAIT_NS}, NULL);
	}
	return -EBUSY;
}

int claim_lock(int descriptor)
{
	return wait_for(lock_try, descriptor);
}

int claim_lock_again(int descriptor)
{
	return wait_for(lock_try_politely, descriptor);
}

static int lock_in_turn(int descriptor)
{
	int result = wait_for(turn_try, descriptor);

	if (result)
		return result;
	result = wait_for(lock_try, descriptor);
	turn_end(descriptor);
	return result;
}

void claim_unlock(int descriptor)
{
	flock(descriptor, LOCK_UN);
}

static void line_make(const struct claim *claim, char line[CLAIM_SIZE])
{
	const struct holder *holder = &claim->holder;
	char text[CLAIM_SIZE + 1], sum[SUM_SIZE + 1];
	int length;

	length = claim->held ? snprintf(text, sizeof(text),
	                                "mpi-wait-claim 1 %s %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64
	                                " %" PRIu32,
	                                holder->boot, holder->job_id, holder->step_id, holder->process, holder->start,
	                                claim->from, claim->entries)
	                     : snprintf(text, sizeof(text), "%s", FREE);
	memset(line, ' ', CLAIM_SIZE);
	memcpy(line, text, (size_t)length);
	snprintf(sum, sizeof(sum), " %08x\n", journal_crc(line, CLAIM_SIZE - SUM_SIZE));
	memcpy(line + CLAIM_SIZE - SUM_SIZE, sum, SUM_SIZE);
}

int claim_write(int descriptor, const struct claim *claim, char line[CLAIM_SIZE])
{
	char text[CLAIM_SIZE];
	ssize_t done;

	line_make(claim, text);
	done = pwrite(descriptor, text, CLAIM_SIZE, 0);
	if (done != CLAIM_SIZE || fsync(descriptor))
		return done < 0 || done == CLAIM_SIZE ? -errno : -EIO;
	if (line)
		memcpy(line, text, CLAIM_SIZE);
	return 0;
}

bool claim_is(int descriptor, const char line[CLAIM_SIZE])
{
	char text[CLAIM_SIZE];

	return pread(descriptor, text, CLAIM_SIZE, 0) == CLAIM_SIZE && memcmp(text, line, CLAIM_SIZE) == 0;
}

int claim_read(int descriptor, struct claim *ret_claim, struct error *error)
{
	struct claim claim = {.held = true};
	char text[CLAIM_SIZE + 2], line[CLAIM_SIZE];
	ssize_t length = pread(descriptor, text, CLAIM_SIZE + 1, 0);
	int end = 0;

	if (length < 0)
		return error_set(error, -errno, "cannot be read: %s", strerror(errno));
	if (length != CLAIM_SIZE)
		return error_set(error, -EBADMSG, "%s", length < CLAIM_SIZE ? "truncated" : "too long");
	text[length] = '\0';
	claim.held = strncmp(text, FREE " ", strlen(FREE) + 1) != 0;
	if (claim.held && (sscanf(text, FORMAT, claim.holder.boot, &claim.holder.job_id, &claim.holder.step_id,
	                          &claim.holder.process, &claim.holder.start, &claim.from, &claim.entries, &end) != 7 ||
	                   end == 0))
		return error_set(error, -EBADMSG, "no claim, or of a version that this release does not know");
	/* made again it is the same, or it was not ours */
	line_make(&claim, line);
	if (memcmp(line, text, CLAIM_SIZE) != 0)
		return error_set(error, -EBADMSG, "a wrong checksum");
	*ret_claim = claim;
	return 0;
}

/* A free claim under its name, whole from the first moment. Another's that was made meanwhile is as good. */
static int claim_make(int directory, const char *name)
{
	const struct claim claim = {.held = false};
	char temporary[64];
	cleanup_close int file = -1;
	int result;

	snprintf(temporary, sizeof(temporary), ".%s.%ld", name, (long)syscall(SYS_gettid));
	unlinkat(directory, temporary, 0);
	file = openat(directory, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0)
		return -errno;
	result = claim_write(file, &claim, NULL);
	/* the system call: glibc before 2.28 has no function for it */
	if (!result && syscall(SYS_renameat2, directory, temporary, directory, name, RENAME_NOREPLACE))
		result = errno == EEXIST ? 0 : -errno;
	unlinkat(directory, temporary, 0);
	return result;
}

static int open_checked(int directory, const char *name, struct error *error)
{
	cleanup_close int file = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const char *why;

	if (file < 0 && errno == ENOENT)
		return -ENOENT;
	if (file < 0)
		return error_set(error, -errno, "%s", errno == ELOOP ? "a link" : strerror(errno));
	why = files_refusal(file);
	return why ? error_set(error, -EPERM, "%s", why) : take_descriptor(&file);
}

int claim_open(int node_directory, uint32_t policy, bool make, struct error *error)
{
	cleanup_close int directory = files_directory(node_directory, "cpu", make ? 0700 : 0);
	cleanup_close int file = -1;
	char name[32];
	int result;

	snprintf(name, sizeof(name), "policy%" PRIu32, policy);
	if (directory < 0)
		return error_set(error, directory, "directory: %s", strerror(-directory));
	file = open_checked(directory, name, error);
	if (file == -ENOENT && make) {
		result = claim_make(directory, name);
		file = result ? result : open_checked(directory, name, error);
	}
	if (file < 0)
		return error_set(error, file, "%s", strerror(-file));
	result = lock_in_turn(file);
	return result ? error_set(error, result, "locked by another for too long") : take_descriptor(&file);
}
