/*
 * Preloaded into the project's programs: makes one call of the C library fail, or all calls from that one on.
 *
 *     MPIWAIT_FAULT=KIND:N:ERROR    the Nth call of that kind, "memory" or "io", fails with that error number;
 *                                   "N+": all later ones fail too
 *     MPIWAIT_FAULT_IN=NAME         counts calls from the object whose path ends so (default: from the program itself)
 *     MPIWAIT_FAULT_LOG=FILE        gets a line with the name of the first call that failed
 *
 * Calls from other libraries are neither counted nor failed: libslurm's behaviour without memory is not under test.
 */
#undef _FILE_OFFSET_BITS /* both names of each function are defined here: open and open64 */
#undef _FORTIFY_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum kind { KIND_NONE, KIND_MEMORY, KIND_IO };

static struct {
	enum kind kind;
	unsigned at;
	bool rest; /* true: all later calls fail too */
	int error;
	const char *in;
	uintptr_t begin, end; /* address range of the object */
	_Atomic unsigned calls;
} plan;

static bool is_wanted(const char *name)
{
	size_t length = strlen(name), wanted = strlen(plan.in);

	return wanted ? length >= wanted && strcmp(name + length - wanted, plan.in) == 0 : length == 0;
}

static int object_look(struct dl_phdr_info *object, size_t size, void *context)
{
	(void)size;
	(void)context;
	if (!is_wanted(object->dlpi_name))
		return 0;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		plan.begin = object->dlpi_addr + part->p_vaddr;
		plan.end = plan.begin + part->p_memsz;
	}
	return 1;
}

__attribute__((constructor)) static void plan_read(void)
{
	const char *text = getenv("MPIWAIT_FAULT"), *in = getenv("MPIWAIT_FAULT_IN");
	char kind[8], plus[2] = "";

	plan.in = in ? in : "";
	dl_iterate_phdr(object_look, NULL);
	if (!text || (sscanf(text, "%7[a-z]:%u:%d", kind, &plan.at, &plan.error) != 3 &&
	              sscanf(text, "%7[a-z]:%u%1[+]:%d", kind, &plan.at, plus, &plan.error) != 4))
		return;
	plan.rest = plus[0] == '+';
	plan.kind = strcmp(kind, "memory") == 0 ? KIND_MEMORY : KIND_IO;
}

static void say(const char *name)
{
	const char *path = getenv("MPIWAIT_FAULT_LOG");
	long file = path ? syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;

	if (file < 0)
		return;
	syscall(SYS_write, file, name, strlen(name));
	syscall(SYS_write, file, "\n", 1);
	syscall(SYS_close, file);
}

static bool due(enum kind kind, const char *name, const void *caller)
{
	unsigned call;

	if (kind != plan.kind || (uintptr_t)caller < plan.begin || (uintptr_t)caller >= plan.end)
		return false;
	call = atomic_fetch_add(&plan.calls, 1) + 1;
	if (call < plan.at || (call > plan.at && !plan.rest))
		return false;
	if (call == plan.at)
		say(name);
	errno = plan.error;
	return true;
}

#define EXPORT __attribute__((visibility("default")))

#define NEXT(type, name, parameters)   \
	static type(*next) parameters; \
	if (!next)                     \
	next = (type(*) parameters)dlsym(RTLD_NEXT, name)

#define FAILS(kind, type, name, failure, parameters, arguments)    \
	EXPORT type name parameters;                               \
	EXPORT type name parameters                                \
	{                                                          \
		NEXT(type, #name, parameters);                     \
		if (due(kind, #name, __builtin_return_address(0))) \
			return failure;                            \
		return next arguments;                             \
	}

#define IO(type, name, failure, parameters, arguments) FAILS(KIND_IO, type, name, failure, parameters, arguments)

/* glibc's own allocators, for allocations before dlsym can be called. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

EXPORT void *malloc(size_t size)
{
	return due(KIND_MEMORY, "malloc", __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
	return due(KIND_MEMORY, "calloc", __builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
	return due(KIND_MEMORY, "realloc", __builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}

FAILS(KIND_MEMORY, void *, aligned_alloc, NULL, (size_t alignment, size_t size), (alignment, size))
FAILS(KIND_MEMORY, char *, strdup, NULL, (const char *text), (text))
FAILS(KIND_MEMORY, char *, strndup, NULL, (const char *text, size_t length), (text, length))
FAILS(KIND_MEMORY, void *, mmap, MAP_FAILED,
      (void *at, size_t length, int protection, int flags, int file, off_t offset),
      (at, length, protection, flags, file, offset))
FAILS(KIND_MEMORY, void *, mmap64, MAP_FAILED,
      (void *at, size_t length, int protection, int flags, int file, off_t offset),
      (at, length, protection, flags, file, offset))
FAILS(KIND_MEMORY, pid_t, fork, -1, (void), ())
FAILS(KIND_MEMORY, int, memfd_create, -1, (const char *name, unsigned flags), (name, flags))
FAILS(KIND_MEMORY, int, pthread_create, EAGAIN,
      (pthread_t * thread, const pthread_attr_t *how, void *(*body)(void *), void *context),
      (thread, how, body, context))

EXPORT int __vasprintf_chk(char **text, int flag, const char *format, va_list words);
EXPORT int __asprintf_chk(char **text, int flag, const char *format, ...);
EXPORT int __asprintf_chk(char **text, int flag, const char *format, ...)
{
	va_list words;
	int length;

	NEXT(int, "__vasprintf_chk", (char **, int, const char *, va_list));
	if (due(KIND_MEMORY, "asprintf", __builtin_return_address(0)))
		return -1;
	va_start(words, format);
	length = next(text, flag, format, words);
	va_end(words);
	return length;
}

#define OPENS(name)                                                            \
	EXPORT int name(const char *path, int flags, ...)                      \
	{                                                                      \
		va_list words;                                                 \
		int mode;                                                      \
		NEXT(int, #name, (const char *, int, ...));                    \
		va_start(words, flags);                                        \
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(words, int) : 0; \
		va_end(words);                                                 \
		if (due(KIND_IO, #name, __builtin_return_address(0)))          \
			return -1;                                             \
		return next(path, flags, mode);                                \
	}

#define OPENS_AT(name)                                                         \
	EXPORT int name(int directory, const char *path, int flags, ...)       \
	{                                                                      \
		va_list words;                                                 \
		int mode;                                                      \
		NEXT(int, #name, (int, const char *, int, ...));               \
		va_start(words, flags);                                        \
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(words, int) : 0; \
		va_end(words);                                                 \
		if (due(KIND_IO, #name, __builtin_return_address(0)))          \
			return -1;                                             \
		return next(directory, path, flags, mode);                     \
	}

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
IO(int, __open_2, -1, (const char *path, int flags), (path, flags))
IO(int, __open64_2, -1, (const char *path, int flags), (path, flags))
IO(int, __openat_2, -1, (int directory, const char *path, int flags), (directory, path, flags))
IO(int, __openat64_2, -1, (int directory, const char *path, int flags), (directory, path, flags))
IO(FILE *, fopen, NULL, (const char *path, const char *mode), (path, mode))
IO(FILE *, fopen64, NULL, (const char *path, const char *mode), (path, mode))
IO(char *, fgets, NULL, (char *line, int size, FILE *stream), (line, size, stream))
IO(DIR *, opendir, NULL, (const char *path), (path))
IO(DIR *, fdopendir, NULL, (int directory), (directory))
IO(struct dirent *, readdir, NULL, (DIR * entries), (entries))
IO(struct dirent64 *, readdir64, NULL, (DIR * entries), (entries))
IO(ssize_t, read, -1, (int file, void *bytes, size_t length), (file, bytes, length))
IO(ssize_t, pread, -1, (int file, void *bytes, size_t length, off_t at), (file, bytes, length, at))
IO(ssize_t, pread64, -1, (int file, void *bytes, size_t length, off64_t at), (file, bytes, length, at))
IO(ssize_t, write, -1, (int file, const void *bytes, size_t length), (file, bytes, length))
IO(ssize_t, pwrite, -1, (int file, const void *bytes, size_t length, off_t at), (file, bytes, length, at))
IO(ssize_t, pwrite64, -1, (int file, const void *bytes, size_t length, off64_t at), (file, bytes, length, at))
IO(int, fsync, -1, (int file), (file))
IO(int, fdatasync, -1, (int file), (file))
IO(int, ftruncate, -1, (int file, off_t length), (file, length))
IO(int, ftruncate64, -1, (int file, off64_t length), (file, length))
IO(int, rename, -1, (const char *from, const char *to), (from, to))
IO(int, renameat, -1, (int from_in, const char *from, int to_in, const char *to), (from_in, from, to_in, to))
IO(int, mkdir, -1, (const char *path, mode_t mode), (path, mode))
IO(int, mkdirat, -1, (int directory, const char *path, mode_t mode), (directory, path, mode))
IO(int, unlink, -1, (const char *path), (path))
IO(int, unlinkat, -1, (int directory, const char *path, int flags), (directory, path, flags))
IO(int, access, -1, (const char *path, int mode), (path, mode))
IO(int, faccessat, -1, (int directory, const char *path, int mode, int flags), (directory, path, mode, flags))
IO(int, fstat, -1, (int file, struct stat *status), (file, status))
IO(int, fstat64, -1, (int file, struct stat64 *status), (file, status))
IO(int, fstatat, -1, (int in, const char *path, struct stat *status, int flags), (in, path, status, flags))
IO(int, fstatat64, -1, (int in, const char *path, struct stat64 *status, int flags), (in, path, status, flags))
IO(int, fstatfs, -1, (int file, struct statfs *status), (file, status))
IO(int, fstatfs64, -1, (int file, struct statfs64 *status), (file, status))
IO(ssize_t, readlinkat, -1, (int in, const char *path, char *target, size_t size), (in, path, target, size))
IO(int, flock, -1, (int file, int operation), (file, operation))
IO(int, fchown, -1, (int file, uid_t user, gid_t group), (file, user, group))
IO(int, fchmod, -1, (int file, mode_t mode), (file, mode))
IO(int, futimens, -1, (int file, const struct timespec times[2]), (file, times))
IO(int, seteuid, -1, (uid_t user), (user))
IO(ssize_t, getrandom, -1, (void *bytes, size_t length, unsigned flags), (bytes, length, flags))
IO(int, eventfd, -1, (unsigned count, int flags), (count, flags))
IO(int, socketpair, -1, (int domain, int type, int protocol, int pair[2]), (domain, type, protocol, pair))

EXPORT int fcntl64(int file, int command, ...)
{
	va_list words;
	long word;

	NEXT(int, "fcntl64", (int, int, ...));
	va_start(words, command);
	word = va_arg(words, long);
	va_end(words);
	return due(KIND_IO, "fcntl", __builtin_return_address(0)) ? -1 : next(file, command, word);
}

/* Finds the object to inject into, once the program has loaded it. */
EXPORT void *dlopen(const char *path, int flags)
{
	void *object;

	NEXT(void *, "dlopen", (const char *, int));
	object = next(path, flags);
	if (plan.kind != KIND_NONE && !plan.end)
		dl_iterate_phdr(object_look, NULL);
	return object;
}
