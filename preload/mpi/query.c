/* Asks the MPI. The invariant stands in query.h. */
#include "preload/mpi/query.h"

#include "preload/mpi/next.h"

enum function {
	COMM_RANK,
	COMM_SIZE,
	COMM_REMOTE_SIZE,
	COMM_TEST_INTER,
	TOPO_TEST,
	CARTDIM_GET,
	CART_SHIFT,
	GRAPH_NEIGHBORS_COUNT,
	DIST_GRAPH_NEIGHBORS_COUNT,
	TYPE_SIZE,
	TYPE_SIZE_X,
	FUNCTIONS
};

static const char function_names[FUNCTIONS][32] = {
        [COMM_RANK] = "PMPI_Comm_rank",
        [COMM_SIZE] = "PMPI_Comm_size",
        [COMM_REMOTE_SIZE] = "PMPI_Comm_remote_size",
        [COMM_TEST_INTER] = "PMPI_Comm_test_inter",
        [TOPO_TEST] = "PMPI_Topo_test",
        [CARTDIM_GET] = "PMPI_Cartdim_get",
        [CART_SHIFT] = "PMPI_Cart_shift",
        [GRAPH_NEIGHBORS_COUNT] = "PMPI_Graph_neighbors_count",
        [DIST_GRAPH_NEIGHBORS_COUNT] = "PMPI_Dist_graph_neighbors_count",
        [TYPE_SIZE] = "PMPI_Type_size",
        [TYPE_SIZE_X] = "PMPI_Type_size_x",
};

static const struct query_values values[] = {
        [MPIWAIT_FAMILY_UNKNOWN] = {1, -1, -3, 2, 1, 2, 3, sizeof(void *)},
        [MPIWAIT_FAMILY_OPENMPI] = {1, -2, -4, 2, 1, 2, 3, sizeof(void *)},
        [MPIWAIT_FAMILY_MPICH] = {UINTPTR_MAX, -1, -3, 2, 2, 1, 3, sizeof(int)},
        [MPIWAIT_FAMILY_ABI] = {1, -3, -4, 2, 211, 212, 213, sizeof(void *)},
};

static void *functions[FUNCTIONS];

void query_resolve(void)
{
	for (size_t i = 0; i < FUNCTIONS; i++)
		__atomic_store_n(&functions[i], next_symbol(function_names[i]), __ATOMIC_RELAXED);
}

const struct query_values *query_values(void)
{
	return &values[next_family()];
}

/* Asks a function with one answer. Returns its error code, or MPI_ERR_COUNT if the MPI lacks the function. */
static int ask(enum function which, uintptr_t handle, int *ret_answer)
{
	int (*function)(uintptr_t, int *) = (int (*)(uintptr_t, int *))functions[which];

	return function ? function(handle, ret_answer) : query_values()->err_count;
}

bool query_is_crowd(uintptr_t comm)
{
	int inter = 1, size = 0;

	return ask(COMM_TEST_INTER, comm, &inter) == 0 && !inter && ask(COMM_SIZE, comm, &size) == 0 && size > 1;
}

int query_sizes(uintptr_t comm, int *ret_local, int *ret_peers)
{
	int local = 0, peers, inter = 0;
	int code = ask(COMM_SIZE, comm, &local);

	peers = local;
	if (code == 0)
		code = ask(COMM_TEST_INTER, comm, &inter);
	if (code == 0 && inter)
		code = ask(COMM_REMOTE_SIZE, comm, &peers);
	if (code == 0) {
		*ret_local = local;
		*ret_peers = peers;
	}
	return code;
}

static int graph_degree(uintptr_t comm, int *ret_degree)
{
	int (*neighbors)(uintptr_t, int, int *) = (int (*)(uintptr_t, int, int *))functions[GRAPH_NEIGHBORS_COUNT];
	int rank = 0;
	int code = ask(COMM_RANK, comm, &rank);

	if (code != 0 || !neighbors)
		return code != 0 ? code : query_values()->err_count;
	return neighbors(comm, rank, ret_degree);
}

static int dist_graph_degrees(uintptr_t comm, int *ret_out, int *ret_in)
{
	int (*neighbors)(uintptr_t, int *, int *, int *) =
	        (int (*)(uintptr_t, int *, int *, int *))functions[DIST_GRAPH_NEIGHBORS_COUNT];
	int weighted;

	return neighbors ? neighbors(comm, ret_in, ret_out, &weighted) : query_values()->err_count;
}

int query_degrees(uintptr_t comm, int *ret_out, int *ret_in)
{
	int topology = 0, degree = 0;
	int code = ask(TOPO_TEST, comm, &topology);

	if (code == 0 && topology == query_values()->dist_graph)
		return dist_graph_degrees(comm, ret_out, ret_in);
	if (code == 0 && topology == query_values()->cart) {
		code = ask(CARTDIM_GET, comm, &degree);
		degree *= 2;
	} else if (code == 0 && topology == query_values()->graph) {
		code = graph_degree(comm, &degree);
	}
	if (code == 0)
		*ret_out = *ret_in = degree;
	return code;
}

int query_lengths(uintptr_t comm, enum call_volume volume, int ret_lengths[CALL_MESSAGES_MAX])
{
	int local = 0, peers = 0;
	int code;

	if (volume == VOLUME_NEIGHBOR || volume == VOLUME_NEIGHBOR_EACH)
		return query_degrees(comm, &ret_lengths[0], &ret_lengths[1]);
	code = query_sizes(comm, &local, &peers);
	ret_lengths[0] = ret_lengths[1] = volume == VOLUME_LOCAL ? local : peers;
	return code;
}

/* The neighbors in a grid are, for each dimension, the one before and the one behind. */
bool query_is_neighbor(uintptr_t comm, int index)
{
	int (*shift)(uintptr_t, int, int, int *, int *) =
	        (int (*)(uintptr_t, int, int, int *, int *))functions[CART_SHIFT];
	int topology = 0, neighbors[2];

	if (!shift || ask(TOPO_TEST, comm, &topology) != 0 || topology != query_values()->cart)
		return true;
	return shift(comm, index / 2, 1, &neighbors[0], &neighbors[1]) != 0 ||
	       neighbors[index % 2] != query_values()->proc_null;
}

static int type_size_unknown(uintptr_t type, int *ret_size)
{
	(void)type;
	(void)ret_size;
	return query_values()->err_count;
}

int (*query_type_size(void))(uintptr_t, int *)
{
	void *function = functions[TYPE_SIZE];

	return function ? (int (*)(uintptr_t, int *))function : type_size_unknown;
}

uint64_t query_type_large(uintptr_t type)
{
	int (*function)(uintptr_t, int64_t *) = (int (*)(uintptr_t, int64_t *))functions[TYPE_SIZE_X];
	int64_t size = 0;

	return function && function(type, &size) == 0 && size > 0 ? (uint64_t)size : 0;
}

uintptr_t query_handle(const void *array, size_t index)
{
	if (query_values()->handle_size == sizeof(int))
		return (uintptr_t)((const unsigned int *)array)[index];
	return ((const uintptr_t *)array)[index];
}
