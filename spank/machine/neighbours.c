#include "spank/machine/neighbours.h"

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
#include "spank/machine/occupants.h"
#include "spank/machine/topology.h"

#define CHECK_EVERY_NS SECOND_NS
#define CHECK_PART     20 /* checks take at most 1/CHECK_PART of the time */
#define FILE_NAME      "occupants"
#define LOCK_NAME      "occupants.lock"
#define NAMESPACE_NAME "namespace"
#define HEAD           "mpi-wait-occupants 1 boot %36s at %" SCNu64 " next %" SCNu64 "\n%n"

struct neighbours {
	uint32_t job_id;
	int directory; /* the node's state directory; -1: results are not shared */
	int lock;      /* file in it, locked by the step that checks; -1: none */
	bool are_seen; /* all processes of the node are visible */
	pthread_t thread;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t asked;
	bool wanted; /* a check is asked for */
	_Atomic bool ends;
	hwloc_bitmap_t cpus; /* CPUs that other jobs had at the latest check */
	uint64_t at_ns;      /* CLOCK_MONOTONIC of that check */
};

/* Result of a check by one of the node's steps. */
struct sight {
	uint64_t at_ns;   /* CLOCK_MONOTONIC */
	uint64_t next_ns; /* CLOCK_MONOTONIC from which the next check is allowed */
	struct occupants occupants;
};

/*
 * Takes over a result, unless a later one was taken over before: the thread may have read another step's while
 * neighbours_meet checked. told: false if the check failed; every CPU then counts as taken.
 */
static void sight_take(struct neighbours *neighbours, const struct sight *sight, bool told)
{
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	told = told && cpus && occupants_others(&sight->occupants, neighbours->job_id, cpus) == 0;
	pthread_mutex_lock(&neighbours->mutex);
	if (sight->at_ns >= neighbours->at_ns) {
		neighbours->at_ns = sight->at_ns;
		if (!told || hwloc_bitmap_copy(neighbours->cpus, cpus) < 0)
			hwloc_bitmap_fill(neighbours->cpus);
	}
	pthread_mutex_unlock(&neighbours->mutex);
}

/* Reads the latest result of any step of the node in this boot. Returns false if there is none. */
static bool sight_read(const struct neighbours *neighbours, struct sight *ret_sight)
{
	char boot[PROC_BOOT_MAX], boot_now[PROC_BOOT_MAX];
	cleanup_free char *text = NULL;
	size_t length;
	int at = 0;

	if (neighbours->directory < 0 ||
	    files_read(neighbours->directory, FILE_NAME, OCCUPANTS_TEXT_MAX, &text, &length) ||
	    sscanf(text, HEAD, boot, &ret_sight->at_ns, &ret_sight->next_ns, &at) != 3 || at == 0)
		return false;
	return proc_boot_read(boot_now) == 0 && strcmp(boot, boot_now) == 0 &&
	       ret_sight->at_ns <= clock_monotonic_ns() && occupants_parse(text + at, &ret_sight->occupants) == 0;
}

/* Writes a result for the node's other steps. */
static void sight_write(const struct neighbours *neighbours, const struct sight *sight)
{
	cleanup_free char *list = occupants_print(&sight->occupants), *text = NULL;
	char boot[PROC_BOOT_MAX];

	if (neighbours->directory < 0 || !list || proc_boot_read(boot) ||
	    asprintf(&text, "mpi-wait-occupants 1 boot %s at %" PRIu64 " next %" PRIu64 "\n%s", boot, sight->at_ns,
	             sight->next_ns, list) < 0)
		return;
	files_write(neighbours->directory, FILE_NAME, 0600, text, strlen(text), false);
}

/*
 * Checks the processes, and tells the other steps. neighbours_end stops it early. Returns when the next check is
 * allowed.
 */
static uint64_t processes_check(struct neighbours *neighbours)
{
	uint64_t began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), pause_ns;
	struct sight sight = {.at_ns = clock_monotonic_ns()};
	bool told = neighbours->are_seen && occupants_find(&neighbours->ends, &sight.occupants);

	pause_ns = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns) * CHECK_PART;
	sight.next_ns = clock_monotonic_ns() + (pause_ns > CHECK_EVERY_NS ? pause_ns : CHECK_EVERY_NS);
	if (told)
		sight_write(neighbours, &sight);
	sight_take(neighbours, &sight, told);
	occupants_free(&sight.occupants);
	return sight.next_ns;
}

void neighbours_meet(struct neighbours *neighbours, hwloc_const_bitmap_t cpus)
{
	struct sight sight = {.at_ns = 0};
	bool told;

	if (!neighbours)
		return;
	told = sight_read(neighbours, &sight) && clock_monotonic_ns() - sight.at_ns < CHECK_EVERY_NS;
	if (told)
		sight_take(neighbours, &sight, true);
	occupants_free(&sight.occupants);
	if (!told || neighbours_ask(neighbours, cpus))
		processes_check(neighbours);
}

/*
 * Takes another step's recent result, or checks. If another step is checking now, the former result holds. Returns when
 * the next check is allowed.
 */
static uint64_t check_in_turn(struct neighbours *neighbours)
{
	struct sight sight = {.at_ns = 0};
	uint64_t now_ns = clock_monotonic_ns(), next_ns = now_ns + CHECK_EVERY_NS;
	bool told = sight_read(neighbours, &sight);

	if (told && now_ns < sight.next_ns) {
		sight_take(neighbours, &sight, true);
		next_ns = sight.next_ns;
	} else if (neighbours->lock < 0 || files_lock(neighbours->lock, 1) == 0) {
		next_ns = processes_check(neighbours);
		if (neighbours->lock >= 0)
			files_unlock(neighbours->lock);
	}
	occupants_free(&sight.occupants);
	return next_ns;
}

/* Waits, with the mutex held, until a check is asked for and allowed, or until the end. */
static void wait_for_wish(struct neighbours *neighbours, uint64_t from_ns)
{
	const struct timespec from = clock_timespec(from_ns);

	while (!neighbours->ends && clock_monotonic_ns() < from_ns)
		pthread_cond_timedwait(&neighbours->asked, &neighbours->mutex, &from);
	while (!neighbours->ends && !neighbours->wanted)
		pthread_cond_wait(&neighbours->asked, &neighbours->mutex);
	neighbours->wanted = false;
}

/* The thread: checks when a check is asked for, until the end. */
static void *watch(void *context)
{
	struct neighbours *neighbours = context;
	uint64_t from_ns = 0;

	pthread_mutex_lock(&neighbours->mutex);
	while (wait_for_wish(neighbours, from_ns), !neighbours->ends) {
		pthread_mutex_unlock(&neighbours->mutex);
		from_ns = check_in_turn(neighbours);
		pthread_mutex_lock(&neighbours->mutex);
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
		neighbours->directory = neighbours->lock = -1;
		neighbours->are_seen = true;
		neighbours->cpus = cpus;
		pthread_mutex_init(&neighbours->mutex, NULL);
		thread_condition_init(&neighbours->asked);
		rc = thread_start(&neighbours->thread, watch, neighbours);
	}
	if (rc < 0) {
		hwloc_bitmap_free(cpus);
		free(neighbours);
		return error_set(error, rc, "no grant: cannot check for other jobs: %s", strerror(-rc));
	}
	*ret_neighbours = neighbours;
	return 0;
}

/* Returns the PID namespace of this process, 0 if unknown. */
static uint64_t namespace_own(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

void neighbours_share(struct neighbours *neighbours, int node_directory)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	uint64_t noted;

	if (proc_number_read(node_directory, NAMESPACE_NAME, &noted))
		neighbours->are_seen = noted == namespace_own();
	neighbours->lock = openat(node_directory, LOCK_NAME, flags, 0600);
	neighbours->directory = fcntl(node_directory, F_DUPFD_CLOEXEC, 3);
}

void neighbours_note_namespace(int node_directory)
{
	uint64_t own = namespace_own(), noted;
	char text[24];

	if (proc_number_read(node_directory, NAMESPACE_NAME, &noted) && noted == own)
		return;
	snprintf(text, sizeof(text), "%" PRIu64 "\n", own);
	files_write(node_directory, NAMESPACE_NAME, 0600, text, strlen(text), false);
}

bool neighbours_are_seen(const struct neighbours *neighbours)
{
	return !neighbours || neighbours->are_seen;
}

bool neighbours_ask(struct neighbours *neighbours, hwloc_const_bitmap_t cpus)
{
	bool have;

	if (!neighbours)
		return false;
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
	cleanup_close_descriptor(&neighbours->directory);
	cleanup_close_descriptor(&neighbours->lock);
	hwloc_bitmap_free(neighbours->cpus);
	free(neighbours);
}
