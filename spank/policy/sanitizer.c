#include "spank/policy/sanitizer.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define OPTION     "verify_asan_link_order"
#define OURS       OPTION "=0"
#define SEPARATORS " ,:\n\t\r" /* from sanitizer_flag_parser.cpp in compiler-rt */

/* Returns the first entry of options that begins with text, or NULL. */
static char *find_entry(const char *options, const char *text)
{
	for (const char *at = options; (at = strstr(at, text)); at++)
		if (at == options || strchr(SEPARATORS, at[-1]))
			return (char *)at;
	return NULL;
}

bool sanitizer_is_told(const char *options)
{
	return find_entry(options, OPTION "=") != NULL;
}

char *sanitizer_add(const char *options)
{
	char *text;

	return asprintf(&text, "%s%s%s", options, options[0] ? ":" : "", OURS) < 0 ? NULL : text;
}

bool sanitizer_remove(char *options)
{
	char *ours = find_entry(options, OURS), *rest;

	if (!ours || (ours[strlen(OURS)] && !strchr(SEPARATORS, ours[strlen(OURS)])))
		return false;
	rest = ours + strlen(OURS);
	if (ours > options)
		ours--;
	else if (*rest)
		rest++;
	memmove(ours, rest, strlen(rest) + 1);
	return true;
}
