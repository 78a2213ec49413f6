/* Reads policy files from directories; policy.c parses them. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/policy/apart.h"
#include "spank/policy/policy.h"

#define FILE_SIZE_MAX 65536

/* Turns "nap.json" into "nap". Returns false for a name of another form, such as policy.schema.json. */
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

static void load_directory(const char *path, const char *named, struct policy_set *set, struct error *error)
{
	cleanup_closedir DIR *directory = opendir(path);
	char name[POLICY_NAME_MAX];
	struct dirent *entry;

	while (directory && (errno = 0, entry = readdir(directory)))
		if (name_of_file(entry->d_name, name) && !policy_find(set, name))
			load_file(dirfd(directory), path, entry->d_name, name, set,
			          !named || strcmp(named, name) == 0 ? error : NULL);
	if (errno && errno != ENOENT)
		error_set(error, -errno, "the policies in '%s' are left out: %s", path, strerror(errno));
}

static int by_name(const void *left, const void *right)
{
	return strcmp(((const struct policy *)left)->name, ((const struct policy *)right)->name);
}

void policy_load(const char *own, const char *shipped, const char *named, struct policy_set *ret_set,
                 struct error *error)
{
	ret_set->count = 0;
	if (own[0])
		load_directory(own, named, ret_set, error);
	load_directory(shipped, named, ret_set, error);
	qsort(ret_set->policy, ret_set->count, sizeof(ret_set->policy[0]), by_name);
}

/* The policies that the reading process found. */
struct found {
	struct policy_set set;
	struct error error;
};

static void found_read(const char *own, void *found)
{
	struct found *here = found;

	load_directory(own, NULL, &here->set, &here->error);
}

void policy_load_apart(const char *own, const char *shipped, struct policy_set *ret_set, struct error *error)
{
	struct found *found = own[0] ? apart_read(own, found_read, sizeof(*found)) : NULL;
	int problem = errno;

	ret_set->count = 0;
	if (found) {
		*ret_set = found->set;
		error_move(error, &found->error);
		munmap(found, sizeof(*found));
	} else if (own[0]) {
		error_set(error, -problem, "the policies in '%s' are left out: %s", own, strerror(problem));
	}
	load_directory(shipped, NULL, ret_set, error);
	qsort(ret_set->policy, ret_set->count, sizeof(ret_set->policy[0]), by_name);
}
