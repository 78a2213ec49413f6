#include "spank/base/detach.h"

#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"
#include "spank/base/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NICENESS    10
#define OOM_SCORE   "500" /* oom_score_adj, at most 1000 */
#define ASIDE_FIRST 10    /* lowest number of the copies that files_take makes first, above those of the program */

/* Makes this process nicer than jobs, and has the kernel kill it before them when memory is short. Ignores errors. */
static void priority_lower(void)
{
	int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (score < 0 || write(score, OOM_SCORE, strlen(OOM_SCORE)) < 0 || nice(NICENESS) == -1)
		errno = 0;
}

/* Sets all signals to their default, and blocks none. */
static void signals_reset(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * Gives the process the program's descriptors and closes all others. Copies `files` above the numbers 0 to 3 first,
 * which they may have themselves. Returns false on failure.
 */
static bool files_take(const struct detach_files *files)
{
	int output = files ? fcntl(files->output, F_DUPFD, ASIDE_FIRST) : -1;
	int kept = files ? fcntl(files->kept, F_DUPFD, ASIDE_FIRST) : -1;
	int null = open("/dev/null", O_RDWR);

	for (int i = 0; i < 3; i++)
		if (null < 0 || dup2(null, i) < 0)
			return false;
	if (files && (dup2(output, STDOUT_FILENO) < 0 || dup2(kept, 3) < 0))
		return false;
	descriptors_close_from(files ? 4 : 3);
	return true;
}

/* Becomes the program. Runs in the child of a process with threads, so it makes only calls that are safe after fork. */
static _Noreturn void program_exec(const char *program, char *const command[], char *const environment[],
                                   const struct detach_files *files, int namespace)
{
	/* first: an open file, /dev/null too, keeps the mount that it lies on */
	namespace_enter(namespace, program);
	if (!files)
		priority_lower();
	if (!files_take(files))
		_exit(127);
	signals_reset();
	if (chdir("/"))
		_exit(127);
	execve(program, command, environment);
	_exit(127);
}

int detach_fork(void)
{
	int status = 0;
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (child == 0) {
		pid_t grandchild;

		setsid();
		grandchild = fork();
		if (grandchild == 0)
			return 1;
		_exit(grandchild < 0 ? 1 : 0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return errno == ECHILD ? 0 : -errno; /* ECHILD: the host process ignores SIGCHLD */
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
}

int detach_start(const char *program, char *const command[], char *const environment[],
                 const struct detach_files *files)
{
	cleanup_close int namespace = namespace_of_slurmd();
	int result = detach_fork();

	if (result > 0)
		program_exec(program, command, environment, files, namespace);
	return result;
}
