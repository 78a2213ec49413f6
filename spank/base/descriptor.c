#include "spank/base/descriptor.h"

#include "preload/contract/config_format.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 65536 /* numbers below this are closed one by one if the kernel has no close_range */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Returns a copy with the first free number from `from` on, above the soft limit if need be; or -1 and errno. */
static int duplicate(int descriptor, int from)
{
	int copy = fcntl(descriptor, F_DUPFD, from), problem;
	struct rlimit limit, most;

	if (copy >= 0 || errno != EINVAL || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return copy;
	most = (struct rlimit){limit.rlim_max, limit.rlim_max};
	setrlimit(RLIMIT_NOFILE, &most);
	copy = fcntl(descriptor, F_DUPFD, from);
	problem = errno;
	setrlimit(RLIMIT_NOFILE, &limit);
	errno = problem;
	return copy;
}

int inherit_descriptor(int descriptor, int from)
{
	int copy = duplicate(descriptor, from);

	return copy < 0 && errno == EINVAL ? duplicate(descriptor, INHERITED_FIRST) : copy;
}

void inherit_spare(int inherited)
{
	int spare = duplicate(inherited, inherited + INHERITED_SPARE);

	if (spare >= 0 && spare != inherited + INHERITED_SPARE)
		close(spare);
}

/*
 * MFD_NOEXEC_SEAL: with vm.memfd_noexec=2 (Linux 6.3) the kernel makes no executable memfd. Older kernels refuse the
 * flag with EINVAL.
 */
int memory_file(const char *name)
{
	int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	return descriptor < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : descriptor;
}

void descriptors_close_from(unsigned first)
{
	if (syscall(SYS_close_range, first, ~0U, 0) == 0)
		return;
	for (unsigned descriptor = first; descriptor < DESCRIPTORS_MAX; descriptor++)
		close((int)descriptor);
}
