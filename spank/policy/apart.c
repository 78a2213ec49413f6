#include "spank/policy/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"
#include "spank/base/detach.h"
#include "spank/base/files.h"

#define APART_MS 2000 /* time that the reading process has */

/* Shared with the reading process, which fills `found` and then closes its end of a pipe. */
struct apart {
	pid_t pid; /* the reading process; 0: not started yet */
	bool is_read;
	void *found; /* shared memory too */
};

/*
 * The reading process. It keeps no descriptor of the caller's but the pipe's end: a reader of another pipe of the
 * caller's would wait for this process to close it.
 */
static _Noreturn void apart_main(const char *path, apart_reader reader, int end, struct apart *apart)
{
	int null = open("/dev/null", O_RDWR);

	apart->pid = getpid();
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || dup2(end, 3) < 0)
		_exit(EXIT_FAILURE);
	descriptors_close_from(4);
	reader(path, apart->found);
	apart->is_read = true;
	_exit(EXIT_SUCCESS);
}

/* Starts the reading process, which is no child of the host process. Returns 0 or -errno. */
static int apart_start(const char *path, apart_reader reader, int end, struct apart *apart)
{
	int result = detach_fork();

	if (result > 0)
		apart_main(path, reader, end, apart);
	return result;
}

/* Waits for the reading process. After APART_MS kills it, and does not wait for its end: it may hang in the kernel. */
static int apart_wait(int end, const struct apart *apart)
{
	uint64_t deadline_ns = clock_monotonic_ns() + APART_MS * UINT64_C(1000000), now_ns;
	struct pollfd pipe = {.fd = end, .events = POLLIN};

	while ((now_ns = clock_monotonic_ns()) < deadline_ns)
		if (poll(&pipe, 1, (int)((deadline_ns - now_ns) / 1000000) + 1) > 0)
			return apart->is_read ? 0 : -EIO;
	if (apart->pid > 0)
		kill(apart->pid, SIGKILL);
	return -ETIMEDOUT;
}

static void *shared_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Runs the reader with memory that is there already. Returns 0 or -errno. */
static int apart_run(const char *path, apart_reader reader, struct apart *apart)
{
	int ends[2] = {-1, -1}, result = pipe2(ends, O_CLOEXEC) ? -errno : 0;

	if (!result)
		result = apart_start(path, reader, ends[1], apart);
	cleanup_close_descriptor(&ends[1]);
	if (!result)
		result = apart_wait(ends[0], apart);
	cleanup_close_descriptor(&ends[0]);
	return result;
}

void *apart_read(const char *path, apart_reader reader, size_t size)
{
	struct apart *apart = shared_map(sizeof(*apart));
	void *found = apart ? shared_map(size) : NULL;
	int result = -ENOMEM;

	if (found) {
		apart->found = found;
		result = apart_run(path, reader, apart);
	}
	if (apart)
		munmap(apart, sizeof(*apart));
	if (!result)
		return found;
	if (found)
		munmap(found, size);
	errno = -result;
	return NULL;
}
