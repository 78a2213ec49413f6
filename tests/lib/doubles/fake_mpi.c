/*
 * A double of Open MPI's libmpi: its calls block as the caller asks, in a wait loop like Open MPI 4.1's.
 *
 * Arguments say how a call blocks; they describe no messages:
 *     MPI_Recv(buffer, microseconds, type, progress_every, tag, comm, status)
 *         polls until the time is over; every progress_every-th poll makes progress (0: none does)
 *     MPI_Bcast(unused, steps, microseconds, visible, unused)
 *         waits a step of 20 ms, then `steps` steps of that many microseconds, each of which begins when the poll has
 *         noticed the end of the last; fake_step_polls counts their polls, fake_step_late_us sums the delays
 *     MPI_Allreduce    as MPI_Recv, through PMPI_Recv as an inner call: (unused, unused, microseconds, ...)
 *     MPI_Wait         calls *fake_callback from inside, which may leave by longjmp
 *     MPI_Win_lock     blocks for "rank" microseconds
 *     MPI_Test         polls once; its flag is the result of *fake_until
 *     MPI_Sendrecv     blocks for "tag" microseconds
 *     PMPI_Type_size   returns the datatype as its size
 *
 * If *fake_until is set, a blocking call also ends when it returns true. MPI_Barrier, MPI_Send, MPI_Isend and MPI_Irecv
 * return at once.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAKE_ERR_ARG 12

#define ALIAS(name) __attribute__((weak, alias(#name)))

typedef uintptr_t word;

char ompi_mpi_comm_world[256];
void (*fake_callback)(void);
bool (*fake_until)(void);
int fake_polls;
int fake_work_us; /* microseconds of work that progress takes without reporting it */

int fake_step_polls, fake_step_late_us;

int (*fake_progress)(void); /* the progress callback */
int fake_sleeps;            /* idle polls that slept instead of yielding */

static bool yields;
static int events;   /* result of the next poll */
static int strategy; /* threads_pthreads_yield_strategy: 1 sleeps */

/* Finds the variable if FAKE_STRATEGY is set: Open MPI 4 has no such variable. */
int mca_base_var_find_by_name(const char *name, int *ret_variable);
int mca_base_var_find_by_name(const char *name, int *ret_variable)
{
	if (strcmp(name, "threads_pthreads_yield_strategy") != 0 || !getenv("FAKE_STRATEGY"))
		return -13;
	*ret_variable = 42;
	return 0;
}

int mca_base_var_get_value(int variable, const void *ret_value, void *source, void *file);
int mca_base_var_get_value(int variable, const void *ret_value, void *source, void *file)
{
	(void)source, (void)file;
	if (variable != 42)
		return -13;
	strategy = atoi(getenv("FAKE_STRATEGY"));
	*(const int **)(uintptr_t)ret_value = &strategy;
	return 0;
}

static int idle_sleep(void)
{
	return fake_sleeps++;
}

static int (*idle_call)(void) = sched_yield;

void opal_progress(void);
void opal_progress(void)
{
	fake_polls++;
	if (fake_progress)
		fake_progress();
	if (events > 0) {
		events--;
		return;
	}
	if (yields)
		idle_call();
}

bool opal_progress_set_yield_when_idle(bool yield);
bool opal_progress_set_yield_when_idle(bool yield)
{
	bool before = yields;

	yields = yield;
	return before;
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void work(int microseconds)
{
	uint64_t end = now_us() + (uint64_t)microseconds;

	while (now_us() < end)
		continue;
}

static void block(uint64_t microseconds, int progress_every)
{
	uint64_t end = now_us() + microseconds;

	for (int poll = 1; now_us() < end && !(fake_until && fake_until()); poll++) {
		if (progress_every > 0 && poll % progress_every == 0 && fake_work_us == 0)
			events = 1;
		else if (progress_every > 0 && poll % progress_every == 0)
			work(fake_work_us);
		opal_progress();
	}
}

static int initialized;

/* A runtime that was told to yield (mpi_yield_when_idle=1) does so from Init on. */
extern char *getenv(const char *);

int PMPI_Init(int *, char ***);
int PMPI_Init(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	yields = getenv("FAKE_YIELDS") != 0;
	if (getenv("FAKE_STRATEGY") && atoi(getenv("FAKE_STRATEGY")) == 1)
		idle_call = idle_sleep;
	initialized = 1;
	for (int i = 0; i < 200; i++)
		opal_progress();
	return 0;
}
int MPI_Init(int *, char ***) ALIAS(PMPI_Init);

int PMPI_Session_init(word, word, int *);
int PMPI_Session_init(word info, word handler, int *session)
{
	(void)info, (void)handler;
	*session = 1;
	return 0;
}
int MPI_Session_init(word, word, int *) ALIAS(PMPI_Session_init);

int PMPI_Initialized(int *);
int PMPI_Initialized(int *flag)
{
	*flag = initialized;
	return 0;
}
int MPI_Initialized(int *) ALIAS(PMPI_Initialized);

int PMPI_Comm_rank(word, int *);
int PMPI_Comm_rank(word comm, int *rank)
{
	*rank = 3;
	return comm == (word)ompi_mpi_comm_world ? 0 : 5;
}
int PMPI_Comm_size(word, int *);
int PMPI_Comm_size(word comm, int *size)
{
	*size = getenv("FAKE_SIZE") ? atoi(getenv("FAKE_SIZE")) : 7;
	return comm == (word)ompi_mpi_comm_world ? 0 : 5;
}

/* The arguments that followed a level of 77: a word, a number, and so on, in turn. Other levels have none. */
long fake_told;
double fake_told_float;

int PMPI_Pcontrol(const int, ...);
int PMPI_Pcontrol(const int level, ...)
{
	va_list rest;

	va_start(rest, level);
	for (int i = 0; level == 77 && i < 5; i++) {
		fake_told = 10 * fake_told + va_arg(rest, long);
		fake_told_float = 10 * fake_told_float + va_arg(rest, double);
	}
	va_end(rest);
	return level < -1 ? FAKE_ERR_ARG : 0;
}
int MPI_Pcontrol(const int, ...) ALIAS(PMPI_Pcontrol);

int PMPI_Recv(word, word, word, word, word, word, word);
int PMPI_Recv(word buffer, word microseconds, word type, word every, word tag, word comm, word status)
{
	block(microseconds, (int)every);
	return buffer == 1 && type == 3 && tag == 5 && comm == 6 && status == 7 ? 0 : 1;
}
int MPI_Recv(word, word, word, word, word, word, word) ALIAS(PMPI_Recv);

int PMPI_Allreduce(word, word, word, word, word, word);
int PMPI_Allreduce(word a, word b, word microseconds, word c, word d, word e)
{
	(void)a, (void)b, (void)c, (void)d, (void)e;
	return PMPI_Recv(1, microseconds, 3, 0, 5, 6, 7);
}
int MPI_Allreduce(word, word, word, word, word, word) ALIAS(PMPI_Allreduce);

/* Polls for one step. visible: the poll that notices its end does not yield. */
static void step(uint64_t microseconds, bool visible)
{
	uint64_t end = now_us() + microseconds;

	while (now_us() < end)
		opal_progress();
	events = visible;
	fake_step_late_us += (int)(now_us() - end);
	opal_progress();
}

int PMPI_Bcast(word, word, word, word, word);
int PMPI_Bcast(word buffer, word steps, word microseconds, word visible, word comm)
{
	(void)buffer, (void)comm;
	step(20000, visible != 0);
	fake_step_polls = -fake_polls;
	fake_step_late_us = 0;
	for (word i = 0; i < steps; i++)
		step(microseconds, visible != 0);
	fake_step_polls += fake_polls;
	return 0;
}
int MPI_Bcast(word, word, word, word, word) ALIAS(PMPI_Bcast);

int PMPI_Barrier(word);
int PMPI_Barrier(word comm)
{
	(void)comm;
	return 0;
}
int MPI_Barrier(word) ALIAS(PMPI_Barrier);

int PMPI_Send(word, word, word, word, word, word);
int PMPI_Send(word buffer, word count, word type, word dest, word tag, word comm)
{
	(void)buffer, (void)count, (void)type, (void)dest, (void)tag, (void)comm;
	return 0;
}
int MPI_Send(word, word, word, word, word, word) ALIAS(PMPI_Send);

int PMPI_Isend(word, word, word, word, word, word, word);
int PMPI_Isend(word buffer, word count, word type, word dest, word tag, word comm, word request)
{
	(void)buffer, (void)count, (void)type, (void)dest, (void)tag, (void)comm, (void)request;
	return 0;
}
int MPI_Isend(word, word, word, word, word, word, word) ALIAS(PMPI_Isend);

int PMPI_Irecv(word, word, word, word, word, word, word);
int PMPI_Irecv(word buffer, word count, word type, word source, word tag, word comm, word request)
{
	(void)buffer, (void)count, (void)type, (void)source, (void)tag, (void)comm, (void)request;
	return 0;
}
int MPI_Irecv(word, word, word, word, word, word, word) ALIAS(PMPI_Irecv);

int PMPI_Sendrecv(word, word, word, word, word, word, word, word, word, word, word, word);
int PMPI_Sendrecv(word buffer, word count, word type, word dest, word tag, word into, word most, word of, word source,
                  word with, word comm, word status)
{
	(void)buffer, (void)count, (void)type, (void)dest, (void)comm;
	(void)into, (void)most, (void)of, (void)source, (void)with, (void)status;
	block(tag, 0);
	return 0;
}
int MPI_Sendrecv(word, word, word, word, word, word, word, word, word, word, word, word) ALIAS(PMPI_Sendrecv);

int PMPI_Type_size(word, int *);
int PMPI_Type_size(word type, int *size)
{
	*size = (int)type;
	return 0;
}

int PMPI_Wait(word, word);
int PMPI_Wait(word request, word status)
{
	(void)request, (void)status;
	block(300, 0);
	if (fake_callback)
		fake_callback();
	return 0;
}
int MPI_Wait(word, word) ALIAS(PMPI_Wait);

int PMPI_Win_lock(word, word, word, word);
int PMPI_Win_lock(word type, word microseconds, word assert, word window)
{
	(void)type, (void)assert, (void)window;
	block(microseconds, 0);
	return 0;
}
int MPI_Win_lock(word, word, word, word) ALIAS(PMPI_Win_lock);

int PMPI_Test(word, word, word);
int PMPI_Test(word request, word flag, word status)
{
	(void)request, (void)status;
	if (flag == 0)
		return FAKE_ERR_ARG;
	opal_progress();
	*(int *)flag = fake_until && fake_until();
	return 0;
}
int MPI_Test(word, word, word) ALIAS(PMPI_Test);

int PMPI_Abort(word, int);
int PMPI_Abort(word comm, int code)
{
	(void)comm;
	block(100000, 0);
	_exit(code);
}
int MPI_Abort(word, int) ALIAS(PMPI_Abort);

int PMPI_Finalize(void);
int PMPI_Finalize(void)
{
	return 0;
}
int MPI_Finalize(void) ALIAS(PMPI_Finalize);
