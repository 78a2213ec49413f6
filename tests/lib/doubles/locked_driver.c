/*
 * A thread that waits in Recv of the fake library with a lock; with "threads", a second one polls Iprobe meanwhile.
 * Prints "key value" lines.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uintptr_t word;

int MPI_Init_thread(int *, char ***, int, int *);
int MPI_Finalize(void);
int MPI_Recv(word, word, word, word, word, word, word);
int MPI_Iprobe(word, word, word, word, word);
extern int fake_yields;

#define WAIT_US 300000

static int done;
static long count;

static void *polls(void *argument)
{
	for (; !__atomic_load_n(&done, __ATOMIC_RELAXED); __atomic_add_fetch(&count, 1, __ATOMIC_RELEASE))
		MPI_Iprobe(0, 0, 0, 0, 0);
	return argument;
}

int main(int argc, char **argv)
{
	int threaded = argc > 1 && strcmp(argv[1], "threads") == 0, provided;
	pthread_t thread;

	MPI_Init_thread(NULL, NULL, 3, &provided);
	MPI_Iprobe(0, 0, 0, 0, 0);
	if (threaded)
		pthread_create(&thread, NULL, polls, NULL);
	while (threaded && __atomic_load_n(&count, __ATOMIC_ACQUIRE) == 0)
		continue;
	MPI_Recv(0, WAIT_US, 0, 0, 0, 0, 0);
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	if (threaded)
		pthread_join(thread, NULL);
	printf("yields %d\npolls %ld\n", fake_yields, count);
	MPI_Finalize();
	return 0;
}
