#include "spank/plugin/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "preload/contract/stats.h"
#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"

int segment_create(uint32_t uid, uint32_t gid, struct error *error)
{
	static const struct mpiwait_header header = {
	        .magic = MPIWAIT_MAGIC,
	        .version = MPIWAIT_VERSION,
	        .header_size = sizeof(struct mpiwait_header),
	        .slot_size = sizeof(struct mpiwait_slot),
	        .slot_count = MPIWAIT_SLOTS_MAX,
	        .sizes_size = sizeof(struct mpiwait_sizes),
	};
	cleanup_close int descriptor = memory_file("mpi-wait");

	if (descriptor < 0)
		return error_set(error, -errno, "no stats segment: memfd_create: %s; waits are not counted",
		                 strerror(errno));
	if (ftruncate(descriptor, (off_t)mpiwait_segment_size(MPIWAIT_SLOTS_MAX)) < 0 ||
	    pwrite(descriptor, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
	    fchmod(descriptor, 0600) < 0 || fchown(descriptor, uid, gid) < 0)
		return error_set(error, -errno, "no stats segment: %s; waits are not counted", strerror(errno));
	return take_descriptor(&descriptor);
}
