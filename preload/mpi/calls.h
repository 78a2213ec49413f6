/*
 * Parses a row of mpi_calls.def, which is one MPI function: which of its arguments describe messages, a root, and a
 * communicator. The head of mpi_calls.def explains the letters of a signature, the groups and the volumes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/call_rows.h"

#define CALL_ARGUMENTS_MAX 13
#define CALL_MESSAGES_MAX  2 /* most messages of a call: one that is sent, one that is received */

enum call_group { GROUP_INIT, GROUP_P2P, GROUP_COLLECTIVE, GROUP_RMA, GROUP_RMA_LOCK, GROUP_COMM, GROUP_IO };

/* The messages that make a call's bytes; mpi_calls.def says what each value means. */
enum call_volume {
	VOLUME_NONE,
	VOLUME_FIRST,
	VOLUME_SECOND,
	VOLUME_EACH,
	VOLUME_LOCAL,
	VOLUME_NEIGHBOR,
	VOLUME_NEIGHBOR_EACH,
	VOLUME_ONE,
};

/* The four names of one row, in the order of next_table. */
enum call_name { NAME_MPI, NAME_PMPI, NAME_MPI_LARGE, NAME_PMPI_LARGE, CALL_NAMES };

/* A message: arguments that describe one buffer. The numbers are indices of arguments, -1 for none. */
struct call_message {
	int8_t buffer;
	int8_t count;
	int8_t type;
	int8_t peer;
	int8_t source;  /* the second peer of the same buffer: Sendrecv_replace receives from it */
	bool counts;    /* true: the count is an array */
	bool types;     /* true: the type is an array */
	bool only_root; /* true: MPI reads these arguments at the root only */
};

/* A row's parsed signature. */
struct call_shape {
	struct call_message message[CALL_MESSAGES_MAX];
	uint8_t messages;
	uint8_t volume;  /* enum call_volume */
	bool persistent; /* true: the call only prepares a request */
	bool between;    /* true: the call is point-to-point (group P2P), so its peer is no root */
	int8_t root;     /* index of the root of a call with two messages; -1: none. Bcast's is its message's peer */
	int8_t handle;   /* index of the communicator, window or file; -1: none */
};

/* Parses the signature of a row. */
void call_shape_get(enum call_row row, struct call_shape *ret_shape);
