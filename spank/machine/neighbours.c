#include "spank/machine/neighbours.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/proc.h"
#include "spank/base/thread.h"
#include "spank/machine/topology.h"

#define PROCESSES_MAX 32768
#define THREADS_MAX   16384 /* of other jobs, looked at in one go */
#define LEVELS_MAX    32
#define LOOK_EVERY_NS SECOND_NS
#define LOOK_PART     20 /* of the time, at most, is spent looking */
#define STEPD         "slurmstepd"
#define NOT_A_STEPD   UINT32_MAX

struct process {
	pid_t pid;
	pid_t parent;
	uint32_t job_id; /* whose slurmstepd it is */
};

struct processes {
	struct process *item; /* by pid */
	size_t count, room;
};

struct neighbours {
	uint32_t job_id;
	pthread_t thread;
	pthread_mutex_t mutex; /* for what follows */
	pthread_cond_t asked;
	bool wanted; /* a look */
	_Atomic bool ends;
	hwloc_bitmap_t cpus; /* that other jobs had when it was looked last */
};

/* One look. */
struct look {
	int proc;
	uint32_t job_id;
	ino_t node; /* the UTS namespace of this slurmd's: several of them may be on one host */
	hwloc_bitmap_t mask;
	hwloc_const_bitmap_t everywhere;
	unsigned threads;
	const _Atomic bool *ends; /* it is not waited for */
	hwloc_bitmap_t cpus;
};

/* One that is ending has no namespace, and no children, any more. */
static bool is_of_this_node(const struct look *look, const char *pid)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof(path), "%.10s/ns/uts", pid);
	if (fstatat(look->proc, path, &status, 0) < 0)
		return errno != ENOENT && errno != ESRCH;
	return status.st_ino == look->node;
}

/* A slurmstepd is root's, and says in its title whose it is: "slurmstepd: [17.batch]". */
static uint32_t stepd_job(const struct look *look, const char *pid, const char *name)
{
	char path[32], title[64];
	struct stat status;
	uint32_t job_id = 0; /* of an unknown job */

	if (strcmp(name, STEPD) != 0 || fstatat(look->proc, pid, &status, 0) || status.st_uid != 0 ||
	    !is_of_this_node(look, pid))
		return NOT_A_STEPD;
	snprintf(path, sizeof(path), "%.10s/cmdline", pid);
	if (proc_text_read(look->proc, path, title, sizeof(title)) > 0)
		(void)sscanf(title, STEPD ": [%" SCNu32, &job_id);
	return job_id;
}

static bool process_add(struct look *look, struct processes *processes, const char *pid)
{
	char path[32];
	struct proc_stat stat;
	struct process process = {.pid = atoi(pid)};

	snprintf(path, sizeof(path), "%.10s/stat", pid);
	if (proc_stat_read(look->proc, path, &stat))
		return true;
	process.parent = stat.parent;
	process.job_id = stepd_job(look, pid, stat.name);
	if (processes->count == processes->room) {
		size_t room = processes->room ? processes->room * 2 : 1024;
		struct process *item = room > PROCESSES_MAX ? NULL : realloc(processes->item, room * sizeof(*item));

		if (!item)
			return false;
		processes->item = item;
		processes->room = room;
	}
	processes->item[processes->count++] = process;
	return true;
}

static int process_compare(const void *left, const void *right)
{
	const struct process *a = left, *b = right;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

static bool processes_read(struct look *look, struct processes *processes)
{
	cleanup_closedir DIR *entries = files_entries(look->proc);
	const struct dirent *entry;

	while (entries && !*look->ends && (entry = readdir(entries)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && !process_add(look, processes, entry->d_name))
			return false;
	if (processes->count > 0)
		qsort(processes->item, processes->count, sizeof(processes->item[0]), process_compare);
	return entries != NULL;
}

static const struct process *process_find(const struct processes *processes, pid_t pid)
{
	const struct process wanted = {.pid = pid};

	return processes->count == 0
	               ? NULL
	               : bsearch(&wanted, processes->item, processes->count, sizeof(wanted), process_compare);
}

static bool is_of_another_job(const struct look *look, const struct processes *processes, const struct process *process)
{
	for (int level = 0; level < LEVELS_MAX; level++) {
		process = process_find(processes, process->parent);
		if (!process || process->pid <= 1)
			return false;
		if (process->job_id != NOT_A_STEPD)
			return process->job_id != look->job_id;
	}
	return false;
}

/* Only what this process may run on besides tells whether Slurm, or somebody else, has bound it. */
static bool mask_read(struct look *look, pid_t thread)
{
	return topology_get_affinity(thread, look->mask) == 0 && !hwloc_bitmap_isincluded(look->everywhere, look->mask);
}

/* root: a process of root's that sleeps is Slurm's own, as the extern step's is. */
static void thread_add(struct look *look, int tasks, const char *name, bool root)
{
	char path[32];
	struct proc_stat stat;

	snprintf(path, sizeof(path), "%.10s/stat", name);
	if (proc_stat_read(tasks, path, &stat) || strchr("TtZXx", stat.state) || (root && stat.state != 'R'))
		return;
	if (mask_read(look, atoi(name))) {
		hwloc_bitmap_or(look->cpus, look->cpus, look->mask);
		return;
	}
	if (stat.state == 'R' && stat.cpu >= 0)
		hwloc_bitmap_set(look->cpus, (unsigned)stat.cpu);
}

static void process_see(struct look *look, pid_t pid)
{
	char path[32];
	struct stat status;
	cleanup_closedir DIR *entries = NULL;
	const struct dirent *entry;
	int tasks;

	snprintf(path, sizeof(path), "%d/task", (int)pid);
	tasks = openat(look->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tasks < 0)
		return;
	entries = fdopendir(tasks);
	if (!entries || fstat(tasks, &status)) {
		hwloc_bitmap_fill(look->cpus);
		if (!entries)
			close(tasks);
		return;
	}
	while ((entry = readdir(entries))) {
		if (entry->d_name[0] == '.')
			continue;
		if (++look->threads > THREADS_MAX)
			hwloc_bitmap_fill(look->cpus);
		else
			thread_add(look, tasks, entry->d_name, status.st_uid == 0);
	}
}

static void look_around(struct look *look)
{
	struct processes processes = {.item = NULL};

	if (!processes_read(look, &processes))
		hwloc_bitmap_fill(look->cpus);
	for (size_t i = 0; i < processes.count && look->threads <= THREADS_MAX && !*look->ends; i++)
		if (processes.item[i].job_id == NOT_A_STEPD && is_of_another_job(look, &processes, &processes.item[i]))
			process_see(look, processes.item[i].pid);
	free(processes.item);
}

/* Into cpus, which is all of them where it cannot be told. */
static void look_at(const struct neighbours *neighbours, hwloc_bitmap_t cpus)
{
	cleanup_bitmap hwloc_bitmap_t everywhere = hwloc_bitmap_alloc(), mask = NULL;
	cleanup_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct look look = {.proc = proc, .job_id = neighbours->job_id, .ends = &neighbours->ends, .cpus = cpus};
	struct stat status;

	hwloc_bitmap_zero(cpus);
	if (proc >= 0 && everywhere && stat("/proc/self/ns/uts", &status) == 0 &&
	    topology_get_affinity(1, everywhere) == 0)
		mask = hwloc_bitmap_dup(everywhere); /* as large, so that no other one needs memory */
	if (!mask) {
		hwloc_bitmap_fill(cpus);
		return;
	}
	look.node = status.st_ino;
	look.mask = mask;
	look.everywhere = everywhere;
	look_around(&look);
}

/* Returns how long it took. */
static uint64_t look_again(struct neighbours *neighbours)
{
	uint64_t began_ns = clock_monotonic_ns();
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	if (cpus)
		look_at(neighbours, cpus);
	pthread_mutex_lock(&neighbours->mutex);
	if (cpus)
		hwloc_bitmap_copy(neighbours->cpus, cpus);
	else
		hwloc_bitmap_fill(neighbours->cpus);
	pthread_mutex_unlock(&neighbours->mutex);
	return clock_monotonic_ns() - began_ns;
}

/* With the mutex held. */
static void pause_for(struct neighbours *neighbours, uint64_t pause_ns)
{
	const struct timespec until = clock_timespec(clock_monotonic_ns() + pause_ns);

	while (!neighbours->ends && pthread_cond_timedwait(&neighbours->asked, &neighbours->mutex, &until) == 0)
		;
}

static void *watch(void *context)
{
	struct neighbours *neighbours = context;

	pthread_mutex_lock(&neighbours->mutex);
	while (!neighbours->ends) {
		uint64_t pause_ns;

		if (!neighbours->wanted) {
			pthread_cond_wait(&neighbours->asked, &neighbours->mutex);
			continue;
		}
		neighbours->wanted = false;
		pthread_mutex_unlock(&neighbours->mutex);
		pause_ns = look_again(neighbours) * LOOK_PART;
		pthread_mutex_lock(&neighbours->mutex);
		pause_for(neighbours, pause_ns > LOOK_EVERY_NS ? pause_ns : LOOK_EVERY_NS);
	}
	pthread_mutex_unlock(&neighbours->mutex);
	return NULL;
}

int neighbours_start(uint32_t job_id, struct neighbours **ret_neighbours, struct error *error)
{
	struct neighbours *neighbours = calloc(1, sizeof(*neighbours));
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	int rc = neighbours && cpus ? 0 : -ENOMEM;

	if (rc == 0) {
		neighbours->job_id = job_id;
		neighbours->cpus = cpus;
		pthread_mutex_init(&neighbours->mutex, NULL);
		thread_condition_init(&neighbours->asked);
		rc = thread_start(&neighbours->thread, watch, neighbours);
	}
	if (rc < 0) {
		hwloc_bitmap_free(cpus);
		free(neighbours);
		return error_set(error, rc, "no grant: other jobs cannot be looked for: %s", strerror(-rc));
	}
	*ret_neighbours = neighbours;
	return 0;
}

void neighbours_look(struct neighbours *neighbours)
{
	look_again(neighbours);
}

bool neighbours_have(struct neighbours *neighbours, hwloc_const_bitmap_t cpus)
{
	bool have;

	pthread_mutex_lock(&neighbours->mutex);
	have = hwloc_bitmap_intersects(neighbours->cpus, cpus);
	neighbours->wanted = true;
	pthread_cond_signal(&neighbours->asked);
	pthread_mutex_unlock(&neighbours->mutex);
	return have;
}

void neighbours_end(struct neighbours *neighbours)
{
	if (!neighbours)
		return;
	pthread_mutex_lock(&neighbours->mutex);
	neighbours->ends = true;
	pthread_cond_signal(&neighbours->asked);
	pthread_mutex_unlock(&neighbours->mutex);
	pthread_join(neighbours->thread, NULL);
	pthread_cond_destroy(&neighbours->asked);
	pthread_mutex_destroy(&neighbours->mutex);
	hwloc_bitmap_free(neighbours->cpus);
	free(neighbours);
}
