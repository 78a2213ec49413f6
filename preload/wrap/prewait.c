/* The loops before calls. The invariant stands in prewait.h. */
#include "preload/wrap/prewait.h"

#include <stddef.h>

#include "preload/idle/idle.h"
#include "preload/mpi/next.h"
#include "preload/process/process.h"
#include "preload/wait/act.h"
#include "preload/wait/wait.h"
#include "preload/wait/watch.h"

#define SCAN 16 /* requests of Waitany that one poll asks */

typedef uintptr_t word;

/* Memory for a status: twice the longest MPI_Status; never read. */
struct status {
	uint64_t words[8];
};

static struct {
	word request_null;
	size_t stride;
	int (*test_inter)(word comm, int *flag);
} abi;

struct loop {
	int (*poll)(const struct loop *loop, bool *ret_done); /* polls once; returns an MPI error code */
	const word *arguments;
	const char *requests;
	word count;
	word *cursor;
	struct status *status;
};

/* Returns the PMPI function of a row, which a loop calls: no tool sees these calls. */
static void *original(enum call_row row, bool large)
{
	return next_get((size_t)row * CALL_NAMES + (large ? NAME_PMPI_LARGE : NAME_PMPI));
}

/*
 * Polls until the loop is done. Returns 0, or an MPI error code. Each poll counts as a MARK call, so that calls which
 * the runtime makes in it are not timed.
 */
static int loop_run(const struct loop *loop)
{
	struct wait *wait = &wait_self;
	uint32_t kind = wait->kind;

	for (;;) {
		bool done = false;
		int code;

		wait->kind = CALL_NONE;
		code = loop->poll(loop, &done);
		wait->kind = kind;
		if (code != 0 || done)
			return code;
		if (wait_count_poll(wait))
			wait_idle(wait, MPIWAIT_HOOK_LOOP);
	}
}

/* Returns an element of the caller's array of requests. */
static word request_at(const struct loop *loop, word index)
{
	const char *request = loop->requests + index * abi.stride;

	return abi.stride == sizeof(uint32_t) ? *(const uint32_t *)(const void *)request
	                                      : *(const word *)(const void *)request;
}

static int request_ask(const struct loop *loop, word index, int *ret_flag)
{
	int (*ask)(word, int *, struct status *) =
	        (int (*)(word, int *, struct status *))original(ROW_Request_get_status, false);

	return ask(request_at(loop, index), ret_flag, loop->status);
}

/*
 * Polls once: asks the requests from the cursor on, up to one that is incomplete. All requests before the cursor are
 * complete.
 */
static int poll_all(const struct loop *loop, bool *ret_done)
{
	for (; *loop->cursor < loop->count; ++*loop->cursor) {
		int flag = 0, code;

		if (request_at(loop, *loop->cursor) == abi.request_null)
			continue;
		code = request_ask(loop, *loop->cursor, &flag);
		if (code != 0 || !flag)
			return code;
	}
	*ret_done = true;
	return 0;
}

/*
 * Polls once: asks SCAN requests, in turns, up to one that is complete. The original call chooses among the complete
 * ones.
 */
static int poll_any(const struct loop *loop, bool *ret_done)
{
	for (word i = 0; i < loop->count && i < SCAN && !*ret_done; i++) {
		word index = (*loop->cursor)++ % loop->count;
		int flag = 0, code;

		if (request_at(loop, index) == abi.request_null)
			continue;
		code = request_ask(loop, index, &flag);
		if (code != 0)
			return code;
		*ret_done = flag;
	}
	return 0;
}

/* Returns true if one of the requests is not MPI_REQUEST_NULL. */
static bool any_is_live(const struct loop *loop)
{
	for (word i = 0; i < loop->count; i++)
		if (request_at(loop, i) != abi.request_null)
			return true;
	return false;
}

/* Polls the requests of Wait, Waitall, Waitany or Waitsome until the call will find them done. */
static void requests_await(enum call_row row, const word *arguments)
{
	struct status status;
	word cursor = 0;
	struct loop loop = {.poll = poll_all, .count = 1, .cursor = &cursor, .status = &status};
	bool array = row != ROW_Wait, all = row == ROW_Wait || row == ROW_Waitall;

	loop.requests = (const char *)arguments[array];
	if (array)
		loop.count = (int)arguments[0] > 0 ? (word)(int)arguments[0] : 0;
	if (!loop.requests || loop.count == 0 || (!all && !any_is_live(&loop)))
		return;
	if (!all)
		loop.poll = poll_any;
	loop_run(&loop);
}

/* Waits for a request of ours and completes it with the status. */
static int request_finish(char request[8], word status)
{
	int (*finish)(char *, word) = (int (*)(char *, word))original(ROW_Wait, false);
	struct status unused;
	word cursor = 0;
	struct loop loop = {.poll = poll_all, .requests = request, .count = 1, .cursor = &cursor, .status = &unused};

	loop_run(&loop);
	return finish(request, status);
}

/* Does the work of Recv or Mrecv: starts the receive, polls for it and finishes it. Returns the MPI error code. */
static int receive(enum call_row row, bool large, const word *a)
{
	_Alignas(8) char request[8] = {0};
	void *start = original(row == ROW_Recv ? ROW_Irecv : ROW_Imrecv, large);
	int code;

	if (row == ROW_Recv)
		code = ((int (*)(word, word, word, word, word, word, char *))start)(a[0], a[1], a[2], a[3], a[4], a[5],
		                                                                    request);
	else
		code = ((int (*)(word, word, word, word, char *))start)(a[0], a[1], a[2], a[3], request);
	return code != 0 ? code : request_finish(request, a[row == ROW_Recv ? 6 : 4]);
}

static int poll_probe(const struct loop *loop, bool *ret_done)
{
	int (*probe)(word, word, word, int *, struct status *) =
	        (int (*)(word, word, word, int *, struct status *))original(ROW_Iprobe, false);
	int flag = 0, code = probe(loop->arguments[0], loop->arguments[1], loop->arguments[2], &flag, loop->status);

	*ret_done = flag;
	return code;
}

static int poll_mprobe(const struct loop *loop, bool *ret_done)
{
	int (*probe)(word, word, word, int *, word, word) =
	        (int (*)(word, word, word, int *, word, word))original(ROW_Improbe, false);
	const word *a = loop->arguments;
	int flag = 0, code = probe(a[0], a[1], a[2], &flag, a[3], a[4]);

	*ret_done = flag;
	return code;
}

/*
 * Waits by an Ibarrier before a collective, if the arguments that are the same on every rank allow it. All ranks are
 * there when the collective itself begins: its time is transfer, not waiting, and does not count as a wait.
 */
static void barrier_await(enum call_row row, bool large, const word *a)
{
	int (*start)(word, char *) = (int (*)(word, char *))original(ROW_Ibarrier, false);
	bool gathers = row == ROW_Allgather || row == ROW_Alltoall;
	word comm = a[row == ROW_Barrier ? 0 : gathers ? 6 : 5], count = row == ROW_Barrier ? 1 : a[gathers ? 4 : 2];
	_Alignas(8) char request[8] = {0};
	struct status unused;
	int inter = 1;

	if ((large ? (int64_t)count : (int)count) <= 0 || abi.test_inter(comm, &inter) != 0 || inter)
		return;
	if (start(comm, request) == 0)
		request_finish(request, (word)&unused);
	wait_self.kind = CALL_NONE;
}

/* Returns true if another tool behind us has a function of its own for MPI_X, so that MPI_X and PMPI_X differ. */
static bool has_tool(enum call_row row)
{
	size_t index = (size_t)row * CALL_NAMES;

	return next_get(index + NAME_MPI) != next_get(index + NAME_PMPI);
}

int64_t prewait(enum call_row row, enum call_name name, const word *arguments)
{
	bool large = name == NAME_MPI_LARGE || name == NAME_PMPI_LARGE;
	struct status status;
	struct loop loop = {.poll = poll_probe, .arguments = arguments, .status = &status};

	if (PREWAIT_BARRIER(row)) {
		barrier_await(row, large, arguments);
	} else if (PREWAIT_REQUEST(row)) {
		requests_await(row, arguments);
	} else if (row == ROW_Probe) {
		loop_run(&loop);
	} else if (!has_tool(row)) {
		loop.poll = poll_mprobe;
		return row == ROW_Mprobe ? loop_run(&loop) : receive(row, large, arguments);
	}
	return PREWAIT_NOT_DONE;
}

/* Finds the facts of the MPI's ABI that loops need. Returns false if the MPI is unknown. */
static bool abi_find(void)
{
	static const word nulls[] = {[MPIWAIT_FAMILY_MPICH] = 0x2c000000, [MPIWAIT_FAMILY_ABI] = 0x180};
	enum mpiwait_family family = next_family();

	if (family == MPIWAIT_FAMILY_UNKNOWN)
		return false;
	abi.stride = family == MPIWAIT_FAMILY_MPICH ? sizeof(uint32_t) : sizeof(word);
	abi.request_null = family == MPIWAIT_FAMILY_OPENMPI ? (word)next_variable("ompi_request_null") : nulls[family];
	abi.test_inter = (int (*)(word, int *))next_symbol("PMPI_Comm_test_inter");
	return true;
}

void prewait_start(void)
{
	if (!abi_find())
		return;
	for (uint32_t row = 0; row < CALL_ROWS; row++)
		if (PREWAIT_CAN(row) && !PREWAIT_BARRIER(row))
			watch_offer((enum call_row)row, PROCESS_PREWAITS);
	if (idle.probes_spin) {
		watch_begin(ROW_Probe);
		watch_begin(ROW_Mprobe);
	}
	for (uint32_t row = 0; row < CALL_ROWS && process.config.ibarrier && abi.test_inter; row++)
		if (PREWAIT_BARRIER(row))
			watch_table[row].before = PROCESS_PREWAITS;
}
