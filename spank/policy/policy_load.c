/* Reads policy files from directories; policy.c parses them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"
#include "spank/base/detach.h"
#include "spank/base/files.h"
#include "spank/policy/policy.h"

#define FILE_SIZE_MAX 65536
#define APART_MS      2000 /* time that the process has which reads the site's directory */

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

/* Memory shared with the reading process, which fills it and then closes its end of a pipe. */
struct apart {
	pid_t pid; /* the reading process; 0: not started yet */
	bool is_read;
	struct policy_set set;
	struct error error;
};

/*
 * The reading process. It keeps no descriptor of the caller's but the pipe's end: a reader of another pipe of the
 * caller's would wait for this process to close it.
 */
static _Noreturn void apart_read(const char *own, int end, struct apart *apart)
{
	int null = open("/dev/null", O_RDWR);

	apart->pid = getpid();
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || dup2(end, 3) < 0)
		_exit(EXIT_FAILURE);
	descriptors_close_from(4);
	load_directory(own, NULL, &apart->set, &apart->error);
	apart->is_read = true;
	_exit(EXIT_SUCCESS);
}

/* Starts the reading process, which is no child of the host process. Returns 0 or -errno. */
static int apart_start(const char *own, int end, struct apart *apart)
{
	int result = detach_fork();

	if (result > 0)
		apart_read(own, end, apart);
	return result;
}

/* Waits for the reading process. After APART_MS kills it, and does not wait for its end: it may hang in the kernel. */
static int apart_wait(int end, const struct apart *apart)
{
	uint64_t deadline_ns = clock_monotonic_ns() + APART_MS * UINT64_C(1000000), now_ns;
	struct pollfd pipe = {.fd = end, .events = POLLIN};

	while ((now_ns = clock_monotonic_ns()) < deadline_ns)
		if (poll(&pipe, 1, (int)((deadline_ns - now_ns) / 1000000) + 1) > 0)
			return apart->is_read ? 0 : -EIO;
	if (apart->pid > 0)
		kill(apart->pid, SIGKILL);
	return -ETIMEDOUT;
}

/* Loads the site's directory by the reading process. Returns 0 with *ret_set filled, or -errno. */
static int apart_load(const char *own, struct policy_set *ret_set, struct error *error)
{
	struct apart *apart = mmap(NULL, sizeof(*apart), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ends[2] = {-1, -1}, result = apart == MAP_FAILED || pipe2(ends, O_CLOEXEC) ? -errno : 0;

	if (!result)
		result = apart_start(own, ends[1], apart);
	cleanup_close_descriptor(&ends[1]);
	if (!result)
		result = apart_wait(ends[0], apart);
	if (!result) {
		*ret_set = apart->set;
		error_move(error, &apart->error);
	}
	cleanup_close_descriptor(&ends[0]);
	if (apart != MAP_FAILED)
		munmap(apart, sizeof(*apart));
	return result;
}

void policy_load_apart(const char *own, const char *shipped, struct policy_set *ret_set, struct error *error)
{
	int result = 0;

	ret_set->count = 0;
	if (own[0])
		result = apart_load(own, ret_set, error);
	if (result)
		error_set(error, result, "the policies in '%s' are left out: %s", own, strerror(-result));
	load_directory(shipped, NULL, ret_set, error);
	qsort(ret_set->policy, ret_set->count, sizeof(ret_set->policy[0]), by_name);
}
