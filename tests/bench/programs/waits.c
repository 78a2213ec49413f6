/*
 * Plays waits that repeat, and others: rank 0 comes late to each by a time that the scene gives, rank 1 waits in Recv.
 *
 *     waits SCENE:US:COUNT...
 *
 *     near         US, give or take 2 %
 *     coin         a tenth of US, or nineteen tenths
 *     change       three tenths of US, or US: it changes every 100 waits
 *     uniform      anything up to twice US
 *     exponential  US in the mean
 *     adversary    US, or as soon as rank 1 sleeps, from a tenth of US on
 *
 * Rank 1 prints per argument "waits SCENE US COUNT cpu_share loop_us after_us,...": the CPU share of its thread in the
 * waits, the length of the whole loop, and how long after rank 0's arrival each wait ended. If all waits are alike, the
 * first ones, from which the library learns, do not count. Each argument has a communicator of its own, which the
 * library does not know yet. Both ranks must run on one node.
 */
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TAG        7
#define LEARNED    20
#define JITTER     0.02
#define EVERY      100
#define SPUN_US    2000
#define LONGEST    20 /* longest exponential wait, in means */
#define SCENE_SIZE 32

static int rank, partner_state = -1;
static MPI_Comm comm;
static uint64_t random_state;

static double microseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Returns a random number greater than 0, at most 1; the same sequence for every variant. */
static double random_unit(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)((random_state >> 11) + 1) / 9007199254740992.0;
}

static double late_near(double us, int number)
{
	(void)number;
	return us * (1 + JITTER * (2 * random_unit() - 1));
}

static double late_coin(double us, int number)
{
	(void)number;
	return us * (random_unit() < 0.5 ? 0.1 : 1.9);
}

static double late_change(double us, int number)
{
	return us * (number / EVERY % 2 ? 1 : 0.3);
}

static double late_uniform(double us, int number)
{
	(void)number;
	return 2 * us * random_unit();
}

static double late_exponential(double us, int number)
{
	double times = -log(random_unit());

	(void)number;
	return us * (times < LONGEST ? times : LONGEST);
}

static double late_constant(double us, int number)
{
	(void)number;
	return us;
}

static const struct scene {
	const char *name;
	double (*late)(double us, int number);
	int learned; /* first waits, which do not count */
	int adverse;
} scenes[] = {
        {"near", late_near, LEARNED, 0},         {"coin", late_coin, 0, 0},
        {"change", late_change, 0, 0},           {"uniform", late_uniform, 0, 0},
        {"exponential", late_exponential, 0, 0}, {"adversary", late_constant, 0, 1},
};

static int partner_sleeps(void)
{
	char text[256];
	ssize_t length = pread(partner_state, text, sizeof(text) - 1, 0);
	const char *found;

	if (length <= 0)
		return 0;
	text[length] = '\0';
	found = strrchr(text, ')');
	return found && found[1] == ' ' && found[2] == 'S';
}

/* Waits until rank 0 is late enough. The end is polled, because a sleep's end is not exact. */
static void be_late(double us, int adverse)
{
	double began = microseconds(CLOCK_MONOTONIC), now = began;

	if (us > 2 * SPUN_US && !adverse)
		usleep((useconds_t)(us - SPUN_US));
	while (now - began < us && !(adverse && now - began > us / 10 && partner_sleeps()))
		now = microseconds(CLOCK_MONOTONIC);
}

/* Rank 0 opens the state file of rank 1's thread, to see whether the thread sleeps. */
static void partner_find(void)
{
	int thread = (int)syscall(SYS_gettid), process = (int)getpid(), partner[2] = {process, thread};
	char path[64];

	MPI_Bcast(partner, 2, MPI_INT, 1, MPI_COMM_WORLD);
	if (rank != 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", partner[0], partner[1]);
	partner_state = open(path, O_RDONLY | O_CLOEXEC);
}

/* Plays one wait. Returns on rank 1 how long after rank 0's arrival it ended, and adds up its times. */
static double wait_once(const struct scene *scene, double us, int number, double *cpu_us, double *wall_us)
{
	double began, cpu, ended, arrived = 0;

	MPI_Barrier(comm);
	if (rank == 0) {
		be_late(scene->late(us, number), scene->adverse);
		arrived = microseconds(CLOCK_MONOTONIC);
		MPI_Send(&arrived, 1, MPI_DOUBLE, 1, TAG, comm);
		return 0;
	}
	began = microseconds(CLOCK_MONOTONIC);
	cpu = microseconds(CLOCK_THREAD_CPUTIME_ID);
	MPI_Recv(&arrived, 1, MPI_DOUBLE, 0, TAG, comm, MPI_STATUS_IGNORE);
	*cpu_us += microseconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	ended = microseconds(CLOCK_MONOTONIC);
	*wall_us += ended - began;
	return ended - (arrived > began ? arrived : began);
}

static void measure(const struct scene *scene, double us, int count)
{
	double *after_us = calloc((size_t)count, sizeof(*after_us)), cpu_us = 0, wall_us = 0, warm_us = 0, loop_us;

	random_state = 4711;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int i = 0; i < scene->learned; i++)
		wait_once(scene, us, i, &warm_us, &warm_us);
	loop_us = microseconds(CLOCK_MONOTONIC);
	for (int i = 0; i < count; i++)
		after_us[i] = wait_once(scene, us, i, &cpu_us, &wall_us);
	loop_us = microseconds(CLOCK_MONOTONIC) - loop_us;
	if (rank == 1) {
		printf("waits %s %g %d %.4f %.1f ", scene->name, us, count, cpu_us / wall_us, loop_us);
		for (int i = 0; i < count; i++)
			printf("%s%.3f", i ? "," : "", after_us[i]);
		printf("\n");
		fflush(stdout);
	}
	MPI_Comm_free(&comm);
	free(after_us);
}

static void play(const char *argument)
{
	char name[SCENE_SIZE];
	double us;
	int count;

	if (sscanf(argument, "%31[a-z]:%lf:%d", name, &us, &count) == 3 && us > 0 && count > 0)
		for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
			if (strcmp(scenes[i].name, name) == 0) {
				measure(&scenes[i], us, count);
				return;
			}
	fprintf(stderr, "waits: '%s' is not SCENE:US:COUNT\n", argument);
	MPI_Abort(MPI_COMM_WORLD, 2);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	partner_find();
	for (int i = 1; i < argc; i++)
		play(argv[i]);
	MPI_Finalize();
	return 0;
}
