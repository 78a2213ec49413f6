/*
 * A thread waits in Recv of the fake library with a lock, in one of these scenes:
 *
 *     (none)                 no other thread calls MPI
 *     alike                  no other thread, and a thousand waits of a millisecond come before
 *     fences                 no other thread, and a thousand fences of a millisecond come before
 *     threads                a second thread polls Iprobe meanwhile; the wait ends when that has had the lock often
 *     called MICROSECONDS    a second thread has called Iprobe once and ended; the wait lasts that long
 *
 * Prints "key value" lines.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uintptr_t word;

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Recv(word, word, word, word, word, word, word);
int MPI_Iprobe(word, word, word, word, word);
int MPI_Win_fence(word, word);
extern int fake_wait_mode;
extern int fake_yields;
extern bool (*fake_until)(void);

#define WAIT_US         300000
#define WAIT_THREADS_US 5000 /* each of its polls is a switch between the threads */
#define POLLS           200
#define ALIKE           1000
#define ALIKE_US        1000

static int done;
static long count;

static void wait_us(word microseconds)
{
	MPI_Recv(0, microseconds, 0, 0, 0, 0, 0);
}

static void *polls(void *argument)
{
	for (; !__atomic_load_n(&done, __ATOMIC_RELAXED); __atomic_add_fetch(&count, 1, __ATOMIC_RELEASE))
		MPI_Iprobe(0, 0, 0, 0, 0);
	return argument;
}

static void *call(void *argument)
{
	MPI_Iprobe(0, 0, 0, 0, 0);
	return argument;
}

static bool polled_often(void)
{
	return __atomic_load_n(&count, __ATOMIC_ACQUIRE) >= POLLS;
}

static void wait_beside(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, polls, NULL);
	while (__atomic_load_n(&count, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	fake_until = polled_often;
	wait_us(WAIT_THREADS_US);
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static void wait_after(word microseconds)
{
	pthread_t thread;

	pthread_create(&thread, NULL, call, NULL);
	pthread_join(thread, NULL);
	wait_us(microseconds);
}

int main(int argc, char **argv)
{
	const char *scene = argc > 1 ? argv[1] : "";
	int provided;

	MPI_Init_thread(NULL, NULL, 3, &provided);
	MPI_Iprobe(0, 0, 0, 0, 0);
	for (int i = 0; i < ALIKE && strcmp(scene, "alike") == 0; i++)
		wait_us(ALIKE_US);
	for (int i = 0; i < ALIKE && strcmp(scene, "fences") == 0; i++)
		MPI_Win_fence(ALIKE_US, 0);
	if (strcmp(scene, "threads") == 0)
		wait_beside();
	else if (strcmp(scene, "called") == 0 && argc > 2)
		wait_after((word)atol(argv[2]));
	else
		wait_us(WAIT_US);
	printf("yields %d\npolls %ld\n", fake_yields, count);
	printf("wait_mode %d\n", fake_wait_mode);
	MPI_Finalize();
	return 0;
}
