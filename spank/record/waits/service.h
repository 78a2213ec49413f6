/*
 * Service: what was forecast, which idle hooks the ranks' waits came through, why some ranks were passed through in
 * part, and which calls kept the CPU busy without an idle call. Pure; one set of names for the segment, a node's record
 * and the job's.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/stats.h"

#define SERVICE_FLAGS    8  /* bits of mpiwait_slot.flags that have a word */
#define SERVICE_SPUN_MAX 16 /* functions, those that burned most */
#define SERVICE_NAME_MAX 48

/* What there is to tell of forecasts: waits are counted by the part of a call between two signs of progress. */
enum service_forecast {
	SERVICE_FORECASTS,  /* naps by forecast */
	SERVICE_EARLY,      /* waits in which they ended before the message */
	SERVICE_EARLY_US,   /* how long was polled then */
	SERVICE_FORESEEN,   /* waits with such naps */
	SERVICE_UNFORESEEN, /* those of 100 us and more without */
	SERVICE_ALLOWED_US, /* how late the ranks might have been in all */
	SERVICE_FORECAST_COUNT
};

struct service_spun {
	char name[SERVICE_NAME_MAX]; /* "MPI_Probe" */
	uint64_t burned_us;
	uint64_t cpu_us;
};

struct service {
	uint64_t polls[MPIWAIT_HOOKS]; /* idle calls looked at, by bit of MPIWAIT_HOOK_* */
	uint64_t ranks[SERVICE_FLAGS]; /* that have the flag */
	uint64_t forecast[SERVICE_FORECAST_COUNT];
	size_t spun_count; /* most burned time first */
	struct service_spun spun[SERVICE_SPUN_MAX];
};

/* Adds one function's; where there is no room, the least goes. */
void service_add_spun(struct service *service, const char *name, uint64_t burned_us, uint64_t cpu_us);
void service_add(struct service *sum, const struct service *more);

/* Sets "forecast", "hooks", "flags" and "spun" in a node's record of a step's waits; what is empty is left out. */
void service_write(const struct service *service, json_t *wait);

/* The other way round, from hostile input; what is missing is empty. Returns whether all is in range. */
bool service_read(const json_t *wait, struct service *ret_service);

/* As service_write, but as the job's record has it, with seconds. */
void service_print(const struct service *service, json_t *wait);
