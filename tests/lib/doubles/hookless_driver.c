/*
 * A program on top of hookless_mpi.c, one scene per argument. Makes each call several times, and prints the cost and
 * result of each as "key value" lines.
 *
 *     late CALL STEPS MICROSECONDS COMM [LEAD [THEN]]   plays STEPS steps of that collective, LEAD microseconds after
 *                                                       the start; the last rank comes MICROSECONDS later than this
 *                                                       one, THEN microseconds later from the middle on
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MICROSECONDS 30000
#define CALLS        6
#define COMPUTED     300 /* microseconds that a step computes */

typedef uintptr_t word;

#ifdef OPENMPI
extern char ompi_request_null[256];
#endif

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Wait(HANDLE *, void *);
int MPI_Waitall(int, HANDLE *, void *);
int MPI_Waitany(int, HANDLE *, int *, void *);
int MPI_Waitsome(int, HANDLE *, int *, int *, void *);
int MPI_Irecv(word, word, word, word, word, word, HANDLE *);
int MPI_Recv(word, word, word, word, word, word, void *);
int MPI_Recv_c(word, word, word, word, word, word, void *);
int MPI_Probe(word, word, word, void *);
int MPI_Mprobe(word, word, word, int *, void *);
int MPI_Barrier(word);
int MPI_Allreduce(word, word, word, word, word, word);
int MPI_Alltoall(word, word, word, word, word, word, word);
int MPI_Bcast(word, word, word, word, word);
int MPI_Scan(word, word, word, word, word, word);
int MPI_Reduce(word, word, word, word, word, word, word);
int MPI_Allreduce_c(word, word, word, word, word, word);
int MPI_Allgather(word, word, word, word, word, word, word);
int MPI_Allgatherv(word, word, word, word, word, word, word, word);
int MPI_Alltoallv(word, word, word, word, word, word, word, word, word);
int MPI_Alltoallw(word, word, word, word, word, word, word, word, word);
int MPI_Reduce_scatter(word, word, word, word, word, word);
int MPI_Reduce_scatter_block(word, word, word, word, word, word);
int MPI_Neighbor_alltoall(word, word, word, word, word, word, word);
uint64_t virtual_naps(void) __attribute__((weak));
extern uint64_t fake_last_us;
extern char fake_log[64];

static unsigned char status[STATUS_BYTES + 8];
static int good;

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t microseconds(void)
{
	return (uint64_t)(1e6 * seconds(CLOCK_MONOTONIC));
}

static void compute(uint64_t lasts)
{
	uint64_t end = microseconds() + lasts;

	while (microseconds() < end)
		continue;
}

static HANDLE request(word microseconds)
{
	HANDLE made;

	MPI_Irecv(0, microseconds, 0, 0, 0, 0, &made);
	return made;
}

static void scene_wait(void)
{
	HANDLE one = request(MICROSECONDS);

	good = MPI_Wait(&one, status) == 0 && one == REQUEST_NULL && status[0] == 0xff;
}

static void scene_waitall(void)
{
	HANDLE some[5] = {request(MICROSECONDS), REQUEST_NULL, request(1), request(MICROSECONDS / 2), REQUEST_NULL};

	good = MPI_Waitall(5, some, NULL) == 0;
	for (int i = 0; i < 5; i++)
		good &= some[i] == REQUEST_NULL;
}

static void scene_waitany(void)
{
	HANDLE some[40];
	int index = -1;

	for (int i = 0; i < 40; i++)
		some[i] = i == 39 ? request(MICROSECONDS) : REQUEST_NULL;
	good = MPI_Waitany(40, some, &index, status) == 0 && index == 39 && some[39] == REQUEST_NULL;
}

static void scene_waitsome(void)
{
	HANDLE some[3] = {REQUEST_NULL, request(MICROSECONDS), REQUEST_NULL};
	int count = 0, indices[3] = {-1, -1, -1};

	good = MPI_Waitsome(3, some, &count, indices, NULL) == 0 && count == 1 && indices[0] == 1;
}

static void scene_recv(void)
{
	good = MPI_Recv(0, MICROSECONDS, 0, 0, 0, 0, status) == 0 && status[0] == 0xff;
}

static void scene_recv_c(void)
{
	good = MPI_Recv_c(0, MICROSECONDS, 0, 0, 0, 0, status) == 0 && status[0] == 0xff;
}

static void scene_probe(void)
{
	good = MPI_Probe(0, MICROSECONDS, 0, status) == 0 && status[0] == 0xff;
}

static void scene_probe_fails(void)
{
	scene_probe();
	good &= MPI_Probe(9, 1, 0, status) == 6;
}

static void scene_mprobe(void)
{
	int message = 0;

	good = MPI_Mprobe(0, MICROSECONDS, 0, &message, status) == 0 && message == 4711 && status[0] == 0xff;
}

static void scene_collectives(void)
{
	MPI_Barrier(MICROSECONDS);
	MPI_Allreduce(0, 0, 1, 0, 0, 2);
	MPI_Allreduce(0, 0, 0, 0, 0, 2); /* nothing to reduce: the call need not wait */
	MPI_Allreduce(0, 0, 1, 0, 0, 3); /* an intercommunicator */
	MPI_Alltoall(0, 9, 0, 0, 1, 0, 2);
	MPI_Alltoall(0, 9, 0, 0, 0, 0, 2);
	MPI_Bcast(0, 1, 0, 0, 2);
	good = 1;
}

static const struct {
	const char *name;
	void (*play)(void);
} scenes[] = {
        {"Wait", scene_wait},         {"Waitall", scene_waitall},
        {"Waitany", scene_waitany},   {"Recv", scene_recv},
        {"Waitsome", scene_waitsome}, {"Recv_c", scene_recv_c},
        {"Mprobe", scene_mprobe},     {"collectives", scene_collectives},
        {"Probe", scene_probe},       {"Probe_fails", scene_probe_fails},
};

static void play(void (*scene)(void))
{
	for (int i = 0; i < CALLS; i++) {
		double cpu = seconds(CLOCK_THREAD_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);

		memset(fake_log, 0, sizeof(fake_log));
		memset(status, 0, sizeof(status));
		scene();
		cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
		wall = seconds(CLOCK_MONOTONIC) - wall;
		for (int j = 0; j < 8; j++)
			good &= status[STATUS_BYTES + j] == 0;
		printf("share_%d %.4f\nwall_%d %.6f\ngood_%d %d\n", i, cpu / wall, i, wall, i, good);
	}
	printf("calls made: %s\n", fake_log);
}

/* Returns a communicator as compilers may pass it: an int fills half of its word, and the other half means nothing. */
static word passed(word comm, int step)
{
	return sizeof(HANDLE) == sizeof(int) ? comm | (word)step << 32 : comm;
}

/* Plays steps that compute and then meet the last rank. Prints a mark per step: n if the rank napped before the call,
 * else a dot. */
static void play_late(int (*call)(word), int steps, const uint64_t late[2], word comm)
{
	uint64_t behind = 0;
	int bad = 0;

	printf("steps made: ");
	for (int i = 0; i < steps; i++) {
		uint64_t naps = virtual_naps ? virtual_naps() : 0;

		compute(COMPUTED);
		fake_last_us = microseconds() + late[2 * i >= steps];
		errno = EXDEV;
		bad += call(passed(comm, i)) != 0 || errno != EXDEV;
		behind += microseconds() - fake_last_us;
		putchar(virtual_naps && virtual_naps() > naps ? 'n' : '.');
	}
	printf("\nbehind %lu\nbad %d\n", behind, bad);
}

#define MEETING(name, ...)                      \
	static int meet_##name(word comm)       \
	{                                       \
		return MPI_##name(__VA_ARGS__); \
	}

MEETING(Barrier, comm)
MEETING(Bcast, 0, 1, 0, 0, comm)
MEETING(Scan, 0, 0, 1, 0, 0, comm)
MEETING(Reduce, 0, 0, 1, 0, 0, 0, comm)
MEETING(Allreduce, 0, 0, 1, 0, 0, comm)
MEETING(Allreduce_c, 0, 0, (word)1 << 32, 0, 0, comm)
MEETING(Allgather, 0, 0, 0, 0, 1, 0, comm)
MEETING(Allgatherv, 0, 0, 0, 0, 0, 0, 0, comm)
MEETING(Alltoall, 0, 0, 0, 0, 1, 0, comm)
MEETING(Alltoallv, 0, 0, 0, 0, 0, 0, 0, 0, comm)
MEETING(Alltoallw, 0, 0, 0, 0, 0, 0, 0, 0, comm)
MEETING(Reduce_scatter, 0, 0, 0, 0, 0, comm)
MEETING(Reduce_scatter_block, 0, 0, 1, 0, 0, comm)
MEETING(Neighbor_alltoall, 0, 0, 0, 0, 1, 0, comm)

static int meet_nothing(word comm)
{
	return MPI_Allreduce(0, 0, 0, 0, 0, comm);
}

#define NAMED(name)                \
	{                          \
#name, meet_##name \
	}
static const struct {
	const char *name;
	int (*call)(word);
} meetings[] = {
        NAMED(Barrier),        NAMED(Bcast),      NAMED(Scan),
        NAMED(Reduce),         NAMED(Allreduce),  NAMED(Allreduce_c),
        NAMED(Allgather),      NAMED(Allgatherv), NAMED(Alltoall),
        NAMED(Alltoallv),      NAMED(Alltoallw),  NAMED(Reduce_scatter_block),
        NAMED(Reduce_scatter), NAMED(nothing),    NAMED(Neighbor_alltoall),
};

static void on_signal(int number)
{
	(void)number;
}

static void scene_late(int argc, char **argv)
{
	uint64_t number[8] = {0};

	for (int i = 3; i < argc && i < 8; i++)
		number[i] = strtoull(argv[i], NULL, 10);
	signal(SIGALRM, on_signal);
	compute(number[6]);
	for (size_t i = 0; i < sizeof(meetings) / sizeof(meetings[0]); i++)
		if (strcmp(meetings[i].name, argv[2]) == 0)
			play_late(meetings[i].call, (int)number[3],
			          (uint64_t[]){number[4], argc > 7 ? number[7] : number[4]}, number[5]);
}

int main(int argc, char **argv)
{
	MPI_Init(NULL, NULL);
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (argc > 1 && strcmp(scenes[i].name, argv[1]) == 0)
			play(scenes[i].play);
	if (argc > 5 && strcmp(argv[1], "late") == 0)
		scene_late(argc, argv);
	MPI_Finalize();
	return 0;
}
