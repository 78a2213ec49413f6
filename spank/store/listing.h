/* Listing: the sorted names in a directory. It is read once, and a job's files are found in it by their key. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct listing {
	char **name;
	size_t count;
	bool is_read; /* the directory was read; false in a zeroed struct */
};

/*
 * Replaces the listing by the names that may be a record's (files_name_ok). Returns 0, or -errno with an empty listing.
 */
int listing_read(int directory, struct listing *listing);

/* Returns the index of the first name that begins with key and a dot; without one, the index at which it would be. */
size_t listing_find(const struct listing *listing, const char *key);

/* Frees the names; the listing counts as not read then. */
void listing_free(struct listing *listing);
