/*
 * Matches the name of a program with a pattern of the site's file programs=. Both halves use this function, so that a
 * step's program and a rank's own match alike.
 *
 * A pattern has two special characters: '*' stands for any number of characters, '?' for one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns true if the whole name matches the first `length` bytes of pattern. After a mismatch only the latest '*'
 * takes one character more, so the work is at most the product of both lengths.
 */
static inline bool program_name_matches(const char *pattern, size_t length, const char *name)
{
	size_t at = 0, star = length;
	const char *retry = name;

	while (*name) {
		if (at < length && pattern[at] == '*') {
			star = at++;
			retry = name;
		} else if (at < length && (pattern[at] == '?' || pattern[at] == *name)) {
			at++;
			name++;
		} else if (star < length) {
			at = star + 1;
			name = ++retry;
		} else {
			return false;
		}
	}
	while (at < length && pattern[at] == '*')
		at++;
	return at == length;
}
