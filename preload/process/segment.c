/* Maps the stats segment and claims a slot. Invariant: segment.h. */
#include "preload/process/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process/inherited.h"
#include "preload/process/notes.h"

static struct mpiwait_slot slot_private;
static struct mpiwait_header header_private = {.claimed = 1};

/* A raw system call: fstat is newer than glibc 2.17, or before 2.33 no function at all. */
static int fd_stat(int fd, struct stat *ret_status)
{
	return (int)syscall(SYS_fstat, fd, ret_status);
}

static bool header_is_good(int fd, struct mpiwait_header *ret_header)
{
	struct stat status;

	if (pread(fd, ret_header, sizeof(*ret_header), 0) != (ssize_t)sizeof(*ret_header))
		return false;
	return ret_header->magic == MPIWAIT_MAGIC && ret_header->version == MPIWAIT_VERSION &&
	       ret_header->header_size == sizeof(struct mpiwait_header) &&
	       ret_header->slot_size == sizeof(struct mpiwait_slot) &&
	       ret_header->sizes_size == sizeof(struct mpiwait_sizes) && ret_header->slot_count >= MPIWAIT_SLOTS_MIN &&
	       ret_header->slot_count <= MPIWAIT_SLOTS_MAX && fd_stat(fd, &status) == 0 && status.st_size > 0 &&
	       (uint64_t)status.st_size >= mpiwait_segment_size(ret_header->slot_count);
}

/* Maps a part of the segment, which need not begin at a page. NULL: it cannot be mapped. */
static void *window_map(int fd, uint64_t offset, size_t size)
{
	size_t before = (size_t)(offset % (uint64_t)getpagesize());
	char *window = mmap(NULL, before + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - before));

	return window == MAP_FAILED ? NULL : window + before;
}

/* Claims the caller's slot. Returns its index, 0 to slot_count - 1, or -1. */
static int64_t index_claim(int fd, uint32_t slot_count)
{
	struct mpiwait_header *header = window_map(fd, 0, sizeof(*header));
	uint32_t index;

	if (!header)
		return -1;
	index = __atomic_fetch_add(&header->claimed, 1, __ATOMIC_ACQ_REL);
	munmap(header, sizeof(*header));
	return index < slot_count ? (int64_t)index : -1;
}

/*
 * Maps only the caller's slot, and its sizes only if they are wanted: address space may be limited. A slot that is not
 * free, though just claimed, was written by somebody who breaks the rules, and is not used.
 */
static struct mpiwait_slot *segment_map(int fd, uint32_t slot_count, struct mpiwait_sizes **ret_sizes)
{
	uint32_t expected = MPIWAIT_SLOT_FREE;
	int64_t index = index_claim(fd, slot_count);
	struct mpiwait_slot *slot;

	if (index < 0)
		return NULL;
	slot = window_map(fd, MPIWAIT_SLOTS_OFFSET + (uint64_t)index * sizeof(*slot), sizeof(*slot));
	if (!slot || !__atomic_compare_exchange_n(&slot->state, &expected, MPIWAIT_SLOT_CLAIMED, false,
	                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return NULL;
	if (ret_sizes)
		*ret_sizes = window_map(fd, mpiwait_sizes_offset(slot_count, (uint32_t)index), sizeof(**ret_sizes));
	return slot;
}

static int segment_open(const struct config *config, bool *ret_opened)
{
	const struct inherited segment = {.number = config->segment_fd,
	                                  .device = config->segment_dev,
	                                  .inode = config->segment_ino,
	                                  .task = config->task_pid,
	                                  .flags = O_RDWR};

	return inherited_find(&segment, ret_opened);
}

static struct mpiwait_slot *segment_find(const struct config *config, struct mpiwait_sizes **ret_sizes)
{
	struct mpiwait_header header;
	bool opened;
	int fd = segment_open(config, &opened);
	bool fits = fd >= 0 && header_is_good(fd, &header);
	struct mpiwait_slot *slot = fits ? segment_map(fd, header.slot_count, ret_sizes) : NULL;

	if (!fits && config->segment_fd >= 0)
		notes_add(config, fd < 0 ? MPIWAIT_NOTE_LOST : MPIWAIT_NOTE_UNFIT);
	if (opened)
		close(fd);
	return slot;
}

uint64_t *segment_words(const struct config *config, uint32_t count)
{
	struct mpiwait_header header;
	uint64_t *words = NULL;
	bool opened;
	int fd = segment_open(config, &opened);

	if (fd >= 0 && count <= MPIWAIT_WORDS && header_is_good(fd, &header))
		words = window_map(fd, MPIWAIT_WORDS_OFFSET, count * sizeof(*words));
	if (opened)
		close(fd);
	return words;
}

struct mpiwait_header *segment_header(const struct config *config, const struct mpiwait_slot *slot)
{
	struct mpiwait_header *header = NULL, found;
	bool opened = false;
	int saved = errno, fd = slot != &slot_private ? segment_open(config, &opened) : -1;

	if (fd >= 0 && header_is_good(fd, &found))
		header = window_map(fd, 0, sizeof(*header));
	if (opened)
		close(fd);
	errno = saved;
	return header ? header : &header_private;
}

struct mpiwait_header *segment_header_private(void)
{
	return &header_private;
}

bool segment_view_open(const struct config *config, struct segment_view *ret_view)
{
	struct segment_view view = {.slots = 0};
	struct mpiwait_header header;

	view.fd = segment_open(config, &view.opened);
	if (view.fd >= 0 && header_is_good(view.fd, &header)) {
		view.slot_count = header.slot_count;
		view.slots = header.claimed < header.slot_count ? header.claimed : header.slot_count;
		*ret_view = view;
		return true;
	}
	segment_view_close(&view);
	return false;
}

void segment_view_close(const struct segment_view *view)
{
	if (view->opened)
		close(view->fd);
}

const struct mpiwait_slot *segment_view_slot(const struct segment_view *view, uint32_t index)
{
	return window_map(view->fd, MPIWAIT_SLOTS_OFFSET + (uint64_t)index * sizeof(struct mpiwait_slot),
	                  sizeof(struct mpiwait_slot));
}

const struct mpiwait_sizes *segment_view_sizes(const struct segment_view *view, uint32_t index)
{
	return window_map(view->fd, mpiwait_sizes_offset(view->slot_count, index), sizeof(struct mpiwait_sizes));
}

void segment_unmap(const void *part, size_t size)
{
	size_t before = (uintptr_t)part % (uintptr_t)getpagesize();

	if (part)
		munmap((void *)((uintptr_t)part - before), before + size);
}

struct mpiwait_slot *segment_claim(const struct config *config, struct mpiwait_sizes **ret_sizes)
{
	int saved = errno;
	struct mpiwait_slot *slot = segment_find(config, config->profile ? ret_sizes : NULL);

	errno = saved;
	return slot ? slot : segment_private();
}

struct mpiwait_slot *segment_private(void)
{
	return &slot_private;
}
