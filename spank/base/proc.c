#include "spank/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/cleanup.h"

/* Fields, counted from 1. */
#define FIELD_NAME  2
#define FIELD_START 22
#define FIELD_CPU   39

/* The blank before a field; at: the end of the name. NULL: there are fewer. */
static const char *field_find(const char *at, int field)
{
	for (int i = FIELD_NAME; at && i < field; i++)
		at = strchr(at + 1, ' ');
	return at;
}

/* The name in parentheses may hold anything, ") " too: what counts begins after the last one. */
static int stat_parse(const char *text, struct proc_stat *ret_stat)
{
	struct proc_stat stat = {.start = UINT64_MAX, .cpu = -1};
	const char *name = strchr(text, '('), *end = strrchr(text, ')'), *start, *cpu;

	if (!name || !end || end < name || sscanf(end, ") %c %d", &stat.state, &stat.parent) != 2)
		return -EBADMSG;
	snprintf(stat.name, sizeof(stat.name), "%.*s", (int)(end - name - 1), name + 1);
	start = field_find(end, FIELD_START);
	if (start)
		(void)sscanf(start, " %" SCNu64, &stat.start);
	cpu = field_find(end, FIELD_CPU);
	if (cpu)
		stat.cpu = atoi(cpu + 1);
	*ret_stat = stat;
	return 0;
}

int proc_stat_read(int directory, const char *path, struct proc_stat *ret_stat)
{
	cleanup_close int file = openat(directory, path, O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

	if (length < 0)
		return -errno;
	text[length] = '\0';
	return stat_parse(text, ret_stat);
}
