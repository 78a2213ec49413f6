#include "spank/policy/preload_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY_NAME "libmpiwait.so"
#define SEPARATORS   ": "

/* Prefixes of sanitizer runtimes' file names: gcc's, one for each sanitizer, then that of LLVM and its derivatives. */
static const char *const first_libraries[] = {
        "libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so", "libubsan.so", "libclang_rt.",
};

struct entry {
	const char *at;
	size_t length;
};

/* Reads the next entry and moves *cursor behind it. Returns false at the list's end. */
static bool next_entry(const char **cursor, struct entry *ret_entry)
{
	const char *at = *cursor + strspn(*cursor, SEPARATORS);
	size_t length = strcspn(at, SEPARATORS);

	*cursor = at + length;
	*ret_entry = (struct entry){at, length};
	return length > 0;
}

static struct entry name_of(struct entry entry)
{
	const char *slash = memrchr(entry.at, '/', entry.length);
	size_t directory = slash ? (size_t)(slash - entry.at) + 1 : 0;

	return (struct entry){entry.at + directory, entry.length - directory};
}

/* Returns true for /proc/self/fd/NUMBER and /proc/PID/fd/NUMBER. */
static bool is_by_descriptor(struct entry entry)
{
	int length = 0;

	sscanf(entry.at, "/proc/%*[0-9self]/fd/%n", &length);
	return length > 0;
}

static bool is_ours(struct entry entry)
{
	struct entry name = name_of(entry);

	return is_by_descriptor(entry) ||
	       (name.length == strlen(LIBRARY_NAME) && strncmp(name.at, LIBRARY_NAME, name.length) == 0);
}

static bool must_be_first(struct entry entry)
{
	struct entry name = name_of(entry);

	for (size_t i = 0; i < sizeof(first_libraries) / sizeof(first_libraries[0]); i++)
		if (strncmp(name.at, first_libraries[i], strlen(first_libraries[i])) == 0)
			return true;
	return false;
}

static bool has_ours(const char *list)
{
	struct entry entry;

	while (next_entry(&list, &entry))
		if (is_ours(entry))
			return true;
	return false;
}

void preload_list_strip(char *list)
{
	const char *cursor = list;
	char *end = list;
	struct entry entry;

	if (!has_ours(list))
		return;
	while (next_entry(&cursor, &entry)) {
		if (is_ours(entry))
			continue;
		if (end > list)
			*end++ = ':';
		end = (char *)memmove(end, entry.at, entry.length) + entry.length;
	}
	*end = '\0';
}

char *preload_list_add(const char *list, const char *library)
{
	const char *cursor = list, *rest = list;
	struct entry entry;
	char *text;

	while (next_entry(&cursor, &entry))
		if (must_be_first(entry))
			rest = cursor;
	cursor = rest + strspn(rest, SEPARATORS);
	if (asprintf(&text, "%.*s%s%s%s%s", (int)(rest - list), list, rest > list ? ":" : "", library,
	             *cursor ? ":" : "", cursor) < 0)
		return NULL;
	return text;
}
