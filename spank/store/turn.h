/*
 * Turn: on each node one process at a time makes the records of jobs that have ended ("recorder"), and one process at a
 * time moves and stores them ("writer").
 *
 * Locks and notes lie in /run/mpi-wait/<node>, so taking a turn waits for no disk, no file server and no lookup of user
 * names. A process that finds a turn taken exits: the holder checks for more work after it has given the turn up. The
 * log names a holder that hangs.
 */
#pragma once

#include <stdbool.h>

#include "spank/base/run_directory.h"

#define TURN_RECORDER ".recorder"
#define TURN_WRITER   ".writer"

struct turn {
	int directory;     /* descriptor of the node's directory below /run; -errno: none, and every turn is free */
	const char *words; /* the caller's site arguments; NULL: any */
	bool was_noted;    /* turn_init found the same arguments noted */
	const char *name;  /* name of the turn that is held; NULL: none */
	int lock;          /* descriptor of the locked file; -1: none */
};

#define cleanup_turn __attribute__((cleanup(turn_free)))

/* Notes the site arguments under which the node's records are handled from now on; words NULL: they stay. */
void turn_init(const struct run_directory *run_directory, const char *words, struct turn *ret_turn);

/*
 * Takes a turn, which turn_leave gives up. If the holder may have other site arguments than the caller's, waits for it,
 * five minutes at most. Returns 0, also if locks do not work, or -EBUSY: the holder checks for more work at its end.
 */
int turn_take(struct turn *turn, const char *name);

/* Notes, for the log lines of other processes, what the holder is about to do and may hang in. */
__attribute__((format(printf, 2, 3))) void turn_note(const struct turn *turn, const char *format, ...);

/* Gives up the turn that is held, if one is. */
void turn_leave(struct turn *turn);

/* Returns true if the noted site arguments are still the caller's, or if that cannot be told. */
bool turn_is_ours(const struct turn *turn);

/* Gives up a turn that is held, and closes the directory. */
void turn_free(struct turn *turn);
