#include "spank/base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

int inherit_descriptor(int descriptor, int from)
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
