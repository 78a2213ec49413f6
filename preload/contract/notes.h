/*
 * Notes: how a process that has no slot tells root why.
 *
 * slurmstepd makes one page of System V shared memory for each step and node. The page belongs to the job's user and is
 * marked for removal at once, so it lives as long as slurmstepd is attached to it. A process reaches the page by its id
 * alone, even if it has lost every descriptor. Every count is the user's claim.
 */
#pragma once

#include <stdint.h>

#include "preload/contract/config_format.h"

#define MPIWAIT_NOTES_MAGIC UINT64_C(0x3145544f4e57504d) /* "MPWNOTE1" in memory */

/* Reasons why a process is not among the ranks, in the order of the rows MISSED of spank/record/record_fields.def. */
enum mpiwait_note {
	MPIWAIT_NOTE_LOST,      /* a rank did not find the stats segment: its descriptors are closed */
	MPIWAIT_NOTE_UNREACHED, /* the process initialised MPI, and none of its calls came to the library */
	MPIWAIT_NOTE_REPLACED,  /* the process took the library out of LD_PRELOAD: what it starts lacks the library */
	MPIWAIT_NOTE_STATIC,    /* the task's program is linked statically: it loads no library */
	MPIWAIT_NOTE_SETUID,    /* the task's program is setuid or setgid: the loader ignores LD_PRELOAD */
	MPIWAIT_NOTE_UNFIT,     /* a rank's library does not know the layout of the stats segment: another release */
	MPIWAIT_NOTES
};

struct mpiwait_notes {
	uint64_t magic;
	/* Random number that the configuration repeats: in another IPC namespace the same id is another page. */
	uint64_t key;
	uint32_t count[MPIWAIT_NOTES]; /* number of processes by enum mpiwait_note, counted atomically */
	/* Number of ranks that chose "off" by the policy's number less 1 (config_format.h), counted atomically. */
	uint32_t off[CONFIG_CHOICES_MAX];
};
