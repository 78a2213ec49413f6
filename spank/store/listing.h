/*
 * Listing: the sorted names in a directory. It is read once, and a job's files are found in it by their key.
 *
 * The directory's dates tell whether it has changed since. Two changes within one tick of the clock have one date, so
 * dates younger than a few seconds at the reading tell nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct listing {
	char **name;
	size_t count;
	bool is_read;             /* the directory was read; false in a zeroed struct */
	bool is_settled;          /* the two dates were old enough to tell a later change */
	struct timespec modified; /* the directory's st_mtim before it was read */
	struct timespec changed;  /* the directory's st_ctim before it was read */
};

/*
 * Replaces the listing by the names that may be a record's (files_name_ok). Returns 0, or -errno with an empty listing.
 */
int listing_read(int directory, struct listing *listing);

/* As listing_read, but keeps the listing if the directory has not changed since it was read. */
int listing_refresh(int directory, struct listing *listing);

/* Returns the index of the first name that begins with key and a dot; without one, the index at which it would be. */
size_t listing_find(const struct listing *listing, const char *key);

/* Frees the names; the listing counts as not read then. */
void listing_free(struct listing *listing);
