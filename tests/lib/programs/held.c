/*
 * Rank 0 keeps the others waiting in Barrier until a file exists, which it checks outside of MPI. A rank that gets
 * SIGUSR1 prints where it was.
 *
 *     held FILE
 */
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t inside;
static int rank;

/* Prints the line with one write, which a handler may call. */
static void say_where(int number)
{
	static const char *const where[] = {"outside", "in Barrier"};
	char line[] = "rank ?: SIGUSR1 ..........\n";
	char *at = line + sizeof("rank ?: SIGUSR1 ") - 1;

	(void)number;
	line[5] = (char)('0' + rank % 10);
	for (const char *word = where[inside]; *word; word++)
		*at++ = *word;
	*at++ = '\n';
	if (write(STDOUT_FILENO, line, (size_t)(at - line)) < 0)
		_exit(1);
}

static void file_await(const char *file)
{
	struct timespec pause = {0, 20000000};

	while (access(file, F_OK) < 0)
		nanosleep(&pause, NULL);
}

static void file_make(const char *file)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s.%d", file, rank);
	close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = say_where};

	if (argc != 2)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	sigaction(SIGUSR1, &action, NULL);
	if (rank == 0)
		file_await(argv[1]);
	else
		file_make(argv[1]);
	inside = 1;
	MPI_Barrier(MPI_COMM_WORLD);
	inside = 0;
	MPI_Finalize();
	return 0;
}
