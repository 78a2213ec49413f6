/* Reads what the launcher says. The invariant stands in launcher.h. */
#include "preload/mpi/launcher.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBER_MAX    (1 << 24) /* ranks that root accepts: SLOTS_RANK_MAX */
#define ANCESTORS     8         /* processes that may stand between proxy and rank: scripts, container runtimes */
#define COMMAND_BYTES 4096

/* Adds a text to an FNV-1a hash, with its final 0, so that "a", "b" and "ab" differ. NULL counts as "". */
static uint64_t hash_add(uint64_t hash, const char *text)
{
	size_t length = text ? strlen(text) : 0;

	for (size_t i = 0; i <= length; i++)
		hash = (hash ^ (i < length ? (unsigned char)text[i] : 0)) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t hash_of(const char *text)
{
	return hash_add(UINT64_C(0xcbf29ce484222325), text);
}

/* Returns a variable's value, NULL if it is unset or empty. */
static const char *value_of(const char *name)
{
	const char *text = getenv(name);

	return text && text[0] ? text : NULL;
}

/* Returns a variable's decimal number below NUMBER_MAX, -1 if its value is no such number. */
static int32_t number_of(const char *name)
{
	const char *text = value_of(name);
	int32_t number = 0;

	if (!text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		number = number * 10 + (*text - '0');
		if (number >= NUMBER_MAX)
			return -1;
	}
	return number;
}

static char *number_write(char *end, pid_t number)
{
	*--end = '\0';
	do
		*--end = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	return end;
}

/* Reads a file of /proc/PID and appends a 0. Returns its size, 0 if it cannot be read. */
static size_t proc_read(pid_t pid, const char *name, char *buffer, size_t size)
{
	char path[40] = "/proc/", digits[16];
	ssize_t got = -1;
	int file;

	strcat(path, number_write(digits + sizeof(digits), pid));
	strcat(path, name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file >= 0) {
		got = read(file, buffer, size - 1);
		close(file);
	}
	buffer[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

/*
 * Returns the parent's pid, 0 if it is not known. The command's name comes first and may contain anything, so its end
 * is the last parenthesis.
 */
static pid_t parent_of(pid_t pid)
{
	char text[512];
	const char *at;
	pid_t parent = 0;

	if (proc_read(pid, "/stat", text, sizeof(text)) == 0 || !(at = strrchr(text, ')')) || strlen(at) < 5)
		return 0;
	for (at += 4; *at >= '0' && *at <= '9'; at++) /* ") S 4711" */
		parent = parent * 10 + (*at - '0');
	return parent;
}

/* Returns the word after another one in a command line of size bytes, NULL if there is none. */
static const char *word_after(const char *command, size_t size, const char *word)
{
	for (size_t at = 0; at < size; at += strlen(command + at) + 1) {
		size_t next = at + strlen(command + at) + 1;

		if (strcmp(command + at, word) == 0 && next < size)
			return command + next;
	}
	return NULL;
}

/*
 * Hashes the launch of MPICH's mpiexec. mpiexec gives its ranks no variable that they all share. But the proxy of each
 * node, which is their ancestor, has the address of mpiexec in its command line, and the number of the process group
 * that it serves. The same proxy may serve spawned processes, so PMI_SPAWNED counts too.
 */
static uint64_t hydra_launch(void)
{
	char command[COMMAND_BYTES];
	pid_t pid = getppid();

	for (int i = 0; i < ANCESTORS && pid > 1; i++, pid = parent_of(pid)) {
		size_t size = proc_read(pid, "/cmdline", command, sizeof(command));
		const char *address = word_after(command, size, "--control-port");

		if (address)
			return hash_add(hash_add(hash_of(address), word_after(command, size, "--pgid")),
			                value_of("PMI_SPAWNED"));
	}
	return 0;
}

static uint64_t variable_launch(const char *name)
{
	const char *text = value_of(name);

	return text ? hash_of(text) : 0;
}

/* Hashes a launch by PMI: Intel's mpiexec, MPICH's, srun, or Cray's. */
static uint64_t pmi_launch(void)
{
	uint64_t launch = variable_launch("I_MPI_HYDRA_UUID");

	if (launch != 0)
		return hash_add(launch, value_of("HYDRA_BSTRAP_PGID"));
	launch = hydra_launch();
	if (launch == 0)
		launch = variable_launch("PMI_JOBID");
	return launch != 0 ? launch : variable_launch("PALS_APID");
}

/*
 * Returns the launch's size. PMIx has no variable for it: mpirun sets one of its own, and srun, which made the name
 * space, has the step's.
 */
static int32_t pmix_size(void)
{
	const char *space = value_of("PMIX_NAMESPACE");

	if (space && strncmp(space, "slurm.pmix.", 11) == 0)
		return number_of("SLURM_STEP_NUM_TASKS");
	return number_of("OMPI_COMM_WORLD_SIZE");
}

void launcher_read(enum mpiwait_family family, bool has_pmix, struct launcher *ret_launcher)
{
	struct launcher found = {.rank = -1};

	if (family != MPIWAIT_FAMILY_OPENMPI && value_of("PMI_RANK")) {
		found = (struct launcher){pmi_launch(), number_of("PMI_RANK"), number_of("PMI_SIZE"), 0};
	} else if ((family == MPIWAIT_FAMILY_OPENMPI || has_pmix) && value_of("PMIX_NAMESPACE")) {
		found = (struct launcher){variable_launch("PMIX_NAMESPACE"), number_of("PMIX_RANK"), pmix_size(), 0};
	} else if (value_of("PALS_APID")) {
		found = (struct launcher){variable_launch("PALS_APID"), number_of("PALS_RANKID"), 0, 0};
	} else if (value_of("PMI_JOBID")) {
		found.launch = variable_launch("PMI_JOBID"); /* Open MPI 4, built with Slurm's PMI */
	}
	if (found.rank < 0 || found.rank >= found.size)
		found.size = 0;
	found.task = (uint32_t)(number_of("SLURM_PROCID") + 1);
	*ret_launcher = found;
}
