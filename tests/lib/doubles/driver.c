/*
 * A program on top of the fake MPI, one scene per argument. Prints "key value" lines. The test reads the library's
 * notes from the stats segment.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/doubles/stand_still.h"
#include "tests/lib/doubles/virtual_time.h"

typedef uintptr_t word;

int MPI_Init(int *, char ***);
int MPI_Session_init(word, word, int *);
int MPI_Finalize(void);
int MPI_Recv(word, word, word, word, word, word, word);
int MPI_Allreduce(word, word, word, word, word, word);
int MPI_Bcast(word, word, word, word, word);
int MPI_Barrier(word);
int MPI_Send(word, word, word, word, word, word);
int MPI_Isend(word, word, word, word, word, word, word);
int MPI_Irecv(word, word, word, word, word, word, word);
int MPI_Sendrecv(word, word, word, word, word, word, word, word, word, word, word, word);
int MPI_Wait(word, word);
int MPI_Win_lock(word, word, word, word);
int MPI_Test(word, word, word);
int MPI_Pcontrol(const int, ...);
void opal_progress(void);
extern char ompi_mpi_comm_world[];
extern void (*fake_callback)(void);
extern bool (*fake_until)(void);
extern int (*fake_progress)(void);
extern int fake_sleeps;
extern int fake_polls;
extern int fake_work_us;
extern int fake_step_polls, fake_step_late_us;
extern long fake_told;
extern double fake_told_float;

static jmp_buf out;
static int calls = 1000; /* calls in a counted scene */

/* Calls MPI_Test. Being inlined, each use is a callsite of its own. */
static inline __attribute__((always_inline)) int test(void)
{
	int flag = 0;

	MPI_Test(0, (word)&flag, 0);
	return flag;
}

static int receive(word microseconds, word every)
{
	return MPI_Recv(1, microseconds, 3, every, 5, 6, 7);
}

static double cpu_s(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void scene_wait(void)
{
	double cpu = cpu_s(CLOCK_THREAD_CPUTIME_ID);

	errno = 4711;
	printf("code %d\n", receive(200000, 0));
	printf("errno %d\n", errno);
	printf("cpu_share %.4f\n", (cpu_s(CLOCK_THREAD_CPUTIME_ID) - cpu) / 0.2);
	printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
}

/* Waits a hundred times at the same callsite, each time for a millisecond. */
static void scene_alike(void)
{
	int before = fake_polls;

	errno = 4711;
	for (int i = 0; i < 100; i++)
		receive(1000, 0);
	printf("alike_polls %d\n", fake_polls - before);
	printf("errno %d\nslack %d\n", errno, prctl(PR_GET_TIMERSLACK));
}

/* Waits as "alike" does. The source fills half of its word, and the other half differs each time. */
static void scene_halves(void)
{
	for (word i = 0; i < 100; i++)
		MPI_Recv(1, 1000, 3, i << 32, 5, 6, 7);
}

/* Waits at two callsites in turn, for 0.5 and 1.5 ms; all else about them is the same. */
static void scene_in_turn(void)
{
	word length = 500;

	for (int i = 0; i < 50; i++) {
		MPI_Recv(1, length, 3, 0, 5, 6, 7);
		MPI_Recv(1, 3 * length, 3, 0, 5, 6, 7);
	}
}

/* Waits forty times for 20 ms, with 2 s after each. */
static void scene_now_and_then(void)
{
	const struct timespec pause = {2, 0};

	for (int i = 0; i < 40; i++) {
		receive(20000, 0);
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
	}
}

static uint64_t naps_enough = 20;

static bool napped_often(void)
{
	return virtual_naps() >= naps_enough;
}

static int left;

static int yielding_progress(void)
{
	for (int i = 0; i < 20 && left > 0; i++, left--)
		sched_yield();
	return 0;
}

/* The progress callback yields a thousand times in all. */
static void scene_progress_yields(void)
{
	left = calls;
	fake_progress = yielding_progress;
	receive(20000, 0);
	printf("left %d\n", left);
	fake_progress = NULL;
}

static void scene_progress_jumps(void)
{
	int before;

	receive(20000, 0);
	before = fake_polls;
	fake_progress = sched_yield;
	receive(20000, 0);
	printf("callbacks %d\n", fake_polls - before);
	fake_progress = NULL;
}

static void scene_strategy(void)
{
	receive(200000, 0);
	printf("sleeps %d\n", fake_sleeps);
}

/* Waits in the kernel's time until there were some naps, at most a minute. */
static void scene_wait_really(void)
{
	fake_until = napped_often;
	errno = 4711;
	printf("code %d\n", receive(60000000, 0));
	printf("errno %d\n", errno);
	printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
}

static void scene_short(void)
{
	for (int i = 0; i < calls; i++)
		MPI_Barrier(0);
}

static void scene_short_more(void)
{
	for (int i = 0; i < 11; i++)
		scene_short();
}

/* Waits so briefly that the library never reads the clock. */
static void scene_brief(void)
{
	int before = fake_polls;

	for (int i = 0; i < 10; i++)
		receive(5, 0);
	printf("polls %d\n", fake_polls - before);
}

static void scene_sends(void)
{
	for (word i = 0; i < (word)calls; i++)
		MPI_Send(0, i, 8, 1, 0, (word)ompi_mpi_comm_world);
}

/* Sends as rank 3 of 7: within a node and between nodes, to nobody, on another communicator, without data; and
 * receives. */
static void scene_places(void)
{
	word world = (word)ompi_mpi_comm_world;

	MPI_Send(0, 100, 8, 4, 0, world);
	MPI_Send(0, 10, 8, 6, 0, world);
	MPI_Send(0, 1, 8, (word)-2, 0, world);
	MPI_Send(0, 1, 8, 7, 0, world);
	MPI_Send(0, 1, 8, 4, 0, world + 1);
	MPI_Send(0, 0, 8, 4, 0, world);
	MPI_Isend(0, 1000, 8, 0, 0, world, 0);
	MPI_Irecv(0, 10000, 8, (word)-1, 0, world, 0);
	MPI_Sendrecv(0, 7, 8, (word)-2, 0, 0, 5, 8, 5, 0, world, 0);
	MPI_Bcast(0, 1, 8, 4, world);
}

static void scene_sends_more(void)
{
	for (int i = 0; i < 11; i++)
		scene_sends();
}

static void scene_exchanges(void)
{
	for (int i = 0; i < 50; i++)
		MPI_Sendrecv(0, 1, 8, 4, 200, 0, 1, 8, 4, 0, (word)ompi_mpi_comm_world, 0);
}

/* The virtual clock stops the process in the first wait, as scontrol suspend would. */
static void scene_stopped(void)
{
	receive(500000, 0);
	receive(100000, 0);
}

/* The kernel stops the process, in its own time. */
static void scene_stopped_really(void)
{
	double began, stopped_s;

	fake_until = stand_still_until;
	stand_still_begin();
	began = cpu_s(CLOCK_MONOTONIC);
	receive(60000000, 0);
	printf("call_s %.9f\n", cpu_s(CLOCK_MONOTONIC) - began);
	fake_until = NULL;
	stopped_s = stand_still_end();
	printf("stopped_s %.9f\n", stopped_s);
}

static void scene_progress(void)
{
	receive(500000, 5);
}

static void scene_work(void)
{
	fake_work_us = 100;
	receive(100000, 3);
}

static void scene_inner(void)
{
	MPI_Allreduce(0, 0, 50000, 0, 0, 0);
}

static void steps(word visible)
{
	MPI_Bcast(0, 100, 100, visible, 0);
	printf("step_polls %d\nstep_late_us %d\n", fake_step_polls, fake_step_late_us);
}

static void scene_visible_steps(void)
{
	steps(1);
}

static void scene_hidden_steps(void)
{
	steps(0);
}

static void scene_lock(void)
{
	MPI_Win_lock(0, 4000, 0, 0);
}

/* Waits a hundred times for a lock, each time for a millisecond. */
static void scene_locks(void)
{
	for (int i = 0; i < 100; i++)
		MPI_Win_lock(0, 1000, 0, 0);
}

static void leave(void)
{
	longjmp(out, 1);
}

static void scene_longjmp(void)
{
	fake_callback = leave;
	for (volatile int i = 0; i < 3; i++)
		if (setjmp(out) == 0)
			MPI_Wait(0, 0);
	fake_callback = NULL;
	printf("slack_before %d\n", prctl(PR_GET_TIMERSLACK));
	MPI_Barrier(0);
	printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
	receive(5000, 0);
}

static void scene_fork(void)
{
	pid_t child = fork();

	if (child == 0) {
		receive(50000, 0);
		MPI_Barrier(0);
		test();
		MPI_Finalize();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	MPI_Barrier(0);
}

static void scene_poll(void)
{
	double began, cpu;

	test();
	began = cpu_s(CLOCK_MONOTONIC);
	cpu = cpu_s(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < 1000000; i++)
		test();
	printf("poll_ns %.1f\n", (cpu_s(CLOCK_MONOTONIC) - began) * 1e3);
	printf("poll_cpu_ns %.1f\n", (cpu_s(CLOCK_THREAD_CPUTIME_ID) - cpu) * 1e3);
	printf("polls %d\n", fake_polls);
}

static void yield_callback(void)
{
	printf("callback_yield %d\n", sched_yield());
}

/* Yields outside and inside an MPI call while the kernel refuses sched_yield. */
static void scene_yield(void)
{
	yields_refuse();
	printf("yield %d\n", sched_yield());
	fake_callback = yield_callback;
	MPI_Wait(0, 0);
}

static void polling_callback(void)
{
	for (int i = 0; i < 20000; i++)
		test();
}

static void scene_mark_inside(void)
{
	fake_callback = polling_callback;
	MPI_Wait(0, 0);
}

static void *thread_wait(void *argument)
{
	(void)argument;
	receive(20000, 0);
	return NULL;
}

/* The waits of "alike", in a process whose second thread has called MPI once. */
static void scene_alike_of_two(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_wait, NULL);
	pthread_join(thread, NULL);
	scene_alike();
}

static void scene_threads(void)
{
	pthread_t thread[10];

	for (int i = 0; i < 10; i++)
		pthread_create(&thread[i], NULL, thread_wait, NULL);
	for (int i = 0; i < 10; i++)
		pthread_join(thread[i], NULL);
}

/* Looks up two functions that the double of MPI lacks: the first is of MPI 3.1, the other is newer. */
static void scene_absent(void)
{
	int (*missing)(word) = (int (*)(word))dlsym(RTLD_DEFAULT, "MPI_Request_free");
	void *newer = dlsym(RTLD_DEFAULT, "MPI_Session_finalize");

	printf("missing %d\nnewer %d\n", missing ? missing(0) : -1, newer != NULL);
}

static void on_signal(int number)
{
	(void)number;
}

static void signals_catch(void)
{
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_signal}, NULL);
}

/* The virtual clock sends the signals. */
static void scene_signals(void)
{
	signals_catch();
	errno = 4711;
	receive(50000, 0);
	printf("errno %d\n", errno);
}

static bool five_were_interrupted(void)
{
	return virtual_interrupted() >= 5;
}

/* The kernel sends a signal every millisecond, until five of the policy's long naps have ended by one. */
static void scene_interrupted(void)
{
	struct itimerspec often = {{0, 1000000}, {0, 1000000}};
	timer_t timer;

	signals_catch();
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &often, NULL);
	fake_until = five_were_interrupted;
	errno = 4711;
	receive(60000000, 0);
	printf("errno %d\n", errno);
	timer_delete(timer);
}

/* The virtual clock kills the process in this wait. */
static void scene_die(void)
{
	receive(10000000, 0);
}

static void scene_tests(void)
{
	for (int i = 0; i < calls; i++)
		test();
}

/* Plays a scene, then again between two signals, for the program that counts the instructions between them
 * (steps.c). */
static void counted(void (*scene)(void))
{
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	scene();
	calls = 64;
	raise(SIGUSR1);
	scene();
	raise(SIGUSR1);
}

static void scene_short_counted(void)
{
	counted(scene_short);
}

static void scene_sends_counted(void)
{
	counted(scene_sends);
}

static void scene_tests_counted(void)
{
	counted(scene_tests);
}

static double loop_ends_s;

static bool loop_is_over(void)
{
	return cpu_s(CLOCK_MONOTONIC) >= loop_ends_s;
}

/* Polls in a loop of the program's own until that time has passed. `between` is called after each test. Prints the
 * number of tests. */
static void loop_until_ms(double milliseconds, void (*between)(int round))
{
	int tests = 0;

	loop_ends_s = cpu_s(CLOCK_MONOTONIC) + 1e-3 * milliseconds;
	fake_until = loop_is_over;
	while (!test()) {
		tests++;
		if (between)
			between(tests);
	}
	printf("tests %d\n", tests);
	fake_until = NULL;
}

static void work_us(double microseconds)
{
	double until = cpu_s(CLOCK_MONOTONIC) + 1e-6 * microseconds;

	while (cpu_s(CLOCK_MONOTONIC) < until)
		continue;
}

static void scene_loop(void)
{
	errno = 4711;
	loop_until_ms(200, NULL);
	printf("errno %d\n", errno);
	printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
}

static void between_works(int round)
{
	(void)round;
	work_us(4);
}

static void scene_loop_works(void)
{
	loop_until_ms(200, between_works);
}

/* Takes time every 4 ms, as the kernel's tick does. */
static void between_interrupts(int round)
{
	static double next_s;
	double now_s = cpu_s(CLOCK_MONOTONIC);

	(void)round;
	if (now_s < next_s)
		return;
	next_s = now_s + 0.004;
	work_us(10);
}

static void scene_loop_interrupts(void)
{
	loop_until_ms(200, between_interrupts);
}

/* Works seldom, but for a third of the time. */
static void between_works_seldom(int round)
{
	if (round % 200 == 0)
		work_us(100);
}

static void scene_loop_works_seldom(void)
{
	loop_until_ms(200, between_works_seldom);
}

/* Sets the timer slack, long after the loop has become a wait. */
static void between_settings(int round)
{
	if (round == 1300)
		prctl(PR_SET_TIMERSLACK, 300000);
}

static void scene_loop_sets_slack(void)
{
	loop_until_ms(200, between_settings);
	printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
}

static void between_calls(int round)
{
	if (round % 100 == 0)
		MPI_Barrier(0);
}

static void scene_loop_calls(void)
{
	loop_until_ms(20, between_calls);
}

/* Plays the same loop twice; its flag is true in between. */
static void scene_loop_twice(void)
{
	loop_until_ms(20, NULL);
	loop_until_ms(20, NULL);
}

static void between_tests(int round)
{
	(void)round;
	test();
}

static void between_tests_often(int round)
{
	(void)round;
	test(), test(), test(), test();
}

/* Polls at two callsites in turn. The next scene uses five: too many to be recognised as a loop. */
static void scene_loop_places(void)
{
	loop_until_ms(20, between_tests);
}

static void scene_loop_many_places(void)
{
	loop_until_ms(20, between_tests_often);
}

/* Leaves the loop without its flag having been true, and computes. */
static void scene_loop_left(void)
{
	double until = cpu_s(CLOCK_MONOTONIC) + 0.02;

	while (cpu_s(CLOCK_MONOTONIC) < until)
		test();
	printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
	work_us(100000);
	MPI_Barrier(0);
}

/* Tests without a flag to write to, which an MPI may refuse with an error. */
static void scene_loop_refused(void)
{
	int refused = 0;

	for (int i = 0; i < 1000; i++)
		refused += MPI_Test(0, 0, 0) != 0;
	printf("refused %d\n", refused);
}

#define BESIDE_NS 50000000.0 /* CPU time of the other thread */

static bool beside_burned;
static pthread_barrier_t beside_ready;
static pthread_mutex_t beside_held = PTHREAD_MUTEX_INITIALIZER;

/* Burns CPU time after the wait has had some naps. */
static void *beside_burn(void *unused)
{
	struct timespec moment = {0, 1000000};

	(void)unused;
	while (!napped_often())
		nanosleep(&moment, NULL);
	for (double began = cpu_s(CLOCK_THREAD_CPUTIME_ID); cpu_s(CLOCK_THREAD_CPUTIME_ID) - began < 1e-9 * BESIDE_NS;)
		continue;
	__atomic_store_n(&beside_burned, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool has_beside_burned(void)
{
	return __atomic_load_n(&beside_burned, __ATOMIC_ACQUIRE);
}

/* Waits in the kernel's time, at most a minute, until another thread has burned CPU time. */
static void scene_beside(void)
{
	pthread_t thread;

	fake_until = has_beside_burned;
	if (pthread_create(&thread, NULL, beside_burn, NULL) == 0)
		receive(60000000, 0);
	pthread_join(thread, NULL);
}

static void *beside_sleep(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&beside_ready);
	pthread_mutex_lock(&beside_held);
	pthread_mutex_unlock(&beside_held);
	return NULL;
}

/* Waits beside a thread that sleeps. */
static void scene_beside_asleep(void)
{
	pthread_t thread;

	fake_until = napped_often;
	pthread_mutex_lock(&beside_held);
	pthread_barrier_init(&beside_ready, NULL, 2);
	if (pthread_create(&thread, NULL, beside_sleep, NULL) == 0) {
		pthread_barrier_wait(&beside_ready);
		receive(60000000, 0);
	}
	pthread_mutex_unlock(&beside_held);
	pthread_join(thread, NULL);
}

/* Ends the wait after some naps, but only when the other thread has burned its CPU time. */
static bool has_burned_after_the_poll(void)
{
	struct timespec moment = {0, 1000000};

	if (!napped_often())
		return false;
	while (!has_beside_burned())
		nanosleep(&moment, NULL);
	return true;
}

/*
 * Waits beside a thread that burns CPU time between the last poll and the end of the call. The library first reads the
 * CPU clock a millisecond into the wait, after about twenty naps: a hundred leave some to sample.
 */
static void scene_beside_after(void)
{
	pthread_t thread;

	naps_enough = 100;
	fake_until = has_burned_after_the_poll;
	if (pthread_create(&thread, NULL, beside_burn, NULL) == 0)
		receive(60000000, 0);
	pthread_join(thread, NULL);
}

/* Waits seven times, in phases that the program names, ends and returns to. */
static void scene_phases(void)
{
	receive(1000, 0);
	MPI_Pcontrol(4, "a region's name");
	receive(2000, 0);
	MPI_Pcontrol(3);
	receive(4000, 0);
	MPI_Pcontrol(2);
	receive(8000, 0);
	MPI_Pcontrol(4);
	receive(16000, 0);
	MPI_Pcontrol(-1);
	receive(32000, 0);
	MPI_Pcontrol(0);
	receive(64000, 0);
}

/* Plays twenty phases with one wait each. */
static void scene_phases_many(void)
{
	for (int phase = 3; phase < 23; phase++) {
		MPI_Pcontrol(phase);
		receive(1000, 0);
	}
}

static void scene_pcontrol(void)
{
	printf("code %d\n", MPI_Pcontrol(77, 1L, 1.5, 2L, 2.5, 3L, 3.5, 4L, 4.5, 5L, 5.5));
	printf("refused %d\n", MPI_Pcontrol(-7));
	printf("told %ld\n", fake_told);
	printf("told_float %.1f\n", fake_told_float);
}

extern void mpi_recv_(const int *microseconds);

static __attribute__((noinline)) void site_twice(void)
{
	MPI_Recv(0, 1000, 0, 0, 0, 0, 0);
	__asm__ volatile("");
}

static __attribute__((noinline)) void site_once(void)
{
	MPI_Sendrecv(0, 0, 0, 0, 4000, 0, 0, 0, 0, 0, 0, 0);
	__asm__ volatile("");
}

static __attribute__((noinline)) void site_fortran(int microseconds)
{
	mpi_recv_(&microseconds);
	__asm__ volatile("");
}

static __attribute__((noinline)) void site_fortran_too(int microseconds)
{
	mpi_recv_(&microseconds);
	__asm__ volatile("nop");
}

/* Waits at two callsites, and at two others through MPI's layer for Fortran. The barrier does not wait and counts for
 * none. */
static void scene_sites(void)
{
	site_twice();
	site_once();
	site_fortran(16000);
	site_twice();
	site_fortran_too(32000);
	MPI_Barrier(0);
}

/* Waits at eighty callsites. */
static void scene_sites_many(void)
{
#define EIGHT(what) what, what, what, what, what, what, what, what
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
	EIGHT(MPI_Recv(0, 1000, 0, 0, 0, 0, 0));
}

static const struct {
	const char *name;
	void (*play)(void);
} scenes[] = {
        {"loop", scene_loop},
        {"loop_works", scene_loop_works},
        {"loop_interrupts", scene_loop_interrupts},
        {"loop_works_seldom", scene_loop_works_seldom},
        {"loop_sets_slack", scene_loop_sets_slack},
        {"loop_calls", scene_loop_calls},
        {"loop_twice", scene_loop_twice},
        {"loop_places", scene_loop_places},
        {"loop_many_places", scene_loop_many_places},
        {"loop_left", scene_loop_left},
        {"loop_refused", scene_loop_refused},
        {"beside", scene_beside},
        {"beside_after", scene_beside_after},
        {"beside_asleep", scene_beside_asleep},
        {"phases", scene_phases},
        {"phases_many", scene_phases_many},
        {"pcontrol", scene_pcontrol},
        {"sites", scene_sites},
        {"sites_many", scene_sites_many},
        {"short_more", scene_short_more},
        {"now_and_then", scene_now_and_then},
        {"progress_yields", scene_progress_yields},
        {"progress_jumps", scene_progress_jumps},
        {"strategy", scene_strategy},
        {"wait", scene_wait},
        {"wait_really", scene_wait_really},
        {"alike", scene_alike},
        {"halves", scene_halves},
        {"alike_of_two", scene_alike_of_two},
        {"short", scene_short},
        {"brief", scene_brief},
        {"sends", scene_sends},
        {"sends_more", scene_sends_more},
        {"places", scene_places},
        {"progress", scene_progress},
        {"exchanges", scene_exchanges},
        {"stopped", scene_stopped},
        {"stopped_really", scene_stopped_really},
        {"inner", scene_inner},
        {"lock", scene_lock},
        {"locks", scene_locks},
        {"in_turn", scene_in_turn},
        {"longjmp", scene_longjmp},
        {"fork", scene_fork},
        {"poll", scene_poll},
        {"yield", scene_yield},
        {"mark", scene_mark_inside},
        {"threads", scene_threads},
        {"absent", scene_absent},
        {"signals", scene_signals},
        {"interrupted", scene_interrupted},
        {"tests", scene_tests},
        {"short_counted", scene_short_counted},
        {"sends_counted", scene_sends_counted},
        {"tests_counted", scene_tests_counted},
        {"die", scene_die},
        {"work", scene_work},
        {"visible_steps", scene_visible_steps},
        {"hidden_steps", scene_hidden_steps},
};

int main(int argc, char **argv)
{
	int session;

	if (argc < 2)
		return 2;
	if (argc > 2)
		close(atoi(argv[2]));
	if (strcmp(argv[1], "session") == 0)
		MPI_Session_init(0, 0, &session);
	if (strcmp(argv[1], "session_alone") == 0)
		return MPI_Session_init(0, 0, &session);
	MPI_Init(NULL, NULL);
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (strcmp(scenes[i].name, argv[1]) == 0)
			scenes[i].play();
	MPI_Finalize();
	return 0;
}
