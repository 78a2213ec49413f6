/*
 * A double of an MPI library of the MPICH family that takes one lock for every call, and keeps it while it yields in
 * its wait loop, as Intel MPI does: a nap there keeps every other thread out.
 *
 *     MPI_Recv(buffer, microseconds, ...)    polls until the time is over and *fake_until, unless NULL, returns true
 *     MPI_Win_fence(microseconds, ...)       the same
 *     MPI_Iprobe                             polls once
 *
 * The lock is fair: threads get it in the order in which they came.
 *
 * With GIVES_LOCK it is MPICH 5, which gives up its lock for the yield.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define ALIAS(name) __attribute__((weak, alias(#name)))

typedef uintptr_t word;

int fake_yields;    /* yields in the wait loop */
int fake_wait_mode; /* I_MPI_WAIT_MODE at MPI_Init, -1: not set */
bool (*fake_until)(void);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned next_ticket, served;

static void lock_take(void)
{
	unsigned ticket;

	pthread_mutex_lock(&mutex);
	ticket = next_ticket++;
	while (served != ticket)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

static void lock_give(void)
{
	pthread_mutex_lock(&mutex);
	served++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

/* The library under test recognises Intel MPI and MPICH 5 by these symbols. */
#ifdef GIVES_LOCK
#define MARKER PMPI_Abi_get_version
#else
#define MARKER I_MPI_Check_image_status
#endif
int MARKER(void);
int MARKER(void)
{
	return 0;
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int PMPI_Init_thread(int *, char ***, int, int *);
int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	(void)argc, (void)argv;
	*provided = required;
	fake_wait_mode = getenv("I_MPI_WAIT_MODE") ? atoi(getenv("I_MPI_WAIT_MODE")) : -1;
	return 0;
}
int MPI_Init_thread(int *, char ***, int, int *) ALIAS(PMPI_Init_thread);

int PMPI_Init(int *, char ***);
int PMPI_Init(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return 0;
}
int MPI_Init(int *, char ***) ALIAS(PMPI_Init);

int PMPI_Initialized(int *);
int PMPI_Initialized(int *flag)
{
	*flag = 1;
	return 0;
}
int MPI_Initialized(int *) ALIAS(PMPI_Initialized);

int PMPI_Recv(word, word, word, word, word, word, word);
int PMPI_Recv(word buffer, word microseconds, word type, word source, word tag, word comm, word status)
{
	uint64_t end = now_us() + microseconds;

	(void)buffer, (void)type, (void)source, (void)tag, (void)comm, (void)status;
	while (now_us() < end || (fake_until && !fake_until())) {
		lock_take();
#ifdef GIVES_LOCK
		lock_give();
		fake_yields++;
		sched_yield();
#else
		fake_yields++;
		sched_yield();
		lock_give();
#endif
	}
	return 0;
}
int MPI_Recv(word, word, word, word, word, word, word) ALIAS(PMPI_Recv);

int PMPI_Win_fence(word, word);
int PMPI_Win_fence(word microseconds, word window)
{
	return PMPI_Recv(0, microseconds, 0, 0, 0, window, 0);
}
int MPI_Win_fence(word, word) ALIAS(PMPI_Win_fence);

int PMPI_Iprobe(word, word, word, word, word);
int PMPI_Iprobe(word source, word tag, word comm, word flag, word status)
{
	(void)source, (void)tag, (void)comm, (void)flag, (void)status;
	lock_take();
	lock_give();
	return 0;
}
int MPI_Iprobe(word, word, word, word, word) ALIAS(PMPI_Iprobe);

int PMPI_Comm_rank(word, int *);
int PMPI_Comm_rank(word comm, int *rank)
{
	(void)comm;
	*rank = 0;
	return 0;
}

int PMPI_Comm_size(word, int *);
int PMPI_Comm_size(word comm, int *size)
{
	(void)comm;
	*size = getenv("FAKE_SIZE") ? atoi(getenv("FAKE_SIZE")) : 2;
	return 0;
}

int PMPI_Finalize(void);
int PMPI_Finalize(void)
{
	return 0;
}
int MPI_Finalize(void) ALIAS(PMPI_Finalize);
