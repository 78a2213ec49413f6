#include "spank/plugin/run_as_user.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/base/descriptor.h"
#include "spank/base/files.h"

#define SEGMENT_HERE      3
#define DESCRIPTORS_ABOVE 10
#define LOOK_EVERY_NS     5000000
#define DYING_NS          UINT64_C(100000000)
#define NOT_DROPPED       126
#define NOT_CLOSED        125

/*
 * The child of a process with several threads: from here to exec nothing but system calls. The raw ones, because
 * glibc's setuid looks for the other threads.
 */
static bool privileges_drop(const struct run_as_user *export)
{
	uid_t real, effective, saved;

	if (syscall(SYS_setgroups, export->group_count, export->groups) < 0 ||
	    syscall(SYS_setresgid, export->gid, export->gid, export->gid) < 0 ||
	    syscall(SYS_setresuid, export->uid, export->uid, export->uid) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || getresuid(&real, &effective, &saved) < 0)
		return false;
	if (real != export->uid || effective != export->uid || saved != export->uid || getegid() != export->gid)
		return false;
	/* Dropped for good is what cannot be taken back. */
	return export->uid == 0 || (syscall(SYS_setresuid, -1, 0, -1) < 0 && syscall(SYS_setresuid, 0, 0, 0) < 0 &&
	                            (export->gid == 0 || syscall(SYS_setresgid, -1, 0, -1) < 0));
}

/* The segment on 3, /dev/null below, nothing above. Both are moved up first: one may stand where the other is to be. */
static bool descriptors_set(int segment)
{
	int opened = open("/dev/null", O_RDWR | O_CLOEXEC);
	int null = fcntl(opened, F_DUPFD_CLOEXEC, DESCRIPTORS_ABOVE);

	segment = fcntl(segment, F_DUPFD_CLOEXEC, DESCRIPTORS_ABOVE);
	if (null < 0 || segment < 0 || dup2(segment, SEGMENT_HERE) < 0)
		return false;
	for (int i = 0; i < SEGMENT_HERE; i++)
		if (dup2(null, i) < 0)
			return false;
	descriptors_close_from(SEGMENT_HERE + 1);
	return true;
}

/*
 * Slurm counts the child among the step's processes: when the job's last step ends it gets SIGCONT and SIGTERM, and
 * after KillWait SIGKILL. The first two it outlives, exec included.
 */
static void signals_ignore(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	static const int ignored[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		sigaction(ignored[i], &ignore, NULL);
}

/* As root, and where the program will be looked for. One that is not there is exec's to complain of. */
static bool is_open_to_others(const char *program)
{
	struct stat status;

	return stat(program, &status) == 0 &&
	       (status.st_uid != 0 || (status.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH)));
}

static void child_run(const struct run_as_user *export)
{
	static char *const environment[] = {NULL};
	const struct rlimit none_at_all = {0, 0};
	sigset_t none;

	setsid();
	signals_ignore();
	if (export->mounts >= 0 && setns(export->mounts, CLONE_NEWNS) < 0)
		_exit(errno);
	if (export->closed && is_open_to_others(export->program))
		_exit(NOT_CLOSED);
	if (!descriptors_set(export->segment) || !privileges_drop(export))
		_exit(NOT_DROPPED);
	setrlimit(RLIMIT_CORE, &none_at_all);
	/* Should another process of the user trace this one all the same, and make it do what it likes, outside the
	 * step's cgroup, it leaves no child behind: it lasts no longer than run_as_user lets it. */
	if (setrlimit(RLIMIT_NPROC, &none_at_all) < 0)
		_exit(NOT_DROPPED);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir(export->directory) < 0)
		_exit(errno);
	execve(export->program, export->words, environment);
	_exit(errno);
}

/* Returns whether it has ended, and how; a host process that ignores SIGCHLD never learns that: *ret_status stays. */
static bool child_wait(pid_t child, uint64_t most_ns, int *ret_status)
{
	const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
	uint64_t end_ns = clock_monotonic_ns() + most_ns;

	while (waitpid(child, ret_status, WNOHANG) == 0) {
		if (clock_monotonic_ns() >= end_ns)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static int status_explain(const struct run_as_user *export, int status, struct error *error)
{
	int code = WEXITSTATUS(status);

	if (!WIFEXITED(status))
		return error_set(error, -EINTR, "\"%s\" died of signal %d", export->program, WTERMSIG(status));
	if (code == 0)
		return 0;
	if (code == NOT_DROPPED)
		return error_set(error, -EPERM, "\"%s\" was not started: root's rights could not be dropped",
		                 export->program);
	if (code == NOT_CLOSED)
		return error_set(error, -EPERM,
		                 "\"%s\" was not started: it must be root's, and readable for no other; chmod 0711 it",
		                 export->program);
	return error_set(error, -code, "\"%s\": %s", export->program, strerror(code));
}

int run_as_user(const struct run_as_user *export, struct error *error)
{
	int status = 0;
	pid_t child = fork();

	if (child < 0)
		return error_set(error, -errno, "\"%s\" could not be started: %s", export->program, strerror(errno));
	if (child == 0)
		child_run(export);
	if (child_wait(child, export->most_ns, &status))
		return status_explain(export, status, error);
	kill(child, SIGKILL);
	child_wait(child, DYING_NS, &status);
	return error_set(error, -ETIMEDOUT, "\"%s\" was killed after %llu s", export->program,
	                 (unsigned long long)(export->most_ns / SECOND_NS));
}
