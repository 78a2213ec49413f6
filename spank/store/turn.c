#include "spank/store/turn.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define WORDS_FILE  ".writer.words"
#define WORDS_MAX   65536
#define DOING_MAX   320
#define HAND_OVER_S 300 /* longer than storing any record takes */
#define STUCK_S     300 /* a holder that has noted nothing for this time is named in the log */
#define SAID        '!' /* first byte of a lock file whose holder was named in the log */

/* Returns 0 (the noted arguments are the caller's), 1 (they are not) or -errno. */
static int words_compare(const struct turn *turn)
{
	cleanup_free char *words = NULL;
	size_t length;
	int result;

	if (!turn->words || turn->directory < 0)
		return turn->words ? turn->directory : 0;
	result = files_read(turn->directory, WORDS_FILE, WORDS_MAX, &words, &length);
	return result ? result : strcmp(words, turn->words) != 0;
}

void turn_init(const struct run_directory *run_directory, const char *words, struct turn *ret_turn)
{
	struct turn turn = {.directory = run_directory_open_node(run_directory), .words = words, .lock = -1};
	int result = 0;

	turn.was_noted = words_compare(&turn) == 0;
	if (!turn.was_noted && turn.directory >= 0)
		result = files_write(turn.directory, WORDS_FILE, 0600, words, strlen(words), false);
	if (result)
		log_error("the site arguments of the node's writer could not be noted: %s", strerror(-result));
	*ret_turn = turn;
}

/* Logs once that the holder hangs, and in what. The note's first byte tells other processes that it is logged. */
static void holder_judge(int lock, const char *name)
{
	char doing[DOING_MAX + 1] = "";
	struct stat status;
	long long idle_s;

	if (fstat(lock, &status) || pread(lock, doing, DOING_MAX, 0) <= 0 || doing[0] == SAID)
		return;
	idle_s = llabs((long long)time(NULL) - (long long)status.st_mtime);
	if (idle_s < STUCK_S)
		return;
	log_error("the node's %s has not moved for %lld minutes: process%s; records wait until it goes on or is killed",
	          name + 1, idle_s / 60, doing);
	doing[0] = SAID;
	if (pwrite(lock, doing, 1, 0) < 0)
		log_debug("the note of the node's %s: %s", name + 1, strerror(errno));
}

/* Tries once to take the lock. Returns 0, -EBUSY or another -errno. */
static int lock_try(struct turn *turn, const char *name)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	cleanup_close int lock = turn->directory < 0 ? -1 : openat(turn->directory, name, flags, 0600);

	if (lock < 0)
		return turn->directory < 0 ? turn->directory : -errno;
	if (flock(lock, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			return -errno;
		holder_judge(lock, name);
		return -EBUSY;
	}
	turn->lock = take_descriptor(&lock);
	return 0;
}

int turn_take(struct turn *turn, const char *name)
{
	const struct timespec pause = {.tv_sec = 1};
	uint64_t deadline_ns = clock_monotonic_ns() + HAND_OVER_S * SECOND_NS;
	int result = lock_try(turn, name);

	while (result == -EBUSY && !turn->was_noted && clock_monotonic_ns() < deadline_ns) {
		nanosleep(&pause, NULL);
		result = lock_try(turn, name);
	}
	if (result && result != -EBUSY)
		log_debug("the lock of the node's %s: %s", name + 1, strerror(-result));
	turn->name = result == -EBUSY ? NULL : name;
	turn_note(turn, "at its begin");
	return result == -EBUSY ? result : 0;
}

void turn_note(const struct turn *turn, const char *format, ...)
{
	char doing[DOING_MAX];
	va_list arguments;
	int length;

	if (turn->lock < 0)
		return;
	length = snprintf(doing, sizeof(doing), " %ld, ", (long)getpid());
	va_start(arguments, format);
	vsnprintf(doing + length, sizeof(doing) - (size_t)length, format, arguments);
	va_end(arguments);
	if (pwrite(turn->lock, doing, strlen(doing) + 1, 0) < 0)
		log_debug("the note of the node's %s: %s", turn->name + 1, strerror(errno));
}

void turn_leave(struct turn *turn)
{
	if (turn->lock >= 0) {
		flock(turn->lock, LOCK_UN); /* close alone would not unlock it if a forked child shares the lock */
		close(turn->lock);
	}
	turn->lock = -1;
	turn->name = NULL;
}

bool turn_is_ours(const struct turn *turn)
{
	return words_compare(turn) <= 0;
}

void turn_free(struct turn *turn)
{
	turn_leave(turn);
	if (turn->directory >= 0)
		close(turn->directory);
	turn->directory = -1;
}
