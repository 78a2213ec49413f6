#include "spank/machine/reserved.h"

#include "spank/base/cleanup.h"
#include "spank/base/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INCLUDES_MAX 8 /* depth of includes */

/* State while slurm.conf is read. */
struct reading {
	const char *node;
	struct reserved general; /* from lines NodeName=DEFAULT, for the lines after them */
	struct reserved own;
	bool found;
	bool first;
};

/*
 * Skips a number of the range "01-12" in `name`, printed as Slurm does, as wide as the range's first number. Returns
 * NULL if there is none.
 */
static const char *number_skip(const char *range, size_t length, const char *name)
{
	unsigned long first, last;
	char digits[24];
	int width = 0, given = 0, numbers;

	if (length >= sizeof(digits))
		return NULL;
	snprintf(digits, sizeof(digits), "%.*s", (int)length, range);
	numbers = sscanf(digits, "%lu%n-%lu", &first, &width, &last);
	if (numbers < 1)
		return NULL;
	if (numbers == 1)
		last = first;
	for (size_t most = strspn(name, "0123456789"); most > 0; most--) {
		char shown[24], text[24];
		unsigned long number;

		if (most >= sizeof(shown))
			continue;
		snprintf(shown, sizeof(shown), "%.*s", (int)most, name);
		number = strtoul(shown, NULL, 10);
		given = snprintf(text, sizeof(text), "%0*lu", width, number);
		if (number >= first && number <= last && (size_t)given == most && strcmp(text, shown) == 0)
			return name + most;
	}
	return NULL;
}

/* Returns true if the expression from pattern to end, "c[1-4]", contains `name`. */
static bool expression_has(const char *pattern, const char *end, const char *name)
{
	const char *close;

	while (pattern < end && *pattern != '[' && *pattern == *name)
		pattern++, name++;
	if (pattern == end)
		return *name == '\0';
	close = *pattern == '[' ? memchr(pattern, ']', (size_t)(end - pattern)) : NULL;
	if (!close)
		return false;
	for (const char *range = pattern + 1; range < close;) {
		size_t length = strcspn(range, ",]");
		const char *rest = number_skip(range, length, name);

		if (rest && expression_has(close + 1, end, rest))
			return true;
		range += length + 1;
	}
	return false;
}

bool reserved_names(const char *list, const char *node)
{
	const char *begin = list;
	bool inside = false;

	for (const char *at = list;; at++) {
		inside = *at == '[' || (inside && *at != ']');
		if (*at && (*at != ',' || inside))
			continue;
		if (expression_has(begin, at, node))
			return true;
		if (!*at)
			return false;
		begin = at + 1;
	}
}

static void number_take(const char *value, uint32_t *ret_number)
{
	uint64_t number;

	if (text_number(value, UINT32_MAX, &number))
		*ret_number = (uint32_t)number;
}

static void word_take(const char *key, const char *value, struct reserved *node)
{
	if (strcasecmp(key, "CoreSpecCount") == 0)
		number_take(value, &node->core_count);
	else if (strcasecmp(key, "CPUs") == 0 || strcasecmp(key, "Procs") == 0)
		number_take(value, &node->node_cpus);
	else if (strcasecmp(key, "CoresPerSocket") == 0)
		number_take(value, &node->cores_per_socket);
	else if (strcasecmp(key, "ThreadsPerCore") == 0)
		number_take(value, &node->threads_per_core);
	else if (strcasecmp(key, "CpuSpecList") == 0 && strlen(value) < sizeof(node->cpus))
		strcpy(node->cpus, value);
}

/* Takes a node's line. words: the text behind "NodeName=". */
static void node_take(struct reading *reading, char *words)
{
	char *saved = NULL, *names = strtok_r(words, " \t", &saved);
	bool general = names && strcasecmp(names, "DEFAULT") == 0;
	struct reserved *node = general ? &reading->general : &reading->own;

	if (!names || (!general && !reserved_names(names, reading->node)))
		return;
	if (!general)
		*node = reading->general;
	reading->found |= !general;
	for (char *word; (word = strtok_r(NULL, " \t", &saved));) {
		char *value = strchr(word, '=');

		if (!value)
			continue;
		*value++ = '\0';
		word_take(word, value, node);
	}
}

static void file_read(struct reading *reading, const char *path, int depth);

/* Reads an included file. A name without a directory is relative to the including file. */
static void include_read(struct reading *reading, const char *path, const char *name, int depth)
{
	const char *slash = strrchr(path, '/');
	char other[PATH_MAX];
	int folder = name[0] == '/' || !slash ? 0 : (int)(slash - path) + 1;

	if (depth < INCLUDES_MAX && snprintf(other, sizeof(other), "%.*s%s", folder, path, name) < (int)sizeof(other))
		file_read(reading, other, depth + 1);
}

static void line_take(struct reading *reading, const char *path, char *line, int depth)
{
	char *words = line + strspn(line, " \t");

	words[strcspn(words, "#\n")] = '\0';
	for (size_t end = strlen(words); end > 0 && strchr(" \t\r", words[end - 1]); end--)
		words[end - 1] = '\0';
	if (strncasecmp(words, "NodeName=", 9) == 0)
		node_take(reading, words + 9);
	else if (strncasecmp(words, "Include", 7) == 0 && strchr(" \t", words[7]) && words[7])
		include_read(reading, path, words + 7 + strspn(words + 7, " \t"), depth);
	else if (strncasecmp(words, "SchedulerParameters=", 20) == 0)
		reading->first = strcasestr(words, "spec_cores_first") != NULL;
}

/* Reads a file. A line that ends in a backslash goes on in the next one. */
static void file_read(struct reading *reading, const char *path, int depth)
{
	FILE *file = fopen(path, "re");
	cleanup_free char *line = NULL, *whole = NULL;
	size_t size = 0, length = 0;
	ssize_t got;

	while (file && (got = getline(&line, &size, file)) >= 0) {
		size_t taken = strcspn(line, "\n");
		bool goes_on = taken > 0 && line[taken - 1] == '\\';
		char *longer = realloc(whole, length + (size_t)got + 1);

		if (!longer)
			break;
		whole = longer;
		taken -= goes_on;
		memcpy(whole + length, line, taken);
		length += taken;
		whole[length] = '\0';
		if (goes_on)
			continue;
		line_take(reading, path, whole, depth);
		length = 0;
	}
	if (file)
		fclose(file);
}

bool reserved_read(const char *path, const char *node, struct reserved *ret_reserved)
{
	struct reading reading = {.node = node, .general = {.cores_per_socket = 1, .threads_per_core = 1}};

	file_read(&reading, path, 0);
	if (!reading.found)
		return false;
	*ret_reserved = reading.own;
	ret_reserved->first = reading.first;
	return true;
}

/*
 * Finds the cores in CpuSpecList. It lists cores if Slurm has one CPU per core, else the CPUs that are their threads.
 */
static void listed_cores(const struct reserved *reserved, unsigned cores, hwloc_bitmap_t ret_cores)
{
	uint32_t threads = reserved->threads_per_core > 0 ? reserved->threads_per_core : 1;
	uint32_t cpus = reserved->node_cpus > 0 ? reserved->node_cpus : cores * threads;
	hwloc_bitmap_t listed = hwloc_bitmap_alloc();
	int cpu;

	if (listed && hwloc_bitmap_list_sscanf(listed, reserved->cpus) == 0 && hwloc_bitmap_weight(listed) > 0) {
		hwloc_bitmap_foreach_begin(cpu, listed)
		{
			unsigned core = cores >= cpus ? (unsigned)cpu : (unsigned)cpu / threads;

			if (core < cores)
				hwloc_bitmap_set(ret_cores, core);
		}
		hwloc_bitmap_foreach_end();
	}
	hwloc_bitmap_free(listed);
}

void reserved_cores(const struct reserved *reserved, unsigned cores, hwloc_bitmap_t ret_cores)
{
	unsigned count = reserved->core_count, per = reserved->cores_per_socket, sockets;

	hwloc_bitmap_zero(ret_cores);
	if (reserved->cpus[0]) {
		listed_cores(reserved, cores, ret_cores);
		return;
	}
	if (count >= cores)
		return; /* slurmd refuses that too */
	if (per == 0 || cores % per != 0)
		per = cores;
	sockets = per > 0 ? cores / per : 0;
	for (unsigned i = 0; count > 0 && i < per; i++)
		for (unsigned j = 0; count > 0 && j < sockets; j++, count--) {
			unsigned core = reserved->first ? i : per - 1 - i,
			         socket = reserved->first ? j : sockets - 1 - j;

			hwloc_bitmap_set(ret_cores, socket * per + core);
		}
}
