/* Reads policy files from directories; what they mean is policy.c's. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/policy/policy.h"

#define FILE_SIZE_MAX 65536

/* "nap.json" -> "nap"; other names are not policies (the schema lies beside them as policy.schema.json). */
static bool name_of_file(const char *file, char ret_name[POLICY_NAME_MAX])
{
	int end = 0;

	_Static_assert(POLICY_NAME_MAX == 32, "the width below");
	return sscanf(file, "%31[^.].json%n", ret_name, &end) == 1 && end > 0 && file[end] == '\0';
}

static void load_file(int directory, const char *path, const char *file, const char *name, struct policy_set *set,
                      struct error *error)
{
	cleanup_free char *text = NULL;
	struct error problem = {""};
	size_t length = 0;
	int rc = files_read(directory, file, FILE_SIZE_MAX - 1, &text, &length);

	if (set->count == POLICY_COUNT_MAX)
		rc = error_set(&problem, -ENOSPC, "more than %d policies", POLICY_COUNT_MAX);
	else if (rc < 0)
		error_set(&problem, rc, "not a readable regular file under %d bytes (%s)", FILE_SIZE_MAX,
		          strerror(-rc));
	else
		rc = policy_parse(text, length, name, &set->policy[set->count], &problem);
	if (rc < 0)
		error_set(error, rc, "policy '%s/%s' left out: %s", path, file, problem.text);
	else
		set->count++;
}

/* only: that policy alone, NULL for all. */
static void load_directory(const char *path, const char *only, struct policy_set *set, struct error *error)
{
	cleanup_closedir DIR *directory = opendir(path);
	char name[POLICY_NAME_MAX];
	struct dirent *entry;

	while (directory && (errno = 0, entry = readdir(directory)))
		if (name_of_file(entry->d_name, name) && (!only || strcmp(only, name) == 0) && !policy_find(set, name))
			load_file(dirfd(directory), path, entry->d_name, name, set, error);
	if (errno && errno != ENOENT)
		error_set(error, -errno, "the policies in '%s' are left out: %s", path, strerror(errno));
}

static int by_name(const void *left, const void *right)
{
	return strcmp(((const struct policy *)left)->name, ((const struct policy *)right)->name);
}

static void load(const char *const directories[], size_t directory_count, const char *only, struct policy_set *ret_set,
                 struct error *error)
{
	ret_set->count = 0;
	for (size_t i = 0; i < directory_count; i++)
		if (directories[i][0])
			load_directory(directories[i], only, ret_set, error);
}

void policy_load(const char *const directories[], size_t directory_count, struct policy_set *ret_set,
                 struct error *error)
{
	load(directories, directory_count, NULL, ret_set, error);
	qsort(ret_set->policy, ret_set->count, sizeof(ret_set->policy[0]), by_name);
}

bool policy_is_left_out(const char *const directories[], size_t directory_count, const char *name, struct error *error)
{
	cleanup_free struct policy_set *set = calloc(1, sizeof(*set));
	struct error why = {""};

	if (!set)
		return false;
	load(directories, directory_count, name, set, &why);
	if (why.text[0])
		error_set(error, -EINVAL, "%s", why.text);
	return why.text[0] != '\0';
}
