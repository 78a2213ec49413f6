/* Reads policy files from directories; what they mean is policy.c's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "spank/cleanup.h"
#include "spank/policy.h"

#define FILE_SIZE_MAX 65536

/* "nap.json" -> "nap"; other names are not policies (the schema lies beside them as policy.schema.json). */
static bool name_of_file(const char *file, char ret_name[POLICY_NAME_MAX])
{
	size_t length = strlen(file);

	if (length <= 5 || length - 5 >= POLICY_NAME_MAX || strcmp(file + length - 5, ".json") != 0 || file[0] == '.')
		return false;
	memcpy(ret_name, file, length - 5);
	ret_name[length - 5] = '\0';
	return strchr(ret_name, '.') == NULL;
}

static int read_file(int directory, const char *file, char *buffer, size_t size, size_t *ret_length)
{
	cleanup_close int descriptor = openat(directory, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat status;
	ssize_t got;

	if (descriptor < 0)
		return -errno;
	if (fstat(descriptor, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode) || status.st_size >= (off_t)size)
		return -EINVAL;
	got = read(descriptor, buffer, size);
	if (got < 0)
		return -errno;
	*ret_length = (size_t)got;
	return 0;
}

static void load_file(int directory, const char *path, const char *file, struct policy_set *set, struct error *error)
{
	char name[POLICY_NAME_MAX];
	cleanup_free char *text = NULL;
	struct error problem = {""};
	struct policy policy;
	size_t length = 0;
	int rc;

	if (!name_of_file(file, name) || policy_find(set, name))
		return;
	if (set->count == POLICY_COUNT_MAX) {
		error_set(error, -ENOSPC, "policy '%s/%s' left out: more than %d policies", path, file,
		          POLICY_COUNT_MAX);
		return;
	}
	text = malloc(FILE_SIZE_MAX);
	if (!text)
		return;
	rc = read_file(directory, file, text, FILE_SIZE_MAX, &length);
	if (rc < 0)
		error_set(&problem, rc, "not a readable regular file under %d bytes (%s)", FILE_SIZE_MAX,
		          strerror(-rc));
	else
		rc = policy_parse(text, length, name, &policy, &problem);
	if (rc < 0) {
		error_set(error, rc, "policy '%s/%s' left out: %s", path, file, problem.text);
		return;
	}
	set->policy[set->count++] = policy;
}

static int by_name(const void *left, const void *right)
{
	return strcmp(((const struct policy *)left)->name, ((const struct policy *)right)->name);
}

void policy_load(const char *const directories[], size_t directory_count, struct policy_set *ret_set,
                 struct error *error)
{
	ret_set->count = 0;
	for (size_t i = 0; i < directory_count; i++) {
		cleanup_closedir DIR *directory = directories[i][0] ? opendir(directories[i]) : NULL;
		struct dirent *entry;

		if (!directory)
			continue;
		while ((entry = readdir(directory)))
			load_file(dirfd(directory), directories[i], entry->d_name, ret_set, error);
	}
	qsort(ret_set->policy, ret_set->count, sizeof(ret_set->policy[0]), by_name);
}
