/*
 * What is asked of the MPI about communicators, datatypes and their like, by its PMPI names, and the constants by which
 * the three ABIs differ.
 *
 * Invariant: nothing here is called with a handle that the caller's own call would not have used: an MPI aborts on a
 * wrong one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/mpi/calls.h"

/* Values of one ABI. */
struct query_values {
	uintptr_t in_place;
	int32_t proc_null;
	int32_t root;
	int32_t err_count;
	int32_t cart, graph, dist_graph; /* what MPI_Topo_test answers */
	size_t handle_size;              /* of a request or a datatype, in an array of them */
};

/* Looks the functions up. Asks the loader; called once the MPI is known. */
void query_resolve(void);

const struct query_values *query_values(void);

/* Returns true if the communicator is of one group, with more than one rank; false also if the MPI does not say. */
bool query_is_crowd(uintptr_t comm);

/* Sizes of the local group and of the group that the communicator talks to. Returns an MPI error code. */
int query_sizes(uintptr_t comm, int *ret_local, int *ret_peers);

/* Out- and indegree of the communicator's topology; 0 and 0 where it has none. Returns an MPI error code. */
int query_degrees(uintptr_t comm, int *ret_out, int *ret_in);

/* How long the arrays of the first and the second message of such a call are. Returns an MPI error code. */
int query_lengths(uintptr_t comm, enum call_volume volume, int ret_lengths[CALL_GROUPS_MAX]);

/* PMPI_Type_size, or a function that returns an error. */
int (*query_type_size(void))(uintptr_t type, int *ret_size);

/* The element of an array of handles. */
uintptr_t query_handle(const void *array, size_t index);
