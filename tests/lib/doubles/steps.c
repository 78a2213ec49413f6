/*
 * Counts the instructions that a program executes between two SIGUSR1 that it sends itself. It steps through them one
 * by one, which needs no tool and no privilege. The program never sees these signals. If the program has its RDTSC
 * trapped (PR_SET_TSC), each returns TICKS more than the last, so that no call seems long, however long the stepping
 * takes. Prints "steps N", and returns the program's status.
 *
 *     steps COMMAND...
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICKS 100
#define RDTSC 0x310f

static long trace(enum __ptrace_request how, pid_t pid, void *address, void *data)
{
	long result = ptrace(how, pid, address, data);

	if (result == -1) {
		fprintf(stderr, "steps: ptrace: %s\n", strerror(errno));
		exit(1);
	}
	return result;
}

/* Executes a trapped RDTSC. Returns false if another instruction trapped. */
static bool clock_read(pid_t pid)
{
#ifdef __x86_64__
	static uint64_t now = UINT64_C(1) << 50;
	struct user_regs_struct registers;

	trace(PTRACE_GETREGS, pid, NULL, &registers);
	if ((ptrace(PTRACE_PEEKTEXT, pid, (void *)registers.rip, NULL) & 0xffff) != RDTSC)
		return false;
	now += TICKS;
	registers.rax = (uint32_t)now;
	registers.rdx = now >> 32;
	registers.rip += 2;
	trace(PTRACE_SETREGS, pid, NULL, &registers);
	return true;
#else
	(void)pid;
	return false;
#endif
}

int main(int argc, char **argv)
{
	bool steps = false;
	long count = 0;
	int status;
	pid_t pid;

	if (argc < 2)
		return 2;
	pid = fork();
	if (pid == 0) {
		trace(PTRACE_TRACEME, 0, NULL, NULL);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		long number = WSTOPSIG(status);
		bool ours = number == SIGTRAP || number == SIGUSR1 || (number == SIGSEGV && clock_read(pid));

		count += steps && ours && number != SIGUSR1;
		steps ^= number == SIGUSR1;
		trace(steps ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, NULL, (void *)(ours ? 0 : number));
	}
	printf("steps %ld\n", count);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
