#include "spank/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/text.h"

#define SKIP_8 " %*s %*s %*s %*s %*s %*s %*s %*s"

ssize_t proc_text_read(int directory, const char *path, char *text, size_t size)
{
	cleanup_close int file = openat(directory, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, size - 1);

	text[length > 0 ? length : 0] = '\0';
	return length < 0 ? -errno : length;
}

ssize_t proc_line_read(int directory, const char *path, char *line, size_t size)
{
	ssize_t length = proc_text_read(directory, path, line, size);

	line[strcspn(line, "\n")] = '\0';
	return length;
}

bool proc_number_read(int directory, const char *path, uint64_t *ret_number)
{
	char line[32];

	return proc_line_read(directory, path, line, sizeof(line)) > 0 && text_number(line, UINT64_MAX, ret_number);
}

/*
 * The name in parentheses may hold any bytes, ") " too. So the fields from the third on begin after the last ")".
 * Field 22 is the start, field 39 the CPU (proc(5)).
 */
static int stat_parse(const char *text, struct proc_stat *ret_stat)
{
	struct proc_stat stat = {.start = UINT64_MAX, .cpu = -1};
	const char *name = strchr(text, '('), *end = strrchr(text, ')');

	if (!name || !end || end < name ||
	    sscanf(end, ") %c %d %*s" SKIP_8 SKIP_8 " %" SCNu64 SKIP_8 SKIP_8 " %d", &stat.state, &stat.parent,
	           &stat.start, &stat.cpu) < 2)
		return -EBADMSG;
	snprintf(stat.name, sizeof(stat.name), "%.*s", (int)(end - name - 1), name + 1);
	*ret_stat = stat;
	return 0;
}

int proc_stat_read(int directory, const char *path, struct proc_stat *ret_stat)
{
	char text[1024];
	ssize_t length = proc_text_read(directory, path, text, sizeof(text));

	return length < 0 ? (int)length : stat_parse(text, ret_stat);
}

int proc_stat_of(pid_t process, struct proc_stat *ret_stat)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
	return proc_stat_read(AT_FDCWD, path, ret_stat);
}

pid_t proc_next(DIR *directory, struct proc_stat *ret_stat)
{
	const struct dirent *entry;

	while ((entry = readdir(directory))) {
		char path[sizeof(entry->d_name) + 8];

		snprintf(path, sizeof(path), "%s/stat", entry->d_name);
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    proc_stat_read(dirfd(directory), path, ret_stat) == 0)
			return atoi(entry->d_name);
	}
	return 0;
}

int proc_boot_read(char boot[PROC_BOOT_MAX])
{
	ssize_t length = proc_line_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, PROC_BOOT_MAX);

	if (length >= 0 && strlen(boot) == PROC_BOOT_MAX - 1)
		return 0;
	boot[0] = '\0';
	return length < 0 ? (int)length : -EBADMSG;
}
