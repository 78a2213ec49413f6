/* The library's knowledge of each row of mpi_calls.def: names of its functions, group, and arguments. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/call_rows.h"

#define CALL_ARGUMENTS_MAX 13
#define CALL_GROUPS_MAX    2

enum call_group { GROUP_INIT, GROUP_P2P, GROUP_COLLECTIVE, GROUP_RMA, GROUP_RMA_LOCK, GROUP_COMM, GROUP_IO };
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

/* A message that a call's arguments describe. The numbers are indices of arguments, -1 for none. */
struct call_message {
	int8_t buffer;
	int8_t count;
	int8_t type;
	int8_t peer;
	int8_t source;  /* index of a second peer of the same buffer */
	bool counts;    /* true: the count is an array */
	bool types;     /* true: the type is an array */
	bool only_root; /* true: the message is significant at the root only */
};

/* A row's parsed signature. */
struct call_shape {
	struct call_message message[CALL_GROUPS_MAX];
	uint8_t messages;
	uint8_t volume;  /* enum call_volume */
	bool persistent; /* true: the call only prepares a request */
	bool between;    /* true: a call between two ranks, so its peer is no root */
	int8_t root;
	int8_t handle; /* index of the communicator, window or file */
};

void call_shape_get(enum call_row row, struct call_shape *ret_shape);
