/*
 * Who asks, by the kernel's word: threads, processes and users of the test's own. That a thread has its core to itself
 * is tested on a simulated node.
 */
#include "spank/machine/asker.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"

static void *tell_number(void *argument)
{
	int *ends = argument;
	pid_t number = (pid_t)syscall(SYS_gettid);
	char byte;

	if (write(ends[1], &number, sizeof(number)) == sizeof(number))
		(void)!read(ends[2], &byte, 1);
	return NULL;
}

static void any_thread_leads_to_its_process(void)
{
	int told[2], enough[2], ends[3];
	pthread_t thread;
	pid_t number = 0;

	CHECK(pipe(told) == 0 && pipe(enough) == 0);
	ends[1] = told[1];
	ends[2] = enough[0];
	CHECK(pthread_create(&thread, NULL, tell_number, ends) == 0);
	CHECK(read(told[0], &number, sizeof(number)) == sizeof(number) && number != getpid());
	CHECK(asker_process(number, getuid()) == getpid());
	CHECK(asker_process(getpid(), getuid()) == getpid());
	close(enough[1]);
	pthread_join(thread, NULL);
}

static void another_users_thread_is_nobody(void)
{
	CHECK(asker_process(getpid(), getuid() + 1) == 0);
	CHECK(asker_process(0, getuid()) == 0 && asker_process(1, getuid()) == 0 && asker_process(-1, getuid()) == 0);
	CHECK(asker_process(4194303, getuid()) == 0);
}

static void a_task_is_itself_and_what_it_started(void)
{
	int status;
	pid_t child = fork(), parent = getppid();
	siginfo_t ended;

	if (child == 0)
		_exit(asker_is_of_task(getpid(), getppid()) && asker_is_of_task(getpid(), parent) &&
		                      asker_is_of_task(getpid(), getpid())
		              ? 0
		              : 1);
	CHECK(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) == 0);
	CHECK(!asker_is_of_task(child, getpid())); /* it has ended, and is not waited for yet */
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!asker_is_of_task(getppid(), getpid()) && !asker_is_of_task(getpid(), 4194303));
	CHECK(!asker_is_of_task(1, 1) && !asker_is_of_task(0, 0));
}

int main(void)
{
	any_thread_leads_to_its_process();
	another_users_thread_is_nobody();
	a_task_is_itself_and_what_it_started();
	return CHECK_RESULT;
}
