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

/* The first process of a PID namespace of its own says that it is 1, as the machine's first does, which is root's. */
static void inner_process(uid_t uid, int tell, int enough)
{
	uint32_t number;
	char byte;

	if (unshare(uid == getuid() ? CLONE_NEWUSER | CLONE_NEWPID : CLONE_NEWPID) < 0 ||
	    (uid != getuid() && setresuid(uid, uid, uid) < 0))
		_exit(2);
	if (fork() > 0)
		_exit(wait(NULL) < 0);
	number = (uint32_t)getpid();
	if (write(tell, &number, sizeof(number)) == sizeof(number))
		(void)!read(enough, &byte, 1);
	_exit(0);
}

static void a_process_lives_by_the_number_that_it_has_in_a_container(void)
{
	uint32_t numbers[] = {4194303, 0}, own = (uint32_t)getpid();
	uid_t uid = getuid() == 0 ? 65534 : getuid();
	int told[2], enough[2], status;
	pid_t child;

	CHECK(pipe(told) == 0 && pipe(enough) == 0);
	child = fork();
	if (child == 0) {
		close(enough[1]);
		inner_process(uid, told[1], enough[0]);
	}
	close(told[1]);
	CHECK(asker_any_lives(&own, 1, getuid()) && !asker_any_lives(&own, 1, getuid() + 1));
	CHECK(!asker_any_lives(numbers, 2, uid));
	/* where users may make no namespaces, there is no such process */
	if (read(told[0], &numbers[1], sizeof(numbers[1])) == sizeof(numbers[1]))
		CHECK(numbers[1] == 1 && asker_any_lives(numbers, 2, uid) && !asker_any_lives(numbers, 1, uid));
	close(enough[1]);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	CHECK(!asker_any_lives(numbers, 2, uid));
	close(told[0]);
	close(enough[0]);
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
	a_process_lives_by_the_number_that_it_has_in_a_container();
	a_task_is_itself_and_what_it_started();
	return CHECK_RESULT;
}
