#include "spank/cpufreq/board.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"
#include "spank/base/files.h"

#define WAITERS 8 /* that an answer wakes: more have no business there, and look again by themselves */

static size_t page_size(uint32_t cpus)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size_t)(mpiwait_board_size(cpus) + page - 1) / page * page;
}

static int seal(int descriptor, size_t size)
{
	if (ftruncate(descriptor, (off_t)size) < 0 || fchmod(descriptor, 0444) < 0 ||
	    fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return 0;
}

/* Another description of the same file, which can only read. */
static int open_for_reading(int descriptor)
{
	char path[32];
	int reads;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
	reads = open(path, O_RDONLY | O_CLOEXEC);
	return reads < 0 ? -errno : reads;
}

/* No child has the mapping: none of them could write by it between fork and exec. */
static int map(int descriptor, uint32_t cpus, struct board *board)
{
	size_t size = page_size(cpus);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);

	if (page == MAP_FAILED)
		return -errno;
	board->page = page;
	if (madvise(page, size, MADV_DONTFORK) < 0)
		return -errno;
	board->page->cpus = cpus;
	board->page->magic = MPIWAIT_BOARD_MAGIC;
	return 0;
}

int board_create(uint32_t cpus, struct board *ret_board, struct error *error)
{
	cleanup_close int descriptor = memory_file("mpi-wait-board");
	struct board board = BOARD_NONE;
	struct stat status;
	int rc = descriptor < 0 ? -errno : seal(descriptor, page_size(cpus));

	if (rc == 0)
		rc = map(descriptor, cpus, &board);
	if (rc == 0)
		rc = board.descriptor = open_for_reading(descriptor);
	if (rc >= 0)
		rc = fstat(descriptor, &status) < 0 ? -errno : 0;
	if (rc < 0) {
		board_end(&board);
		return error_set(error, rc, "no lease: no board: %s", strerror(-rc));
	}
	board.device = status.st_dev;
	board.inode = status.st_ino;
	*ret_board = board;
	return 0;
}

static long futex(const uint32_t *word, int operation, uint32_t value, const struct timespec *most)
{
	return syscall(SYS_futex, word, operation, value, most, NULL, 0);
}

void board_reply(const struct board *board, uint32_t cpu, uint64_t reply)
{
	const char *word = (const char *)&board->page->reply[cpu];

	__atomic_store_n(&board->page->reply[cpu], reply, __ATOMIC_RELEASE);
	futex((const uint32_t *)(const void *)(word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0)), FUTEX_WAKE,
	      WAITERS, NULL);
}

void board_wait(const struct board *board, uint64_t most_ns)
{
	const struct timespec most = clock_timespec(most_ns);

	futex(&board->page->bell, FUTEX_WAIT, 0, &most);
}

void board_ring(const struct board *board)
{
	futex(&board->page->bell, FUTEX_WAKE, INT_MAX, NULL);
}

void board_close(const struct board *board)
{
	__atomic_store_n(&board->page->over, 1, __ATOMIC_RELEASE);
}

void board_end(struct board *board)
{
	if (board->page)
		munmap(board->page, page_size(board->page->cpus));
	if (board->descriptor >= 0)
		close(board->descriptor);
	*board = BOARD_NONE;
}
