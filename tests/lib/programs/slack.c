/*
 * Prints the timer slack (prctl(2)) around waits. Rank 0 is late each time. Rank 1 waits, and prints "WHAT NS" lines:
 * in a reduction's operator (where it sets its own), in a thread and a child made there, after the wait, and after
 * waits that an error handler left by a jump.
 */
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_NS  70000UL
#define SECOND_NS 120000UL
#define LATE_US   20000
#define PLACES    4

static jmp_buf out;
static int rank;
static int found[PLACES];

static int slack_get(void)
{
	return prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
}

static void *thread_run(void *place)
{
	*(int *)place = slack_get();
	return NULL;
}

static int slack_of_thread(void)
{
	pthread_t thread;
	int slack_ns = -1;

	if (pthread_create(&thread, NULL, thread_run, &slack_ns) == 0)
		pthread_join(thread, NULL);
	return slack_ns;
}

static int slack_of_child(void)
{
	int ends[2], slack_ns = -1;
	pid_t child;

	if (pipe(ends) < 0 || (child = fork()) < 0)
		return -1;
	if (child == 0) {
		slack_ns = slack_get();
		_exit(write(ends[1], &slack_ns, sizeof(slack_ns)) < 0);
	}
	close(ends[1]);
	if (read(ends[0], &slack_ns, sizeof(slack_ns)) < 0)
		slack_ns = -1;
	close(ends[0]);
	waitpid(child, NULL, 0);
	return slack_ns;
}

/* Runs within MPI_Scan; on rank 1 after it has waited there. */
static void operator(void *in, void *inout, int *length, MPI_Datatype *type)
{
	(void)in, (void)inout, (void)length, (void)type;
	if (found[0] != 0) /* some MPIs call the operator twice */
		return;
	found[0] = slack_get();
	found[1] = slack_of_thread();
	found[2] = slack_of_child();
	prctl(PR_SET_TIMERSLACK, SECOND_NS, 0UL, 0UL, 0UL);
}

static void handler_jump(MPI_Comm *comm, int *error, ...)
{
	(void)comm, (void)error;
	found[3] = slack_get();
	longjmp(out, 1);
}

static void late(void)
{
	if (rank == 0)
		usleep(LATE_US);
}

static void scan(void)
{
	int mine = rank, sum = 0;
	MPI_Op op;

	MPI_Op_create(operator, 1, &op);
	late();
	MPI_Scan(&mine, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
	MPI_Op_free(&op);
}

/* Receives a message that is too long for the buffer: the error comes after the wait. */
static void cut_short(void)
{
	int values[64] = {0};

	late();
	if (rank == 0)
		MPI_Send(values, 64, MPI_INT, 1, 0, MPI_COMM_WORLD);
	else if (setjmp(out) == 0)
		MPI_Recv(values, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	MPI_Errhandler handler;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_create_errhandler(handler_jump, &handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	prctl(PR_SET_TIMERSLACK, FIRST_NS, 0UL, 0UL, 0UL);
	scan();
	if (rank == 1)
		printf("operator %d\nthread %d\nchild %d\nscanned %d\n", found[0], found[1], found[2], slack_get());
	prctl(PR_SET_TIMERSLACK, FIRST_NS, 0UL, 0UL, 0UL);
	cut_short();
	if (rank == 1)
		printf("handler %d\njumped %d\nthread_after %d\nchild_after %d\n", found[3], slack_get(),
		       slack_of_thread(), slack_of_child());
	prctl(PR_SET_TIMERSLACK, SECOND_NS, 0UL, 0UL, 0UL);
	late();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1)
		printf("waited_again %d\n", slack_get());
	MPI_Finalize();
	return EXIT_SUCCESS;
}
