/* Which run of which job a record is of, as slurmdbd is asked for its row. */
#pragma once

#include <stdint.h>
#include <time.h>

#define ACCOUNT_NOT_YET 2 /* the run's row is not there, or has no end time */
#define ACCOUNT_NONE    UINT32_MAX

/*
 * A requeued job has several rows of one id, and one that was resized too; node is one of those
 * that it had at its end. The times are by the nodes' clocks.
 */
struct account_run {
	const char *cluster;
	uint32_t job_id;
	uint32_t array_job_id; /* ACCOUNT_NONE: no array */
	uint32_t array_task_id;
	time_t begun;
	time_t end;
	time_t at; /* inside the run */
	const char *node;
};
