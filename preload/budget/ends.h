/*
 * How long the waits of one kind were: the latest eight ends that are known exactly, what has to be forgotten of them,
 * and how much they vary. Pure. The rules by which the predictor uses them stand in predictor.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ENDS_KEPT       8u
#define ENDS_KNOWN      4u  /* so many tell what is usual */
#define ENDS_PAIR       2u  /* or these, where they are alike */
#define ENDS_ALIKE      16u /* alike is counted up to that */
#define ENDS_UNIT_SHIFT 6   /* times in units of 64 ns: up to 274 s */

struct ends_times {
	uint32_t at[ENDS_KEPT];
	uint32_t varied; /* running mean of the difference between one and the next, from the second on */
};

/* All zero at first. */
struct ends {
	uint64_t ended_ns;       /* the latest end, 0: not known exactly */
	uint8_t count;           /* of the ends that are kept */
	uint8_t next;            /* where the next one goes */
	uint8_t passed;          /* ends that were not kept, up to ENDS_KNOWN */
	uint8_t alike;           /* ends in a row like those kept, up to ENDS_ALIKE */
	uint8_t outlasted;       /* waits in a row that outlasted the earliest of those kept */
	uint8_t undercut;        /* waits in a row that were shorter than the latest of those kept */
	uint32_t lasted;         /* how long the latest wait was whose end was not kept */
	struct ends_times wait;  /* since the call began to wait */
	struct ends_times since; /* since ended_ns; 0: not known */
};

/* From one time to another, in units; 0 if that is not later. */
uint32_t ends_units(uint64_t from_ns, uint64_t until_ns);

/* An end that is known exactly, of a wait that began then. */
void ends_keep(struct ends *ends, uint64_t began_ns, uint64_t ended_ns);

/* Another one: the end before it is no neighbour of the next. */
void ends_pass(struct ends *ends, uint32_t lasted);

/*
 * A wait that was not kept has lasted so long. The earliest end is forgotten when eight in a row have outlasted it by a
 * quarter; the latest when it was a quarter more than each of sixteen. What is forgotten is as the next one then.
 */
void ends_forget(struct ends *ends, uint32_t lasted);

/* Whether that end and those that are kept are alike. */
bool ends_are_like(const struct ends *ends, uint32_t lasted);

/* Counts it. */
void ends_count_alike(struct ends *ends, bool alike);

/* Whether there are two, and the first two are alike. */
bool ends_are_pair(const struct ends *ends);

/* Of those kept; 0: there are none. */
uint32_t ends_earliest(const struct ends *ends);

/* What lasts longer than that was longer than all that are kept, by more than they vary. */
uint64_t ends_latest(const struct ends *ends);

/*
 * The earliest end that is still to come in a wait that began then, as a time; *ret_count: how many are. 0: too few
 * are. By the times since the end before, where these vary clearly less.
 */
uint64_t ends_next(const struct ends *ends, uint64_t began_ns, uint64_t now_ns, unsigned *ret_count);
