/*
 * Measures the sampler, slurmstepd's own thread, on the powercap tree of this mount namespace, for that time and with
 * that many ranks in its stats segment. Prints "wall_s cpu_s ticks zones read_us", without its start and stop. read_us
 * is the CPU time of reading all zones once, and nothing else.
 *
 *     sampler_cost STATE_ROOT SECONDS fast|slow RANKS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "preload/contract/stats.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/machine/rapl.h"
#include "spank/node/sampler.h"
#include "spank/plugin/segment.h"

#define JOB   1
#define READS 100
#define CALLS 6 /* rows of the table that a rank has used */

/* Counts a tick: each tick calls it once. */
static json_t *tick_count(void *context)
{
	__atomic_add_fetch((unsigned *)context, 1, __ATOMIC_RELAXED);
	return NULL;
}

static int rank_write(int segment, uint32_t rank, uint32_t ranks)
{
	struct mpiwait_slot *slot = calloc(1, sizeof(*slot));
	ssize_t written;

	if (!slot)
		return -1;
	slot->pid = (uint32_t)getpid();
	slot->state = MPIWAIT_SLOT_RUNNING;
	slot->rank = (int32_t)rank;
	slot->size = (int32_t)ranks;
	slot->lanes = 1;
	slot->start_ns = clock_monotonic_ns();
	for (int i = 0; i < CALLS; i++)
		slot->lane[0].calls[i].calls = slot->lane[0].calls[i].waits = 1;
	written = pwrite(segment, slot, sizeof(*slot), (off_t)(MPIWAIT_SLOTS_OFFSET + rank * sizeof(*slot)));
	free(slot);
	return written == (ssize_t)sizeof(*slot) ? 0 : -1;
}

/* Writes the segment as a step's ranks would. */
static int ranks_write(int segment, uint32_t ranks)
{
	struct mpiwait_header header;

	if (pread(segment, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return -1;
	header.claimed = ranks;
	if (pwrite(segment, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return -1;
	for (uint32_t rank = 0; rank < ranks; rank++)
		if (rank_write(segment, rank, ranks))
			return -1;
	return 0;
}

static int fail(const char *what, const struct error *error)
{
	fprintf(stderr, "sampler_cost: %s: %s\n", what, error->text);
	return 1;
}

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Measures the CPU time of reading the counters alone. */
static int read_cost(size_t *ret_zones, double *ret_us, struct error *error)
{
	struct rapl_zone zones[RAPL_ZONES_MAX];
	struct rapl *rapl = NULL;
	double begun;

	if (rapl_open(&rapl, error) < 0)
		return -1;
	begun = cpu_s();
	for (int i = 0; i < READS; i++)
		*ret_zones = rapl_read(rapl, zones);
	*ret_us = (cpu_s() - begun) / READS * 1e6;
	rapl_close(rapl);
	return 0;
}

static int measure(struct sampler_config *config, double seconds)
{
	const struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	struct sampler *sampler = NULL;
	struct error error = {""};
	unsigned ticks = 0;
	size_t zones = 0;
	double cpu, read_us;

	if (read_cost(&zones, &read_us, &error) < 0)
		return fail("counters", &error);
	config->grant_read = tick_count;
	config->grant_context = &ticks;
	if (sampler_start(config, &sampler, &error) < 0)
		return fail("sampler", &error);
	__atomic_store_n(&ticks, 0, __ATOMIC_RELAXED);
	cpu = cpu_s();
	nanosleep(&pause, NULL);
	printf("%.3f %.6f %u %zu %.1f\n", seconds, cpu_s() - cpu, __atomic_load_n(&ticks, __ATOMIC_RELAXED), zones,
	       read_us);
	sampler_stop(sampler);
	return 0;
}

int main(int argc, char **argv)
{
	struct sampler_config config = {.job_id = JOB, .segment = -1, .policy = {.asked = "nap", .used = "nap"}};
	struct state_job *job = malloc(sizeof(*job));
	struct error error = {""};
	uint32_t ranks = argc > 4 ? (uint32_t)atoi(argv[4]) : 0;
	int status;

	if (argc < 5 || !job || run_directory_init(argv[1], &config.run_directory) < 0) {
		fprintf(stderr, "usage: sampler_cost STATE_ROOT SECONDS fast|slow RANKS, with SLURMD_NODENAME\n");
		free(job);
		return 2;
	}
	state_job_init(JOB, job);
	status = state_job_begin(&config.run_directory, job, false, &error);
	free(job);
	if (status < 0)
		return fail("state", &error);
	if (ranks)
		config.segment = segment_create(getuid(), getgid(), &error);
	if (ranks && (config.segment < 0 || ranks_write(config.segment, ranks)))
		return fail("segment", &error);
	config.fast = strcmp(argv[3], "fast") == 0;
	return measure(&config, atof(argv[2]));
}
