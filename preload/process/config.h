/* MPI_WAIT_CONFIG, parsed: what the plugin tells the library. contract/config_format.h has the format. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/config_format.h"
#include "preload/contract/stats.h"

#define CONFIG_RUNG_BYTES 16

struct config_range {
	uint32_t first, last;
};

struct config_near {
	uint32_t size; /* number of the step's tasks, 0: unknown */
	uint32_t rank;
	uint32_t ranges;
	struct config_range range[CONFIG_NEAR_MAX];
};

/* The parsed variable; members are its fields. */
struct config {
	uint32_t rungs; /* bit per enum mpiwait_rung */
	uint64_t spin_ns;
	uint64_t relative_ppm;
	uint64_t absolute_ns;
	uint64_t max_ns;
	uint64_t rma_ns;
	uint64_t event_ns;
	uint64_t slowdown_ppm; /* 0: no account */
	bool shared;
	bool profile;
	bool ibarrier;
	bool polls;
	bool sites;
	bool off;
	bool path;
	bool umwait_c02;
	uint64_t tsc_khz; /* 0: the clock is the kernel's */
	uint64_t umwait_max_ns;
	int segment_fd; /* -1: none */
	uint64_t segment_dev;
	uint64_t segment_ino;
	int32_t task_pid;
	int notes_id; /* -1: none */
	uint64_t notes_key;
	uint64_t pstate_after_ns; /* 0: never */
	int cpufreq_fd;           /* -1: none */
	uint64_t cpufreq_dev;
	uint64_t cpufreq_ino;
	struct config_near near;
	uint32_t program; /* number of the policy that was chosen by the program's name, 0: the step's own */
};

/* Names of the rungs here and in policies, also of those that this release lacks; by enum mpiwait_rung. */
extern const char config_rung_names[MPIWAIT_RUNG_COUNT][CONFIG_RUNG_BYTES];

/*
 * Parses the value of MPI_WAIT_CONFIG into *ret_config. Neither allocates nor touches errno. program: base name of the
 * process's executable, by which it chooses its policy; "": not known. Returns 0, or -EINVAL with *ret_config
 * untouched.
 */
int config_parse(const char *text, const char *program, struct config *ret_config);
