/*
 * Questions to the MPI about communicators, datatypes and requests, by its PMPI names, and the constants by which the
 * three ABIs differ.
 *
 * Invariant: every handle given to the MPI here is one that the caller's own call uses too: an MPI aborts on a wrong
 * handle.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/mpi/calls.h"

/* Constants of one ABI. */
struct query_values {
	uintptr_t in_place;
	int32_t proc_null;
	int32_t root;
	int32_t err_count;
	int32_t cart, graph, dist_graph; /* answers of MPI_Topo_test */
	size_t handle_size;              /* bytes of a request or a datatype in an array */
};

/* Looks up the functions. Asks the loader. Called when the MPI is known. */
void query_resolve(void);

const struct query_values *query_values(void);

/* Returns true if the communicator has one group with more than one rank; false also if the MPI does not say. */
bool query_is_crowd(uintptr_t comm);

/* Writes the sizes of the local group and of the group that the communicator talks to. Returns an MPI error code. */
int query_sizes(uintptr_t comm, int *ret_local, int *ret_peers);

/* Writes the out- and indegree of the communicator's topology, 0 and 0 if it has none. Returns an MPI error code. */
int query_degrees(uintptr_t comm, int *ret_out, int *ret_in);

/*
 * Returns false if the neighbor with that index, below the degree, is MPI_PROC_NULL: it would lie beyond the edge of a
 * Cartesian grid.
 */
bool query_is_neighbor(uintptr_t comm, int index);

/* Writes the lengths of the arrays of the call's first and second message. Returns an MPI error code. */
int query_lengths(uintptr_t comm, enum call_volume volume, int ret_lengths[CALL_MESSAGES_MAX]);

/* Returns PMPI_Type_size, or a function that returns an error. */
int (*query_type_size(void))(uintptr_t type, int *ret_size);

/*
 * Returns the size of a datatype for which PMPI_Type_size answers MPI_UNDEFINED, a negative number: 2 GiB or more.
 * Returns 0 if the MPI does not say.
 */
uint64_t query_type_large(uintptr_t type);

/* Returns an element of an array of handles. */
uintptr_t query_handle(const void *array, size_t index);
