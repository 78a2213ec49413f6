#include "spank/machine/occupants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/memory.h"
#include "spank/base/proc.h"
#include "spank/machine/topology.h"

#define PROCESSES_MAX 32768 /* processes of the node that are checked */
#define THREADS_MAX   32768 /* threads of its jobs that are checked */
#define JOBS_MAX      4096
#define LEVELS_MAX    32
#define STEPD         "slurmstepd"

/* State of one check of the node. */
struct check {
	struct occupants *occupants;
	ino_t node; /* UTS namespace of this slurmd; a host may run several slurmds */
	hwloc_bitmap_t mask;
	hwloc_const_bitmap_t everywhere;
	unsigned processes, threads;
	pid_t parent;    /* parent of the previous process, often also of the next */
	bool is_job;     /* children of that parent belong to a job */
	uint32_t job_id; /* the job that they belong to */
};

void occupants_free(struct occupants *occupants)
{
	for (size_t i = 0; i < occupants->count; i++)
		hwloc_bitmap_free(occupants->job[i].cpus);
	free(occupants->job);
	*occupants = (struct occupants){.count = 0};
}

/* Returns the job's CPUs, added empty if it is new. NULL: no memory, or too many jobs. */
static hwloc_bitmap_t cpus_of(struct occupants *occupants, uint32_t job_id)
{
	struct occupant *more, job = {.job_id = job_id};

	for (size_t i = occupants->count; i-- > 0;)
		if (occupants->job[i].job_id == job_id)
			return occupants->job[i].cpus;
	more = occupants->count < JOBS_MAX ? memory_more(occupants->job, occupants->count, sizeof(*more)) : NULL;
	if (!more)
		return NULL;
	occupants->job = more;
	job.cpus = hwloc_bitmap_alloc();
	if (job.cpus)
		occupants->job[occupants->count++] = job;
	return job.cpus;
}

/*
 * Returns true if the process belongs to this slurmd's node. One that is ending has neither namespace nor children, and
 * does not.
 */
static bool is_of_this_node(const struct check *check, pid_t pid)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d/ns/uts", (int)pid);
	if (stat(path, &status) < 0)
		return errno != ENOENT && errno != ESRCH;
	return status.st_ino == check->node;
}

/*
 * Returns true if the process is a slurmstepd: root's, with its job in its title, "slurmstepd: [17.batch]". *ret_job_id
 * 0: unknown job.
 */
static bool is_stepd(const struct check *check, pid_t pid, const char *name, uint32_t *ret_job_id)
{
	char path[32], title[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (strcmp(name, STEPD) != 0 || stat(path, &status) || status.st_uid != 0 || !is_of_this_node(check, pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	*ret_job_id = 0;
	if (proc_text_read(AT_FDCWD, path, title, sizeof(title)) > 0)
		(void)sscanf(title, STEPD ": [%" SCNu32, ret_job_id);
	return true;
}

/* Finds the job of the slurmstepd that the process is or descends from. Returns false if there is none. */
static bool job_find(const struct check *check, pid_t pid, uint32_t *ret_job_id)
{
	struct proc_stat stat;

	for (int level = 0; level < LEVELS_MAX && pid > 1 && proc_stat_of(pid, &stat) == 0; level++) {
		if (is_stepd(check, pid, stat.name, ret_job_id))
			return true;
		pid = stat.parent;
	}
	return false;
}

/* Reads the thread's affinity. Returns true if Slurm or somebody else bound it, to fewer CPUs than `everywhere`. */
static bool mask_read(struct check *check, pid_t thread)
{
	return topology_get_affinity(thread, check->mask) == 0 &&
	       !hwloc_bitmap_isincluded(check->everywhere, check->mask);
}

/* Adds the thread's CPUs. root: a sleeping process of root does not count, as it is Slurm's own in the extern step. */
static void thread_add(struct check *check, hwloc_bitmap_t cpus, pid_t thread, const struct proc_stat *stat, bool root)
{
	if (strchr("TtZXx", stat->state) || (root && stat->state != 'R'))
		return;
	if (mask_read(check, thread))
		hwloc_bitmap_or(cpus, cpus, check->mask);
	else if (stat->state == 'R' && stat->cpu >= 0)
		hwloc_bitmap_set(cpus, (unsigned)stat->cpu);
}

/* Adds the CPUs of the process's threads. Returns false if they cannot be found out. */
static bool threads_add(struct check *check, pid_t pid)
{
	hwloc_bitmap_t cpus = cpus_of(check->occupants, check->job_id);
	cleanup_closedir DIR *tasks = NULL;
	struct proc_stat stat;
	struct stat status;
	char path[32];
	pid_t thread;

	if (!cpus)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks || fstat(dirfd(tasks), &status))
		return !tasks && (errno == ENOENT || errno == ESRCH);
	while (check->threads <= THREADS_MAX && (thread = proc_next(tasks, &stat))) {
		thread_add(check, cpus, thread, &stat, status.st_uid == 0);
		check->threads++;
	}
	return check->threads <= THREADS_MAX;
}

/* Adds the CPUs of the process if a job has it. Returns false if they cannot be found out. */
static bool process_add(struct check *check, pid_t pid, const struct proc_stat *stat)
{
	uint32_t job_id;

	if (stat->parent != check->parent)
		check->is_job = job_find(check, stat->parent, &check->job_id);
	check->parent = stat->parent;
	return ++check->processes <= PROCESSES_MAX &&
	       (!check->is_job || is_stepd(check, pid, stat->name, &job_id) || threads_add(check, pid));
}

bool occupants_find(const _Atomic bool *ends, struct occupants *ret_occupants)
{
	cleanup_bitmap hwloc_bitmap_t everywhere = hwloc_bitmap_alloc(), mask = NULL;
	cleanup_closedir DIR *processes = opendir("/proc");
	struct check check = {.occupants = ret_occupants, .everywhere = everywhere};
	struct stat status = {.st_ino = 0};
	struct proc_stat stat_now;
	bool told = processes && everywhere && stat("/proc/self/ns/uts", &status) == 0 &&
	            topology_get_affinity(1, everywhere) == 0;
	pid_t pid;

	if (told)
		mask = hwloc_bitmap_dup(
		        everywhere); /* as large as any other mask, so that reading one needs no memory */
	told &= mask != NULL;
	check.mask = mask;
	check.node = status.st_ino;
	while (told && !*ends && (pid = proc_next(processes, &stat_now)))
		told = process_add(&check, pid, &stat_now);
	return told && !*ends;
}

int occupants_others(const struct occupants *occupants, uint32_t job_id, hwloc_bitmap_t ret_cpus)
{
	hwloc_bitmap_zero(ret_cpus);
	for (size_t i = 0; i < occupants->count; i++)
		if (occupants->job[i].job_id != job_id &&
		    hwloc_bitmap_or(ret_cpus, ret_cpus, occupants->job[i].cpus) < 0)
			return -ENOMEM;
	return 0;
}

char *occupants_print(const struct occupants *occupants)
{
	cleanup_free char *text = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);

	for (size_t i = 0; stream && i < occupants->count; i++) {
		cleanup_free char *list = NULL;

		if (hwloc_bitmap_list_asprintf(&list, occupants->job[i].cpus) >= 0)
			fprintf(stream, "%" PRIu32 " %s\n", occupants->job[i].job_id, list);
	}
	return stream && fclose(stream) == 0 ? take_pointer(text) : NULL;
}

int occupants_parse(const char *text, struct occupants *ret_occupants)
{
	while (*text) {
		size_t length = strcspn(text, "\n");
		cleanup_free char *line = strndup(text, length);
		uint32_t job_id;
		hwloc_bitmap_t cpus;
		int at = 0;

		if (!line)
			return -ENOMEM;
		if (text[length] != '\n' || sscanf(line, "%" SCNu32 " %n", &job_id, &at) != 1 || at == 0)
			return -EBADMSG;
		cpus = cpus_of(ret_occupants, job_id);
		if (!cpus)
			return -ENOMEM;
		if (line[at] && hwloc_bitmap_list_sscanf(cpus, line + at) < 0)
			return -EBADMSG;
		text += length + 1;
	}
	return 0;
}
