/*
 * Linked into the checked programs: redirects the kernel's files to a test's, and lets time pass only when the test
 * says so. Neither needs root. Paths that are not named stay as they are.
 *
 *   MPIWAIT_ELSEWHERE  "/sys/class/powercap=/tmp/x:/proc/7=/tmp/y": redirects paths that begin so
 *   MPIWAIT_NOW_MS     the time of day; a pause takes no time, but adds its length to this time
 *   MPIWAIT_CPU_MS     under that clock, added to a thread's CPU time at each reading (default: 0)
 *   MPIWAIT_MEANWHILE  shell command that runs during the first of these pauses
 *   MPIWAIT_AT_RELEASE shell command that runs just before the first LOCK_UN of a file named .writer
 *   MPIWAIT_RENAMED    shell command that runs after each rename of a file, until it succeeds
 *   MPIWAIT_FULL       a directory in which openat makes no new file (O_EXCL): ENOSPC
 *   MPIWAIT_TORN       "3:/tmp/x": writes another number to this file at each of its first three opens
 *   MPIWAIT_ME         a name for the user who runs this, who need have none
 */
#undef _FILE_OFFSET_BITS /* open and open64 are two names here */

#include "tests/lib/doubles/elsewhere.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS      UINT64_C(1000000000)
#define MILLISECOND_NS UINT64_C(1000000)
#define LOOK_NS        200000
#define BOOTED_NS      (UINT64_C(1600000000) * SECOND_NS) /* time of day when CLOCK_MONOTONIC was 0 */

static _Atomic uint64_t shown_ns;   /* the time of day; 0: the machine's clocks are used */
static _Atomic uint64_t awaited_ns; /* the time of CLOCK_MONOTONIC that a thread waits for; 0: no thread waits */
static _Atomic unsigned opens, reads;
static _Atomic bool paused, renamed;

/* Writes the number of opened files to the file MPIWAIT_OPENS, for programs that have no other way to report it. */
__attribute__((destructor)) static void opens_tell(void)
{
	const char *path = getenv("MPIWAIT_OPENS");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	fprintf(file, "%u\n", opens);
	fclose(file);
}

__attribute__((constructor)) static void now_read(void)
{
	const char *text = getenv("MPIWAIT_NOW_MS");

	if (text)
		shown_ns = strtoull(text, NULL, 10) * MILLISECOND_NS;
}

/* Returns the path to use for `path`: itself, or its replacement, written to `place`. */
static const char *moved(const char *path, char place[PATH_MAX])
{
	const char *rule = getenv("MPIWAIT_ELSEWHERE");

	while (rule && *rule) {
		size_t length = strcspn(rule, "="), target = strcspn(rule + length, ":") - 1;

		if (strncmp(path, rule, length) == 0 && (path[length] == '/' || path[length] == '\0')) {
			snprintf(place, PATH_MAX, "%.*s%s", (int)target, rule + length + 1, path + length);
			return place;
		}
		rule += length + 1 + target;
		rule += *rule == ':';
	}
	return path;
}

/* Writes another number to the file, if MPIWAIT_TORN names it, at each of its first opens. */
static void torn_write(const char *path)
{
	const char *rule = getenv("MPIWAIT_TORN");
	static _Atomic int number;
	char *name;
	int most = rule ? (int)strtol(rule, &name, 10) : 0;
	int file;

	if (most == 0 || strcmp(path, name + 1) != 0 || number >= most)
		return;
	file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	dprintf(file, "%d\n", ++number);
	close(file);
}

/* Returns true if the directory is the one that MPIWAIT_FULL names. */
static bool is_full(int directory)
{
	const char *full = getenv("MPIWAIT_FULL");
	char link[32], path[PATH_MAX] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
	return full && readlink(link, path, sizeof(path) - 1) > 0 && strcmp(path, full) == 0;
}

static int opened(int directory, const char *path, int flags, va_list *rest)
{
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(*rest, mode_t) : 0;
	char place[PATH_MAX];

	opens++;
	path = moved(path, place);
	torn_write(path);
	if ((flags & O_EXCL) && is_full(directory)) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_openat, directory, path, flags, mode);
}

#define OPEN(name)                                             \
	int name(const char *path, int flags, ...)             \
	{                                                      \
		va_list rest;                                  \
		int result;                                    \
                                                               \
		va_start(rest, flags);                         \
		result = opened(AT_FDCWD, path, flags, &rest); \
		va_end(rest);                                  \
		return result;                                 \
	}
#define OPENAT(name)                                              \
	int name(int directory, const char *path, int flags, ...) \
	{                                                         \
		va_list rest;                                     \
		int result;                                       \
                                                                  \
		va_start(rest, flags);                            \
		result = opened(directory, path, flags, &rest);   \
		va_end(rest);                                     \
		return result;                                    \
	}

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int __open_2(const char *path, int flags);

int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

int renameat(int from, const char *name, int to, const char *new_name)
{
	const char *then = getenv("MPIWAIT_RENAMED");
	int result = (int)syscall(SYS_renameat2, from, name, to, new_name, 0);

	if (result == 0 && then && !renamed)
		renamed = system(then) == 0;
	return result;
}

int execve(const char *path, char *const words[], char *const environment[])
{
	char place[PATH_MAX];

	return (int)syscall(SYS_execve, moved(path, place), words, environment);
}

int access(const char *path, int mode)
{
	char place[PATH_MAX];

	return faccessat(AT_FDCWD, moved(path, place), mode, 0);
}

int stat(const char *restrict path, struct stat *restrict status)
{
	char place[PATH_MAX];

	return fstatat(AT_FDCWD, moved(path, place), status, 0);
}

static ssize_t counted(int file, void *data, size_t size, off_t offset)
{
	reads++;
	return syscall(SYS_pread64, file, data, size, offset);
}

ssize_t pread(int file, void *data, size_t size, off_t offset)
{
	return counted(file, data, size, offset);
}

ssize_t pread64(int file, void *data, size_t size, off64_t offset)
{
	return counted(file, data, size, offset);
}

static int cpu_time(struct timespec *now)
{
	static _Atomic uint64_t used_ns;
	const char *text = getenv("MPIWAIT_CPU_MS");
	uint64_t used = used_ns += text ? strtoull(text, NULL, 10) * MILLISECOND_NS : 0;

	*now = (struct timespec){(time_t)(used / SECOND_NS), (long)(used % SECOND_NS)};
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	uint64_t shown = shown_ns;

	if (shown && clock == CLOCK_THREAD_CPUTIME_ID)
		return cpu_time(now);
	if (!shown || (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME && clock != CLOCK_REALTIME))
		return (int)syscall(SYS_clock_gettime, clock, now);
	if (clock != CLOCK_REALTIME)
		shown -= BOOTED_NS;
	*now = (struct timespec){(time_t)(shown / SECOND_NS), (long)(shown % SECOND_NS)};
	return 0;
}

time_t time(time_t *ret_time)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret_time)
		*ret_time = now.tv_sec;
	return now.tv_sec;
}

int nanosleep(const struct timespec *span, struct timespec *left)
{
	if (!shown_ns)
		return (int)syscall(SYS_nanosleep, span, left);
	shown_ns += (uint64_t)span->tv_sec * SECOND_NS + (uint64_t)span->tv_nsec;
	if (getenv("MPIWAIT_MEANWHILE") && !atomic_exchange(&paused, true))
		return system(getenv("MPIWAIT_MEANWHILE")) ? abort(), -1 : 0;
	return 0;
}

static bool is_writers(int file)
{
	const char name[] = "/.writer";
	char link[32], path[PATH_MAX] = "";
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	length = readlink(link, path, sizeof(path) - 1);
	return length > (ssize_t)strlen(name) && strcmp(path + length - strlen(name), name) == 0;
}

int flock(int file, int operation)
{
	static _Atomic bool released;
	const char *command = getenv("MPIWAIT_AT_RELEASE");

	if (command && operation == LOCK_UN && is_writers(file) && !atomic_exchange(&released, true) && system(command))
		abort();
	return (int)syscall(SYS_flock, file, operation);
}

unsigned sleep(unsigned seconds)
{
	return nanosleep(&(struct timespec){.tv_sec = seconds}, NULL) ? seconds : 0;
}

struct passwd *getpwnam(const char *name)
{
	static struct passwd me;
	const char *mine = getenv("MPIWAIT_ME");
	struct passwd *(*next)(const char *) = (struct passwd * (*)(const char *)) dlsym(RTLD_NEXT, "getpwnam");

	me.pw_uid = getuid();
	return mine && strcmp(name, mine) == 0 ? &me : next(name);
}

static void look_away(void)
{
	syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

/* Under the test's clock, returns now and then before the time, as POSIX permits. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline)
{
	uint64_t deadline_ns = (uint64_t)deadline->tv_sec * SECOND_NS + (uint64_t)deadline->tv_nsec;
	int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

	if (!shown_ns) {
		next = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlsym(
		        RTLD_NEXT, "pthread_cond_timedwait");
		return next(condition, mutex, deadline);
	}
	awaited_ns = deadline_ns;
	pthread_mutex_unlock(mutex);
	look_away();
	pthread_mutex_lock(mutex);
	if (shown_ns - BOOTED_NS < deadline_ns)
		return 0;
	awaited_ns = 0;
	return ETIMEDOUT;
}

struct elsewhere_calls elsewhere_calls(void)
{
	return (struct elsewhere_calls){opens, reads};
}

void elsewhere_advance(uint64_t now_ns)
{
	while (!awaited_ns)
		look_away();
	shown_ns = now_ns;
	while (awaited_ns <= now_ns - BOOTED_NS)
		look_away();
}
