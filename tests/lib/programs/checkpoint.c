/*
 * A program with checkpoint handlers, in a wait that only the test ends: rank 1 blocks in Recv, and rank 0 sends when
 * the file DIRECTORY/release exists. Each signal that rank 1 handles adds a letter to DIRECTORY/handled, or a dash if
 * another thread than the waiting one handled it.
 *
 *     checkpoint DIRECTORY [exit]
 *
 * SIGUSR1: the program goes on. SIGTERM: it goes on and ends with status 7; with "exit" the handler ends it with 9.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DOUBLES 1000

static int handled = -1;
static volatile sig_atomic_t exits, asked_to_end;

static void handle(int number)
{
	int saved = errno;
	const char *letter = syscall(SYS_gettid) != getpid() ? "-" : number == SIGTERM ? "T" : "U";

	if (handled >= 0 && write(handled, letter, 1) != 1)
		_exit(4);
	if (number == SIGTERM && exits)
		_exit(9);
	asked_to_end |= number == SIGTERM;
	errno = saved;
}

static void handlers_set(void)
{
	struct sigaction action = {.sa_handler = handle};

	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void send_when_released(const char *directory)
{
	struct timespec pause = {0, 2000000};
	double data[DOUBLES];
	char path[4096];

	snprintf(path, sizeof(path), "%s/release", directory);
	while (access(path, F_OK) < 0)
		nanosleep(&pause, NULL);
	for (int i = 0; i < DOUBLES; i++)
		data[i] = (double)i / 7.0;
	MPI_Send(data, DOUBLES, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD);
}

/* Sets the handlers, then writes the process id: a reader of it finds the handlers set. */
static void say_pid(const char *directory)
{
	char name[4096], temporary[4096];
	FILE *file;

	snprintf(name, sizeof(name), "%s/handled", directory);
	handled = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	handlers_set();
	snprintf(name, sizeof(name), "%s/pid", directory);
	snprintf(temporary, sizeof(temporary), "%s/pid.new", directory);
	file = fopen(temporary, "w");
	if (!file)
		return;
	fprintf(file, "%d\n", (int)getpid());
	fclose(file);
	rename(temporary, name);
}

static void receive(void)
{
	double data[DOUBLES], sum = 0, began;

	began = seconds();
	MPI_Recv(data, DOUBLES, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < DOUBLES; i++)
		sum += data[i];
	printf("wall_s=%.6f checksum=%a\n", seconds() - began, sum);
}

int main(int argc, char **argv)
{
	int rank;

	exits = argc > 2 && strcmp(argv[2], "exit") == 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 0) {
		handlers_set();
		exits = 0;
		send_when_released(argv[1]);
	} else {
		say_pid(argv[1]);
		receive();
	}
	MPI_Finalize();
	return rank == 1 && asked_to_end ? 7 : 0;
}
