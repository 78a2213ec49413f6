/*
 * Measures what waiting for a late partner costs: rank 0 comes DELAY microseconds late to a call in which rank 1 waits.
 *
 *     late-sender CALL BYTES DELAY[:COUNT]...
 *
 * Rank 1 prints one line for each DELAY. After CALL, BYTES and DELAY it has the fraction of the waits in which rank 1's
 * thread used the CPU; then, for each of the COUNT waits, how many microseconds after rank 0's arrival it ended; then
 * the joules that the node used per wait, by each counter that the user may read:
 *
 *     packages=J,memory=J      powercap
 *     sockets=J                hwmon, amd_energy
 *     node=J                   the board: Cray's counters, or hwmon, ibmpowernv
 *     gpus=J                   all of NVIDIA's (NVML), AMD's (ROCm SMI) and Intel's (hwmon); "gpus=-": there are
 *                              GPUs, and not all were read
 *     simulated                the machine's counters are a model's
 *
 * Rank 1 prints "-" if no figure is known: no counter can be read, or one has begun anew, or is updated too rarely for
 * so short a time.
 *
 * CALL is recv, send (rank 1 sends, rank 0 receives late), wait (for an Irecv), allreduce, bcast (rank 0 is the root),
 * barrier (of no bytes) or pingpong (without a delay; the figures are half a round trip each). Both ranks must run on
 * one node, because they compare times of CLOCK_MONOTONIC.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT    100 /* default of COUNT */
#define ROUNDS   200 /* round trips of a ping-pong for one figure */
#define TAG      7
#define WORLD    MPI_COMM_WORLD
#define WARM_UP  10   /* waits before the first one that counts */
#define ZONES    32   /* powercap zones, and zones within one, that are tried */
#define MONITORS 64   /* hwmon devices that are tried */
#define SENSORS  1024 /* sensors of a monitor that are tried: amd_energy has one for each core too */
#define UPDATES  10   /* updates of a counter that a measurement must span */

#ifndef SYSFS
#define SYSFS "/sys" /* tests set another one */
#endif
#define POWERCAP  SYSFS "/class/powercap/"
#define HWMON     SYSFS "/class/hwmon/"
#define BOARD     SYSFS "/cray/pm_counters/energy"
#define PATH_MOST 256

static char *mine, *theirs;
static int rank, bytes;

static double microseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Reads the first line of a file. Returns 0 if it has none. */
static int line_read(const char *path, char line[64])
{
	FILE *file = fopen(path, "r");
	int done = file && fgets(line, 64, file) != NULL;

	if (file)
		fclose(file);
	if (done)
		line[strcspn(line, "\n")] = '\0';
	return done;
}

/* Returns the number with which a file begins; -1: there is none. */
static double number_read(const char *path)
{
	char line[64], *end = line;
	double number = line_read(path, line) ? strtod(line, &end) : -1;

	return end != line && number >= 0 ? number : -1;
}

/* Adds a counter to a sum. The sum is -1 before the first counter, and a counter below 0 is not added. */
static void joules_add(double *sum, double joules)
{
	if (joules >= 0)
		*sum = (*sum > 0 ? *sum : 0) + joules;
}

/* Returns the sum of the zones whose name begins with kind; -1: none. "intel-rapl:0:1" lies within "intel-rapl:0". */
static double zones_joules(const char *kind)
{
	char path[PATH_MOST], name[64];
	double joules = -1;

	for (int i = 0; i < ZONES * ZONES; i++) {
		int at = snprintf(path, sizeof(path),
		                  i % ZONES ? POWERCAP "intel-rapl:%d:%d/" : POWERCAP "intel-rapl:%d/", i / ZONES,
		                  i % ZONES - 1);

		strcpy(path + at, "name");
		if (!line_read(path, name) || strncmp(name, kind, strlen(kind)) != 0)
			continue;
		strcpy(path + at, "energy_uj");
		joules_add(&joules, number_read(path) * 1e-6);
	}
	return joules;
}

static double packages_joules(void)
{
	return zones_joules("package");
}

static double memory_joules(void)
{
	return zones_joules("dram");
}

/* Returns the sum of the sensors of the driver's monitors whose label begins with label; -1: none. */
static double monitors_joules(const char *driver, const char *label)
{
	char path[PATH_MOST], text[64];
	double joules = -1;

	for (int i = 0; i < MONITORS; i++) {
		int at = snprintf(path, sizeof(path), HWMON "hwmon%d/", i);

		strcpy(path + at, "name");
		if (!line_read(path, text) || strcmp(text, driver) != 0)
			continue;
		for (int sensor = 1; sensor <= SENSORS; sensor++) {
			snprintf(path + at, sizeof(path) - (size_t)at, "energy%d_label", sensor);
			if (!line_read(path, text))
				break;
			snprintf(path + at, sizeof(path) - (size_t)at, "energy%d_input", sensor);
			if (strncmp(text, label, strlen(label)) == 0)
				joules_add(&joules, number_read(path) * 1e-6);
		}
	}
	return joules;
}

static double sockets_joules(void)
{
	return monitors_joules("amd_energy", "Esocket");
}

static double node_joules(void)
{
	double joules = number_read(BOARD);

	return joules >= 0 ? joules : monitors_joules("ibmpowernv", "System");
}

/* Adds what NVIDIA's devices used, by the driver's library. Returns 0 if not all could be read. */
static int nvidia_add(double *joules)
{
	static int (*begin)(void), (*get_count)(unsigned *), (*get_device)(unsigned, void **);
	static int (*get_energy)(void *, unsigned long long *);
	static unsigned count;
	unsigned long long energy_mj;
	void *device;

	if (!begin) {
		void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

		if (!library)
			return access("/dev/nvidiactl", F_OK) != 0;
		*(void **)&begin = dlsym(library, "nvmlInit_v2");
		*(void **)&get_count = dlsym(library, "nvmlDeviceGetCount_v2");
		*(void **)&get_device = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
		*(void **)&get_energy = dlsym(library, "nvmlDeviceGetTotalEnergyConsumption");
		if (!begin || !get_count || !get_device || !get_energy || begin() || get_count(&count))
			count = 0;
	}
	for (unsigned i = 0; i < count; i++) {
		if (get_device(i, &device) || get_energy(device, &energy_mj))
			return 0;
		joules_add(joules, (double)energy_mj * 1e-3);
	}
	return count > 0 || access("/dev/nvidiactl", F_OK) != 0;
}

/* The same of AMD's devices, by ROCm's library. A module of two dies has one counter, and the other stays at 0. */
static int amd_add(double *joules)
{
	static const char *const names[] = {"librocm_smi64.so",
	                                    "librocm_smi64.so.1",
	                                    "librocm_smi64.so.8",
	                                    "librocm_smi64.so.7",
	                                    "librocm_smi64.so.6",
	                                    "librocm_smi64.so.5",
	                                    "/opt/rocm/lib/librocm_smi64.so"};
	static int (*begin)(unsigned long long), (*get_count)(unsigned *);
	static int (*get_energy)(unsigned, unsigned long long *, float *, unsigned long long *);
	static unsigned count;
	unsigned long long counter, mark_ns;
	float resolution_uj;

	if (!begin) {
		void *library = NULL;

		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
			library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (!library)
			return access("/dev/kfd", F_OK) != 0;
		*(void **)&begin = dlsym(library, "rsmi_init");
		*(void **)&get_count = dlsym(library, "rsmi_num_monitor_devices");
		*(void **)&get_energy = dlsym(library, "rsmi_dev_energy_count_get");
		if (!begin || !get_count || !get_energy || begin(0) || get_count(&count))
			count = 0;
	}
	for (unsigned i = 0; i < count; i++) {
		if (get_energy(i, &counter, &resolution_uj, &mark_ns))
			return 0;
		joules_add(joules, (double)counter * (double)resolution_uj * 1e-6);
	}
	return count > 0 || access("/dev/kfd", F_OK) != 0;
}

/*
 * The same of Intel's devices, by hwmon: the card's counter, else the package's. A tile has a monitor of another name,
 * and a processor's own graphics has none. Writes how many devices there are.
 */
static int intel_add(double *joules, int *ret_count)
{
	char path[PATH_MOST], line[64];

	*ret_count = 0;
	for (int i = 0; i < MONITORS; i++) {
		double energy_uj = -1;

		snprintf(path, sizeof(path), HWMON "hwmon%d/name", i);
		if (!line_read(path, line) || (strcmp(line, "i915") != 0 && strcmp(line, "xe") != 0))
			continue;
		for (int sensor = 1; sensor <= 2 && energy_uj < 0; sensor++) {
			snprintf(path, sizeof(path), HWMON "hwmon%d/energy%d_input", i, sensor);
			energy_uj = number_read(path);
		}
		++*ret_count;
		if (energy_uj < 0)
			return 0;
		joules_add(joules, energy_uj * 1e-6);
	}
	return 1;
}

/* Returns the sum of all makers' devices; -1: there is none, or one was not read. */
static double gpus_joules(void)
{
	double joules = -1;
	int intels;

	return nvidia_add(&joules) && amd_add(&joules) && intel_add(&joules, &intels) ? joules : -1;
}

/* In the order in which they are printed. step_s: the longest time between two updates, by the counter's makers. */
static const struct {
	const char *name;
	double (*read)(void);
	double step_s;
} sources[] = {
        {"packages", packages_joules, 0.001}, {"memory", memory_joules, 0.001}, {"sockets", sockets_joules, 0.1},
        {"node", node_joules, 0.1},           {"gpus", gpus_joules, 0.1},
};

#define SOURCES (sizeof(sources) / sizeof(sources[0]))

static void sources_read(double joules[SOURCES])
{
	for (size_t i = 0; i < SOURCES; i++)
		joules[i] = sources[i].read();
}

static int has_gpus(void)
{
	double joules = -1;
	int intels;

	intel_add(&joules, &intels);
	return intels > 0 || access("/dev/nvidiactl", F_OK) == 0 || access("/dev/kfd", F_OK) == 0;
}

/* Prints the joules per wait by each source, from its readings before and after all waits. */
static void joules_print(const double before[SOURCES], const double after[SOURCES], double seconds, int count)
{
	const char *comma = "";
	int gpus_told = 0;

	for (size_t i = 0; i < SOURCES; i++) {
		if (before[i] < 0 || after[i] <= before[i] || seconds < UPDATES * sources[i].step_s)
			continue;
		printf("%s%s=%.6f", comma, sources[i].name, (after[i] - before[i]) / count);
		gpus_told |= sources[i].read == gpus_joules;
		comma = ",";
	}
	if (*comma && !gpus_told && has_gpus())
		printf(",gpus=-");
	if (*comma && access(POWERCAP "SIMULATED", F_OK) == 0)
		printf(",simulated");
	printf(*comma ? "\n" : "-\n");
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

static void report(const char *name, double delay_us, double cpu_share, const double after_us[], int count)
{
	printf("%s %d %g %.4f ", name, bytes, delay_us, cpu_share);
	for (int i = 0; i < count; i++)
		printf("%s%.3f", i ? "," : "", after_us[i]);
	printf(" ");
}

static void measure(const char *name, void (*play)(void), const char *argument)
{
	const char *colon = strchr(argument, ':');
	int count = colon ? atoi(colon + 1) : COUNT, rounds = play == call_pingpong ? 2 * ROUNDS : 1;
	double delay_us = atof(argument), cpu_us = 0, wall_us = 0, warm_us = 0, began_us, lasted_us;
	double *after_us = calloc((size_t)count, sizeof(*after_us));
	double before[SOURCES], after[SOURCES];

	for (int i = 0; i < WARM_UP; i++)
		wait_once(play, 0, &warm_us, &warm_us);
	sources_read(before);
	began_us = microseconds(CLOCK_MONOTONIC);
	for (int i = 0; i < count; i++)
		after_us[i] = wait_once(play, delay_us, &cpu_us, &wall_us) / rounds;
	lasted_us = microseconds(CLOCK_MONOTONIC) - began_us;
	if (rank == 1) {
		sources_read(after);
		report(name, delay_us, cpu_us / wall_us, after_us, count);
		joules_print(before, after, lasted_us * 1e-6, count);
		fflush(stdout);
	}
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
