/*
 * Turn: of one node's processes one at a time makes the records of jobs that have ended ("recorder"), and one brings
 * them on ("writer").
 *
 * Locks and notes lie in /run/mpi-wait/<node>: taking a turn waits for no disk, no file server and no directory of
 * users. A process that finds a turn taken leaves, since the holder looks again after it has given the turn up. A
 * holder that hangs is named in the log.
 */
#pragma once

#include <stdbool.h>

#include "spank/base/run_directory.h"

#define TURN_RECORDER ".recorder"
#define TURN_WRITER   ".writer"

struct turn {
	int directory;     /* the node's below /run, or -errno: then turns are not taken, and everybody has one */
	const char *words; /* the caller's site arguments, NULL: any */
	bool was_noted;    /* the arguments that were noted before were the same */
	const char *name;  /* the turn that is held; NULL: none */
	int lock;
};

#define cleanup_turn __attribute__((cleanup(turn_free)))

/* Notes the site arguments by which the node's records are to be handled from now on (NULL: they stay). */
void turn_init(const struct state_place *place, const char *words, struct turn *ret_turn);

/*
 * Takes a turn, to be given up by turn_leave. A holder by other site arguments than the caller's is waited for, five
 * minutes at most. Returns 0, also where locks do not work, or -EBUSY: the holder will look again.
 */
int turn_take(struct turn *turn, const char *name);

/* Notes for others what the holder is about to do, which may hang. */
__attribute__((format(printf, 2, 3))) void turn_note(const struct turn *turn, const char *format, ...);

void turn_leave(struct turn *turn);

/* Returns whether the site arguments that are noted are still the caller's, as far as can be told. */
bool turn_is_ours(const struct turn *turn);

/* Leaves and closes. */
void turn_free(struct turn *turn);
