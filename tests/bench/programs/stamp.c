/*
 * Prints times. Alone: prints "task NANOSECONDS", the time of its start. With a command: runs it, and prints "began"
 * and "ended" around the command's output. The clock is the machine's, the same for all processes.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void stamp(const char *name)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%s %lld\n", name, (long long)now.tv_sec * 1000000000 + now.tv_nsec);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int status = 0;
	pid_t child;

	if (argc < 2) {
		stamp("task");
		return 0;
	}
	stamp("began");
	child = fork();
	if (child == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	stamp("ended");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
