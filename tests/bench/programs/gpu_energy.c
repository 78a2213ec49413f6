/*
 * Compares the energy counters of this machine's NVIDIA devices with the power that the driver reports meanwhile.
 *
 *     gpu-energy [--seconds S] [--around S] [--interval MS] [--series] [-- COMMAND [ARGUMENT...]]
 *
 * Reads counter and power of each device every MS milliseconds (10), from S seconds (1) before the command starts until
 * S seconds after it ended, or for --seconds (10) without a command. It reads through spank/machine/nvml.c, as root's
 * processes do, and LD_LIBRARY_PATH may name the driver's directory. Prints JSON lines:
 *
 *     {"kind": "driver", ...}   one
 *     {"kind": "sample", ...}   with --series: each reading, at_ms from the begin on
 *     {"kind": "device", ...}   one a device: joules by the counter, and by integrating the power, average and instant,
 *                               from the first reading to the last one. The figures between_steps_ are of the time
 *                               between the first and the last moment at which the counter was seen to advance; they
 *                               do not depend on how rarely it does. null: not reported
 *     {"kind": "command", ...}  one
 *
 * Exits as the command does, 0 without one, 69 where there is no device, 64 for wrong usage.
 */
#include "spank/machine/nvml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_USAGE   64
#define EXIT_NO_GPUS 69
#define KINDS        2 /* NVML_POWER_AVERAGE, NVML_POWER_INSTANT */

struct options {
	double seconds, around_s, interval_ms;
	bool series;
	char **command; /* command to run, NULL: none */
};

/* Joules at one moment, each since the first reading. */
struct reading {
	double at_s;
	double counter_j;
	double power_j[KINDS];
};

struct device {
	uint64_t samples, failures, steps;
	uint64_t counter_mj;            /* counter at the latest reading */
	double power_w[KINDS];          /* powers at the latest reading, NAN: not reported */
	double took_s, took_most_s;     /* time to read the counter: sum and greatest */
	double power_took_s;            /* time to read both powers */
	struct reading first, now;      /* the first reading is the zero of all others */
	struct reading step, last_step; /* readings at which the counter was first and last seen to advance */
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void wait_until(double at_s)
{
	struct timespec at = {(time_t)at_s, (long)(fmod(at_s, 1) * 1e9)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Adds the energy since the previous reading, by the mean of both powers. */
static void power_add(struct device *device, const double power_w[KINDS], double at_s)
{
	for (int kind = 0; kind < KINDS; kind++) {
		if (device->samples > 0)
			device->now.power_j[kind] +=
			        (device->power_w[kind] + power_w[kind]) / 2 * (at_s - device->now.at_s);
		device->power_w[kind] = power_w[kind];
	}
}

static void counter_add(struct device *device, uint64_t counter_mj)
{
	if (device->samples > 0 && counter_mj != device->counter_mj) {
		device->now.counter_j += (double)(int64_t)(counter_mj - device->counter_mj) / 1e3;
		if (device->steps++ == 0)
			device->step = device->now;
		device->last_step = device->now;
	}
	device->counter_mj = counter_mj;
}

/* Reads a device. Returns false if the counter does not answer. */
static bool device_read(const struct nvml *nvml, size_t index, struct device *device)
{
	double power_w[KINDS], began_s = now_s(), counted_s, told_s;
	uint64_t counter_mj, power_mw;

	if (nvml_energy_read(nvml, index, &counter_mj)) {
		device->failures++;
		return false;
	}
	counted_s = now_s();
	for (int kind = 0; kind < KINDS; kind++) {
		bool is_told = nvml_power_read(nvml, index, (enum nvml_power)kind, &power_mw) == 0;

		power_w[kind] = is_told ? (double)power_mw / 1e3 : NAN;
	}
	told_s = now_s();
	power_add(device, power_w, counted_s);
	device->now.at_s = counted_s;
	counter_add(device, counter_mj);
	if (device->samples++ == 0)
		device->first = device->now;
	device->took_s += counted_s - began_s;
	device->took_most_s = fmax(device->took_most_s, counted_s - began_s);
	device->power_took_s += told_s - counted_s;
	return true;
}

static void number_print(const char *name, double value)
{
	if (isfinite(value))
		printf(", \"%s\": %.6g", name, value);
	else
		printf(", \"%s\": null", name);
}

static void sample_print(size_t index, const struct device *device, double begun_s)
{
	printf("{\"kind\": \"sample\", \"device\": %zu, \"at_ms\": %.1f, \"counter_mj\": %llu", index,
	       (device->now.at_s - begun_s) * 1e3, (unsigned long long)device->counter_mj);
	number_print("average_w", device->power_w[NVML_POWER_AVERAGE]);
	number_print("instant_w", device->power_w[NVML_POWER_INSTANT]);
	puts("}");
}

static void sample(const struct nvml *nvml, struct device devices[], const struct options *options, double begun_s)
{
	for (size_t i = 0; i < nvml_count(nvml); i++)
		if (device_read(nvml, i, &devices[i]) && options->series)
			sample_print(i, &devices[i], begun_s);
}

static pid_t command_start(char **command)
{
	pid_t child = fork();

	if (child == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is for the figures */
		execvp(command[0], command);
		perror(command[0]);
		_exit(127);
	}
	return child;
}

/* Samples until the time is up or, with a child, until the child has ended. */
static void sample_for(const struct nvml *nvml, struct device devices[], const struct options *options, double seconds,
                       pid_t child, int *ret_status)
{
	static double begun_s;
	double at_s = now_s(), end_s = at_s + seconds;

	if (begun_s == 0)
		begun_s = at_s;
	while (child > 0 ? waitpid(child, ret_status, WNOHANG) == 0 : at_s < end_s) {
		sample(nvml, devices, options, begun_s);
		at_s += options->interval_ms / 1e3;
		at_s = fmax(at_s, now_s());
		wait_until(at_s);
	}
}

/* Prints joules by the counter and by both powers, and how the first compares with the others. */
static void joules_print(const char *prefix, const struct reading *from, const struct reading *to)
{
	double counter_j = to->counter_j - from->counter_j;
	double average_j = to->power_j[NVML_POWER_AVERAGE] - from->power_j[NVML_POWER_AVERAGE];
	double instant_j = to->power_j[NVML_POWER_INSTANT] - from->power_j[NVML_POWER_INSTANT];
	const struct {
		const char *name;
		double value;
	} figures[] = {{"seconds", to->at_s - from->at_s},
	               {"counter_j", counter_j},
	               {"average_j", average_j},
	               {"instant_j", instant_j},
	               {"counter_over_average", counter_j / average_j},
	               {"counter_over_instant", counter_j / instant_j}};

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s%s", prefix, figures[i].name);
		number_print(name, to->at_s > from->at_s ? figures[i].value : NAN);
	}
}

/* Prints a device. Its name and uuid have neither quotes nor backslashes: see nvml.h. */
static void device_print(const struct nvml *nvml, size_t index, const struct device *device)
{
	const struct nvml_device *known = nvml_device(nvml, index);
	const struct reading *step = &device->step, *last = &device->last_step;
	double samples = device->samples > 0 ? (double)device->samples : NAN;
	double steps = device->steps > 1 ? (double)(device->steps - 1) : NAN;

	printf("{\"kind\": \"device\", \"device\": %zu, \"minor\": %u, \"name\": \"%s\", \"uuid\": \"%s\", "
	       "\"split\": %s, \"samples\": %llu, \"failures\": %llu, \"counter_steps\": %llu",
	       index, known->minor, known->name, known->uuid, known->is_split ? "true" : "false",
	       (unsigned long long)device->samples, (unsigned long long)device->failures,
	       (unsigned long long)device->steps);
	joules_print("", &device->first, &device->now);
	joules_print("between_steps_", step, last);
	number_print("counter_step_ms", (last->at_s - step->at_s) * 1e3 / steps);
	number_print("counter_read_us", device->took_s / samples * 1e6);
	number_print("counter_read_most_us", device->took_most_s / samples * samples * 1e6);
	number_print("power_read_us", device->power_took_s / samples * 1e6);
	puts("}");
}

/* Measures. Returns the command's exit status; 0 without a command. */
static int measure(const struct nvml *nvml, const struct options *options)
{
	static struct device devices[NVML_DEVICES_MAX];
	int status = 0;
	double began_s, ran_s = options->seconds;

	if (!options->command) {
		sample_for(nvml, devices, options, options->seconds, 0, &status);
	} else {
		sample_for(nvml, devices, options, options->around_s, 0, &status);
		began_s = now_s();
		sample_for(nvml, devices, options, 0, command_start(options->command), &status);
		ran_s = now_s() - began_s;
		sample_for(nvml, devices, options, options->around_s, 0, &status);
	}
	for (size_t i = 0; i < nvml_count(nvml); i++)
		device_print(nvml, i, &devices[i]);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	printf("{\"kind\": \"command\", \"exit\": %d", status);
	number_print("seconds", ran_s);
	puts("}");
	return status;
}

/* Reads the options. Returns false for wrong usage. */
static bool options_read(int count, char *words[], struct options *ret_options)
{
	struct {
		const char *name;
		double *value;
	} numbers[] = {{"--seconds", &ret_options->seconds},
	               {"--around", &ret_options->around_s},
	               {"--interval", &ret_options->interval_ms}};

	for (int i = 1; i < count; i++) {
		size_t known = 0;
		char *end;

		if (strcmp(words[i], "--") == 0) {
			ret_options->command = i + 1 < count ? &words[i + 1] : NULL;
			return ret_options->command != NULL;
		}
		if (strcmp(words[i], "--series") == 0) {
			ret_options->series = true;
			continue;
		}
		while (known < 3 && strcmp(words[i], numbers[known].name) != 0)
			known++;
		if (known == 3 || ++i == count)
			return false;
		*numbers[known].value = strtod(words[i], &end);
		if (*end || end == words[i] || !(*numbers[known].value >= 0 && *numbers[known].value <= 86400))
			return false;
	}
	return true;
}

int main(int count, char *words[])
{
	struct options options = {.seconds = 10, .around_s = 1, .interval_ms = 10};
	struct error error = {""};
	struct nvml *nvml = NULL;
	int status;

	if (!options_read(count, words, &options)) {
		fputs("usage: gpu-energy [--seconds S] [--around S] [--interval MS] [--series] [-- COMMAND...]\n",
		      stderr);
		return EXIT_USAGE;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (nvml_open(&nvml, &error)) {
		fprintf(stderr, "gpu-energy: %s\n", error.text);
		return EXIT_NO_GPUS;
	}
	printf("{\"kind\": \"driver\", \"driver\": \"%s\", \"devices\": %zu", nvml_driver(nvml), nvml_count(nvml));
	number_print("around_s", options.command ? options.around_s : 0);
	number_print("interval_ms", options.interval_ms);
	puts("}");
	status = measure(nvml, &options);
	nvml_close(nvml);
	return status;
}
