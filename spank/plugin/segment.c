#include "spank/plugin/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "preload/stats.h"
#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"

static int fill(int descriptor, uint32_t slot_count, uint32_t uid, uint32_t gid)
{
	struct mpiwait_header header = {
	        .magic = MPIWAIT_MAGIC,
	        .version = MPIWAIT_VERSION,
	        .header_size = sizeof(struct mpiwait_header),
	        .slot_size = sizeof(struct mpiwait_slot),
	        .slot_count = slot_count,
	        .sizes_size = sizeof(struct mpiwait_sizes),
	};

	if (ftruncate(descriptor, (off_t)mpiwait_segment_size(slot_count)) < 0 ||
	    pwrite(descriptor, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
	    fchmod(descriptor, 0600) < 0 || fchown(descriptor, uid, gid) < 0)
		return -errno;
	return 0;
}

int segment_create(uint32_t uid, uint32_t gid, struct segment *ret_segment, struct error *error)
{
	cleanup_close int descriptor = memory_file("mpi-wait");
	struct stat status;
	int rc;

	if (descriptor < 0)
		return error_set(error, -errno, "no stats segment: memfd_create: %s", strerror(errno));
	rc = fill(descriptor, MPIWAIT_SLOTS_MAX, uid, gid);
	if (rc < 0)
		return error_set(error, rc, "no stats segment: %s", strerror(-rc));
	if (fstat(descriptor, &status) < 0)
		return error_set(error, -errno, "no stats segment: %s", strerror(errno));
	ret_segment->device = status.st_dev;
	ret_segment->inode = status.st_ino;
	ret_segment->descriptor = take_descriptor(&descriptor);
	return 0;
}

int segment_hand_down(const struct segment *segment, struct error *error)
{
	int descriptor = inherit_descriptor(segment->descriptor, INHERIT_FROM);

	if (descriptor < 0)
		return error_set(error, -errno, "no stats segment: no descriptor from %d on: %s", INHERIT_FROM,
		                 strerror(errno));
	return descriptor;
}
