/*
 * Measures what waiting for a late partner costs: rank 0 comes DELAY microseconds late to a call in which rank 1 waits.
 *
 *     late-sender CALL BYTES DELAY[:COUNT]...
 *
 * Rank 1 prints one line for each DELAY. After CALL, BYTES and DELAY it has the fraction of the waits in which rank 1's
 * thread used the CPU; then, for each of the COUNT waits, how many microseconds after rank 0's arrival it ended; then
 * the joules that the node's packages used per wait, or "-" if they cannot be read.
 *
 * CALL is recv, send (rank 1 sends, rank 0 receives late), wait (for an Irecv), allreduce, bcast (rank 0 is the root),
 * barrier (of no bytes) or pingpong (without a delay; the figures are half a round trip each). Both ranks must run on
 * one node, because they compare times of CLOCK_MONOTONIC.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT    100 /* default of COUNT */
#define ROUNDS   200 /* round trips of a ping-pong for one figure */
#define TAG      7
#define WORLD    MPI_COMM_WORLD
#define WARM_UP  10 /* waits before the first one that counts */
#define PACKAGES 16 /* powercap zones that are tried */
#define POWERCAP "/sys/class/powercap/intel-rapl:%d/%s"

static char *mine, *theirs;
static int rank, bytes;

static double microseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Returns the energy counter of a powercap zone; 0 if the zone is no package or cannot be read. */
static double zone_joules(int zone)
{
	char path[sizeof(POWERCAP) + 16], name[16] = "";
	double energy_uj = 0;
	FILE *file;

	snprintf(path, sizeof(path), POWERCAP, zone, "name");
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fscanf(file, "%15s", name) != 1)
		name[0] = '\0';
	fclose(file);
	snprintf(path, sizeof(path), POWERCAP, zone, "energy_uj");
	file = strncmp(name, "package", 7) == 0 ? fopen(path, "r") : NULL;
	if (!file)
		return 0;
	if (fscanf(file, "%lf", &energy_uj) != 1)
		energy_uj = 0;
	fclose(file);
	return energy_uj * 1e-6;
}

/* Returns the sum of all packages' counters; 0 if none can be read. */
static double node_joules(void)
{
	double joules = 0;

	for (int zone = 0; zone < PACKAGES; zone++)
		joules += zone_joules(zone);
	return joules;
}

static void message(int from)
{
	if (rank == from)
		MPI_Send(mine, bytes, MPI_BYTE, 1 - rank, TAG, WORLD);
	else
		MPI_Recv(theirs, bytes, MPI_BYTE, 1 - rank, TAG, WORLD, MPI_STATUS_IGNORE);
}

static void call_recv(void)
{
	message(0);
}

static void call_send(void)
{
	message(1);
}

static void call_wait(void)
{
	MPI_Request request;

	if (rank == 0) {
		message(0);
		return;
	}
	MPI_Irecv(theirs, bytes, MPI_BYTE, 0, TAG, WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void call_bcast(void)
{
	MPI_Bcast(mine, bytes, MPI_BYTE, 0, WORLD);
}

static void call_barrier(void)
{
	MPI_Barrier(WORLD);
}

static void call_allreduce(void)
{
	MPI_Allreduce(mine, theirs, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, WORLD);
}

static void call_pingpong(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		message(0);
		message(1);
	}
}

static const struct {
	const char *name;
	void (*play)(void);
} calls[] = {
        {"recv", call_recv},   {"send", call_send},       {"wait", call_wait},         {"allreduce", call_allreduce},
        {"bcast", call_bcast}, {"barrier", call_barrier}, {"pingpong", call_pingpong},
};

static void (*call_find(const char *name))(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].play;
	return NULL;
}

/* Delays the caller. Short delays, and the rest of long ones, are spent in a loop: nanosleep takes about 60 us more. */
static void be_late(double delay_us)
{
	double end = microseconds(CLOCK_MONOTONIC) + delay_us;
	struct timespec most = {(time_t)(delay_us / 1e6), (long)delay_us % 1000000 * 1000};

	if (delay_us >= 1000)
		nanosleep(&most, NULL);
	while (microseconds(CLOCK_MONOTONIC) < end)
		continue;
}

/* Plays one wait. Returns, on rank 1, how long after rank 0's arrival it ended; adds its CPU time and its length. */
static double wait_once(void (*play)(void), double delay_us, double *cpu_us, double *wall_us)
{
	double began, cpu, ended, arrived = 0;

	MPI_Barrier(WORLD);
	if (rank == 0) {
		be_late(delay_us);
		arrived = microseconds(CLOCK_MONOTONIC);
	}
	began = microseconds(CLOCK_MONOTONIC);
	cpu = microseconds(CLOCK_THREAD_CPUTIME_ID);
	play();
	*cpu_us += microseconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	ended = microseconds(CLOCK_MONOTONIC);
	*wall_us += ended - began;
	MPI_Bcast(&arrived, 1, MPI_DOUBLE, 0, WORLD);
	return ended - (arrived > began ? arrived : began);
}

static void report(const char *name, double delay_us, double cpu_share, const double after_us[], int count,
                   double joules)
{
	printf("%s %d %g %.4f ", name, bytes, delay_us, cpu_share);
	for (int i = 0; i < count; i++)
		printf("%s%.3f", i ? "," : "", after_us[i]);
	if (joules > 0)
		printf(" %.6f\n", joules / count);
	else
		printf(" -\n"); /* the counters cannot be read, or one has wrapped */
	fflush(stdout);
}

static void measure(const char *name, void (*play)(void), const char *argument)
{
	const char *colon = strchr(argument, ':');
	int count = colon ? atoi(colon + 1) : COUNT, rounds = play == call_pingpong ? 2 * ROUNDS : 1;
	double delay_us = atof(argument), cpu_us = 0, wall_us = 0, warm_us = 0;
	double *after_us = calloc((size_t)count, sizeof(*after_us));
	double joules;

	for (int i = 0; i < WARM_UP; i++)
		wait_once(play, 0, &warm_us, &warm_us);
	joules = node_joules();
	for (int i = 0; i < count; i++)
		after_us[i] = wait_once(play, delay_us, &cpu_us, &wall_us) / rounds;
	if (rank == 1)
		report(name, delay_us, cpu_us / wall_us, after_us, count, node_joules() - joules);
	free(after_us);
}

int main(int argc, char **argv)
{
	void (*play)(void) = argc > 3 ? call_find(argv[1]) : NULL;
	int size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_size(WORLD, &size);
	bytes = play ? atoi(argv[2]) : 0;
	if (!play || bytes <= 0 || size != 2) {
		if (rank == 0)
			fprintf(stderr, "usage: late-sender recv|send|wait|allreduce|bcast|barrier|pingpong BYTES "
			                "DELAY_US[:COUNT]..., on 2 ranks\n");
		MPI_Abort(WORLD, 2);
	}
	mine = calloc(1, (size_t)bytes);
	theirs = calloc(1, (size_t)bytes);
	for (int i = 3; i < argc; i++)
		measure(argv[1], play, argv[i]);
	free(theirs);
	free(mine);
	MPI_Finalize();
	return 0;
}
