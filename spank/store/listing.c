#include "spank/store/listing.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SETTLED_S 3 /* more than a tick of any file system's clock; FAT's is 2 s */

static int name_compare(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

static int name_add(struct listing *listing, const char *name)
{
	char **bigger = memory_more(listing->name, listing->count, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	listing->name = bigger;
	listing->name[listing->count] = memory_copy(name);
	if (!listing->name[listing->count])
		return -ENOMEM;
	listing->count++;
	return 0;
}

static bool is_same(struct timespec one, struct timespec other)
{
	return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

/* Notes the dates, before the directory is read: a change meanwhile then shows at the next refresh. */
static void dates_note(int directory, struct listing *listing)
{
	time_t settled = time(NULL) - SETTLED_S;
	struct stat status;

	if (fstat(directory, &status))
		return;
	listing->modified = status.st_mtim;
	listing->changed = status.st_ctim;
	listing->is_settled = status.st_mtim.tv_sec < settled && status.st_ctim.tv_sec < settled;
}

int listing_read(int directory, struct listing *listing)
{
	cleanup_closedir DIR *entries = files_entries(directory);
	const struct dirent *entry;
	int result = entries ? 0 : -errno;

	listing_free(listing);
	dates_note(directory, listing);
	while (!result && (errno = 0, entry = readdir(entries)))
		if (files_name_ok(entry->d_name))
			result = name_add(listing, entry->d_name);
	if (!result)
		result = -errno;
	if (result) {
		listing_free(listing);
		return result;
	}
	if (listing->count > 0)
		qsort(listing->name, listing->count, sizeof(*listing->name), name_compare);
	listing->is_read = true;
	return 0;
}

int listing_refresh(int directory, struct listing *listing)
{
	struct stat status;

	if (listing->is_read && listing->is_settled && fstat(directory, &status) == 0 &&
	    is_same(status.st_mtim, listing->modified) && is_same(status.st_ctim, listing->changed))
		return 0;
	return listing_read(directory, listing);
}

/* Compares the beginning of a name with key and a dot, as strcmp; length is key's. */
static int prefix_compare(const char *name, const char *key, size_t length)
{
	int order = strncmp(name, key, length);

	return order ? order : (unsigned char)name[length] - '.';
}

size_t listing_find(const struct listing *listing, const char *key)
{
	size_t low = 0, high = listing->count, length = strlen(key);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (prefix_compare(listing->name[middle], key, length) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void listing_free(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->name[i]);
	free(listing->name);
	*listing = (struct listing){.name = NULL};
}
