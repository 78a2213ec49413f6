#include "tests/lib/doubles/stand_still.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLLS 1000 /* polls before and after the stop: the library reads the clock from the 64th on */

static struct shared {
	bool waits, done;
	double stopped_s;
} * shared;

static pid_t child;
static int polls;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool is_stopped(pid_t pid)
{
	char path[64], text[256] = "";
	int file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || read(file, text, sizeof(text) - 1) < 0)
		abort();
	close(file);
	return strstr(text, ") T ") != NULL;
}

static void stop(pid_t pid)
{
	double began;

	while (!__atomic_load_n(&shared->waits, __ATOMIC_ACQUIRE))
		usleep(1000);
	kill(pid, SIGSTOP);
	while (!is_stopped(pid))
		usleep(1000);
	began = seconds();
	usleep(1500000);
	shared->stopped_s = seconds() - began;
	__atomic_store_n(&shared->done, true, __ATOMIC_RELEASE);
	kill(pid, SIGCONT);
}

void stand_still_begin(void)
{
	pid_t self = getpid();

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	child = shared == MAP_FAILED ? -1 : fork();
	if (child < 0)
		abort();
	if (child > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stop(self);
	_exit(0);
}

bool stand_still_until(void)
{
	if (++polls == POLLS)
		__atomic_store_n(&shared->waits, true, __ATOMIC_RELEASE);
	else if (polls > POLLS && !__atomic_load_n(&shared->done, __ATOMIC_ACQUIRE))
		polls = POLLS;
	return polls == 2 * POLLS;
}

double stand_still_end(void)
{
	waitpid(child, NULL, 0);
	return shared->stopped_s;
}

void yields_refuse(void)
{
	struct sock_filter code[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		abort();
}
