/*
 * Listing: the names in a directory, sorted. A directory of thousands of records is read once, and a job's files are
 * found in the listing by their key.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct listing {
	char **name;
	size_t count;
	bool is_read;
};

/* Reads the names that may be a record's (files_name_ok) anew. Returns 0 or -errno, with an empty listing. */
int listing_read(int directory, struct listing *listing);

/* Returns the index of the first name that begins with key and a dot, or would come after such names. */
size_t listing_find(const struct listing *listing, const char *key);

void listing_free(struct listing *listing);
