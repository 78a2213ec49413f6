/* How a task's LD_PRELOAD names the library, in the host's root and in others. */
#include "spank/plugin/inject.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/policy/preload_list.h"
#include "tests/lib/check.h"

static char path[] = "/tmp/test-library-XXXXXX";
static char buffer[INJECT_NAME_MAX];
static enum inject_naming naming;
static ino_t inode;

static const char *named(int library, const char *command, bool may_move)
{
	naming = inject_naming_choose(path, command, may_move);
	return inject_library_name(path, library, &naming, buffer);
}

static bool is_descriptor(const char *name)
{
	int descriptor = -1;
	struct stat status;

	if (sscanf(name, PRELOAD_BY_DESCRIPTOR "%d", &descriptor) != 1 || descriptor < 200)
		return false;
	CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) == 0);
	CHECK(fstat(descriptor, &status) == 0 && status.st_ino == inode);
	close(descriptor);
	return true;
}

static void named_by_its_path(int library)
{
	static const char *const commands[] = {"", "./solver", "bash", "/usr/bin/apptainerx", "apptainer/", "podman"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		CHECK(named(library, commands[i], false) == path && naming == INJECT_PATH);
	CHECK(named(-1, "apptainer", false) == path && naming == INJECT_PATH);
	CHECK(named(-1, "./solver", true) == path && naming == INJECT_PATH);
}

static void named_by_a_descriptor(int library)
{
	CHECK(is_descriptor(named(library, "apptainer", false)) && naming == INJECT_DESCRIPTOR);
	CHECK(is_descriptor(named(library, "/usr/bin/enroot", true)) && naming == INJECT_DESCRIPTOR);
	CHECK(is_descriptor(named(library, "/opt/x/ch-run", false)) && naming == INJECT_DESCRIPTOR);
}

/* A plugin behind ours may put the task into a container: until then the path is there. */
static void named_by_a_descriptor_at_first(int library)
{
	CHECK(is_descriptor(named(library, "./solver", true)) && naming == INJECT_DESCRIPTOR_AT_FIRST);
}

/* A user's soft limit stays as it was; a hard one that is too low leaves the path. */
static void named_under_a_low_limit(int library)
{
	struct rlimit limit = {100, 300}, seen;

	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(is_descriptor(named(library, "enroot", false)));
	CHECK(getrlimit(RLIMIT_NOFILE, &seen) == 0 && seen.rlim_cur == 100 && seen.rlim_max == 300);
	limit.rlim_max = 100;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(named(library, "enroot", false) == path && naming == INJECT_PATH);
}

int main(void)
{
	int file = mkstemp(path), library = inject_library_open(path);
	struct stat status;

	CHECK(file >= 0 && fstat(file, &status) == 0);
	inode = status.st_ino;
	CHECK(library >= 0 && (fcntl(library, F_GETFD) & FD_CLOEXEC));
	named_by_its_path(library);
	named_by_a_descriptor(library);
	named_by_a_descriptor_at_first(library);
	CHECK(inject_library_open("/proc/self/nonexistent") == -1);
	unlink(path); /* as in another root */
	CHECK(is_descriptor(named(library, "./solver", true)) && naming == INJECT_DESCRIPTOR);
	CHECK(named(-1, "./solver", false) == path && naming == INJECT_PATH);
	named_under_a_low_limit(library);
	return CHECK_RESULT;
}
