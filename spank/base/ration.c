#include "spank/base/ration.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t divisors[SHARED_RATION_KINDS] = {[SHARED_RATION_SAMPLER] = 50, [SHARED_RATION_BROKER] = 40};

struct shared_ration {
	uint64_t until_ns[SHARED_RATION_KINDS]; /* CLOCK_MONOTONIC time until which the next user waits, by kind */
};

/*
 * Opens the file and gives it its length. Returns a descriptor or -errno. Its blocks are allocated here, because in a
 * full file system the first write to the mapping would kill the process.
 */
static int file_open(int directory, const char *name)
{
	cleanup_close int file = openat(directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	int result;

	if (file < 0)
		return -errno;
	if (files_refusal(file))
		return -EPERM;
	if (ftruncate(file, sizeof(struct shared_ration)) < 0)
		return -errno;
	result = posix_fallocate(file, 0, sizeof(struct shared_ration));
	return result ? -result : take_descriptor(&file);
}

struct shared_ration *shared_ration_open(int directory, const char *name)
{
	cleanup_close int file = directory < 0 ? -1 : file_open(directory, name);
	int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *page = mmap(NULL, sizeof(struct shared_ration), PROT_READ | PROT_WRITE, flags, file < 0 ? -1 : file, 0);

	return page == MAP_FAILED ? NULL : page;
}

void shared_ration_free(struct shared_ration *ration)
{
	if (ration)
		munmap(ration, sizeof(*ration));
}

uint64_t shared_ration_book(struct shared_ration *ration, enum shared_ration_kind kind, uint64_t cpu_ns,
                            uint64_t now_ns)
{
	uint64_t before, from;

	if (!ration)
		return now_ns;
	before = __atomic_load_n(&ration->until_ns[kind], __ATOMIC_RELAXED);
	do
		from = before > now_ns ? before : now_ns;
	while (!__atomic_compare_exchange_n(&ration->until_ns[kind], &before, from + cpu_ns * divisors[kind], false,
	                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return from;
}

uint64_t shared_ration_wait_ns(const struct shared_ration *ration, enum shared_ration_kind kind, uint64_t backlog_ns,
                               uint64_t now_ns)
{
	uint64_t until_ns = ration ? __atomic_load_n(&ration->until_ns[kind], __ATOMIC_RELAXED) : 0;
	uint64_t enough_ns = now_ns + backlog_ns * divisors[kind];

	return until_ns > enough_ns ? until_ns - enough_ns : 0;
}
