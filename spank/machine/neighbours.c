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

#define PROCESSES_MAX 32768 /* of the node, */
#define THREADS_MAX   16384 /* and of other jobs, looked at in one go */
#define LEVELS_MAX    32
#define LOOK_EVERY_NS SECOND_NS
#define LOOK_PART     20 /* of the time, at most, is spent looking */
#define STEPD         "slurmstepd"

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
	uint32_t job_id;
	ino_t node; /* the UTS namespace of this slurmd's: several of them may be on one host */
	hwloc_bitmap_t mask;
	hwloc_const_bitmap_t everywhere;
	unsigned processes, threads;
	pid_t parent;     /* of the process before, which is mostly that of the next one, too; */
	bool is_anothers; /* whether its children are of another job */
	hwloc_bitmap_t cpus;
};

/* One that is ending has no namespace, and no children, any more. */
static bool is_of_this_node(const struct look *look, pid_t pid)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d/ns/uts", (int)pid);
	if (stat(path, &status) < 0)
		return errno != ENOENT && errno != ESRCH;
	return status.st_ino == look->node;
}

/* A slurmstepd is root's, and says in its title whose it is: "slurmstepd: [17.batch]". 0: it is of an unknown job. */
static bool is_stepd(const struct look *look, pid_t pid, const char *name, uint32_t *ret_job_id)
{
	char path[32], title[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (strcmp(name, STEPD) != 0 || stat(path, &status) || status.st_uid != 0 || !is_of_this_node(look, pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	*ret_job_id = 0;
	if (proc_text_read(AT_FDCWD, path, title, sizeof(title)) > 0)
		(void)sscanf(title, STEPD ": [%" SCNu32, ret_job_id);
	return true;
}

/* Whether the children of a process are of another job: it is that one's slurmstepd, or descends from that. */
static bool has_anothers(const struct look *look, pid_t pid)
{
	struct proc_stat stat;
	uint32_t job_id;

	for (int level = 0; level < LEVELS_MAX && pid > 1 && proc_stat_of(pid, &stat) == 0; level++) {
		if (is_stepd(look, pid, stat.name, &job_id))
			return job_id != look->job_id;
		pid = stat.parent;
	}
	return false;
}

/* Only what this process may run on besides tells whether Slurm, or somebody else, has bound it. */
static bool mask_read(struct look *look, pid_t thread)
{
	return topology_get_affinity(thread, look->mask) == 0 && !hwloc_bitmap_isincluded(look->everywhere, look->mask);
}

/* root: a process of root's that sleeps is Slurm's own, as the extern step's is. */
static void thread_add(struct look *look, pid_t thread, const struct proc_stat *stat, bool root)
{
	if (strchr("TtZXx", stat->state) || (root && stat->state != 'R'))
		return;
	if (mask_read(look, thread))
		hwloc_bitmap_or(look->cpus, look->cpus, look->mask);
	else if (stat->state == 'R' && stat->cpu >= 0)
		hwloc_bitmap_set(look->cpus, (unsigned)stat->cpu);
}

/* Returns false where it cannot be told. */
static bool threads_add(struct look *look, pid_t pid)
{
	char path[32];
	cleanup_closedir DIR *tasks = NULL;
	struct proc_stat stat;
	struct stat status;
	pid_t thread;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks || fstat(dirfd(tasks), &status))
		return !tasks && (errno == ENOENT || errno == ESRCH);
	while (look->threads <= THREADS_MAX && (thread = proc_next(tasks, &stat))) {
		thread_add(look, thread, &stat, status.st_uid == 0);
		look->threads++;
	}
	return look->threads <= THREADS_MAX;
}

/* The same. */
static bool process_add(struct look *look, pid_t pid, const struct proc_stat *stat)
{
	uint32_t job_id;

	if (stat->parent != look->parent)
		look->is_anothers = has_anothers(look, stat->parent);
	look->parent = stat->parent;
	return ++look->processes <= PROCESSES_MAX &&
	       (!look->is_anothers || is_stepd(look, pid, stat->name, &job_id) || threads_add(look, pid));
}

/* A look that is waited for no more ends at once. */
void neighbours_look(struct neighbours *neighbours)
{
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc(), everywhere = hwloc_bitmap_alloc(), mask = NULL;
	cleanup_closedir DIR *processes = opendir("/proc");
	struct look look = {.job_id = neighbours->job_id, .cpus = cpus, .everywhere = everywhere};
	struct stat status = {.st_ino = 0};
	struct proc_stat stat_now;
	pid_t pid;
	bool told = processes && cpus && everywhere && stat("/proc/self/ns/uts", &status) == 0 &&
	            topology_get_affinity(1, everywhere) == 0;

	if (told)
		mask = hwloc_bitmap_dup(everywhere); /* as large, so that no other one needs memory */
	told &= mask != NULL;
	look.mask = mask;
	look.node = status.st_ino;
	while (told && !neighbours->ends && (pid = proc_next(processes, &stat_now)))
		told = process_add(&look, pid, &stat_now);
	pthread_mutex_lock(&neighbours->mutex);
	if (!told || hwloc_bitmap_copy(neighbours->cpus, cpus) < 0)
		hwloc_bitmap_fill(neighbours->cpus);
	pthread_mutex_unlock(&neighbours->mutex);
}

/* Waits, with the mutex held, until a look is wanted and it is time for it, or the end. */
static void wait_for_wish(struct neighbours *neighbours, uint64_t from_ns)
{
	const struct timespec from = clock_timespec(from_ns);

	while (!neighbours->ends && clock_monotonic_ns() < from_ns)
		pthread_cond_timedwait(&neighbours->asked, &neighbours->mutex, &from);
	while (!neighbours->ends && !neighbours->wanted)
		pthread_cond_wait(&neighbours->asked, &neighbours->mutex);
	neighbours->wanted = false;
}

static void *watch(void *context)
{
	struct neighbours *neighbours = context;
	uint64_t from_ns = 0;

	pthread_mutex_lock(&neighbours->mutex);
	while (wait_for_wish(neighbours, from_ns), !neighbours->ends) {
		uint64_t began_ns = clock_monotonic_ns(), pause_ns;

		pthread_mutex_unlock(&neighbours->mutex);
		neighbours_look(neighbours);
		pthread_mutex_lock(&neighbours->mutex);
		from_ns = clock_monotonic_ns();
		pause_ns = (from_ns - began_ns) * LOOK_PART;
		from_ns += pause_ns > LOOK_EVERY_NS ? pause_ns : LOOK_EVERY_NS;
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
