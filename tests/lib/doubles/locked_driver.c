/*
 * A thread that waits in Recv of the fake library with a lock; with "threads", a second one polls Iprobe meanwhile, and
 * the wait is not over before that has got the lock often; with "naps", not before it has got it five thousand times,
 * of which it asked for the first 250 in a nap each; with "alike", it waits a thousand times a millisecond.
 * Prints "key value" lines.
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef uintptr_t word;

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Recv(word, word, word, word, word, word, word);
int MPI_Iprobe(word, word, word, word, word);
extern int fake_wait_mode;
extern int fake_yields;
extern bool (*fake_until)(void);

#define WAIT_US         300000
#define WAIT_THREADS_US 5000 /* each poll of it is a switch between the threads */
#define POLLS           200
#define POLLS_NAPS      5000
#define IN_NAPS         250
#define ALIKE           1000
#define ALIKE_US        1000

uint64_t virtual_naps(void) __attribute__((weak));

static int done;
static long count, enough = POLLS;
static int yields_in_naps;
static bool in_naps;

static bool is_done(void)
{
	return __atomic_load_n(&done, __ATOMIC_RELAXED);
}

/* Until the other thread has begun one more nap. */
static void nap_await(void)
{
	const struct timespec pause = {0, 20000};
	static uint64_t known;

	while (virtual_naps() == known && !is_done())
		ppoll(NULL, 0, &pause, NULL);
	known = virtual_naps();
}

static void *polls(void *argument)
{
	for (; !is_done(); __atomic_add_fetch(&count, 1, __ATOMIC_RELEASE)) {
		if (in_naps && count > 0 && count <= IN_NAPS)
			nap_await();
		if (count == IN_NAPS + 1)
			yields_in_naps = __atomic_load_n(&fake_yields, __ATOMIC_RELAXED);
		MPI_Iprobe(0, 0, 0, 0, 0);
	}
	return argument;
}

static bool polled_often(void)
{
	return __atomic_load_n(&count, __ATOMIC_ACQUIRE) >= enough;
}

int main(int argc, char **argv)
{
	int threaded = argc > 1 && strcmp(argv[1], "alike") != 0, provided;
	pthread_t thread;

	in_naps = threaded && strcmp(argv[1], "naps") == 0;
	if (in_naps)
		enough = POLLS_NAPS;

	MPI_Init_thread(NULL, NULL, 3, &provided);
	MPI_Iprobe(0, 0, 0, 0, 0);
	if (threaded)
		pthread_create(&thread, NULL, polls, NULL);
	while (threaded && __atomic_load_n(&count, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	fake_until = threaded ? polled_often : NULL;
	for (int i = 0; i < ALIKE && argc > 1 && strcmp(argv[1], "alike") == 0; i++)
		MPI_Recv(0, ALIKE_US, 0, 0, 0, 0, 0);
	MPI_Recv(0, threaded ? WAIT_THREADS_US : WAIT_US, 0, 0, 0, 0, 0);
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	if (threaded)
		pthread_join(thread, NULL);
	printf("yields %d\npolls %ld\nyields_in_naps %d\n", fake_yields, count, yields_in_naps);
	printf("wait_mode %d\n", fake_wait_mode);
	MPI_Finalize();
	return 0;
}
