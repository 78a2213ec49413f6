/*
 * What a tick of the sampler costs: sampler-bench ROOT SECONDS, on the zones of /sys. Prints the CPU time of one tick
 * at one tick a second, and of reading the counters alone, in microseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spank/energy.h"
#include "spank/sampler.h"

#define READS 100

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double read_us(size_t *ret_zones)
{
	struct rapl_zone zones[RAPL_ZONES_MAX];
	struct error error = {""};
	struct rapl *rapl = NULL;
	double begun_us;

	if (rapl_open(&rapl, &error))
		return -1;
	begun_us = cpu_us();
	for (int i = 0; i < READS; i++)
		*ret_zones = rapl_read(rapl, zones);
	begun_us = (cpu_us() - begun_us) / READS;
	rapl_close(rapl);
	return begun_us;
}

/* The first tick of a thread comes a second after its start. */
static double tick_us(struct sampler_config *config, time_t seconds)
{
	const struct timespec first = {.tv_nsec = 500000000}, rest = {.tv_sec = seconds};
	struct sampler *sampler = NULL;
	struct error error = {""};
	double begun_us;

	if (sampler_start(config, &sampler, &error)) {
		fprintf(stderr, "%s\n", error.text);
		return -1;
	}
	nanosleep(&first, NULL);
	begun_us = cpu_us();
	nanosleep(&rest, NULL);
	begun_us = (cpu_us() - begun_us) / (double)seconds;
	sampler_stop(sampler);
	return begun_us;
}

int main(int count, char *words[])
{
	struct sampler_config config = {.job_id = 7, .segment = -1, .fast = true};
	struct state_job facts;
	struct error error = {""};
	double reading_us;
	size_t zones = 0;

	state_job_init(config.job_id, &facts);
	if (count != 3 || state_place_init(words[1], &config.place) ||
	    state_job_begin(&config.place, &facts, true, &error)) {
		fprintf(stderr, "sampler-bench ROOT SECONDS: %s\n", error.text);
		return EXIT_FAILURE;
	}
	reading_us = read_us(&zones);
	printf("{\"zones\": %zu, \"read_us\": %.1f, \"tick_us\": %.1f}\n", zones, reading_us,
	       tick_us(&config, (time_t)strtol(words[2], NULL, 10)));
	return EXIT_SUCCESS;
}
