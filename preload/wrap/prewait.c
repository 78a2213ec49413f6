/* The loops before calls. The invariant stands in prewait.h. */
#include "preload/wrap/prewait.h"

#include <stddef.h>

#include "preload/idle/idle.h"
#include "preload/mpi/next.h"
#include "preload/process/process.h"
#include "preload/wait/act.h"
#include "preload/wait/wait.h"
#include "preload/wait/watch.h"

typedef uintptr_t word;

/* Memory for a status: twice the longest MPI_Status; never read. */
struct status {
	uint64_t words[8];
};

static int (*test_inter)(word comm, int *flag);

/* A loop over a call that asks for what the open call waits for. */
struct loop {
	int (*poll)(const struct loop *loop, bool *ret_done); /* polls once; returns an MPI error code */
	const word *arguments;                                /* the open call's */
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

static int poll_wait(const struct loop *loop, bool *ret_done)
{
	int (*test)(word, int *, word) = (int (*)(word, int *, word))original(ROW_Test, false);
	const word *a = loop->arguments;
	int flag = 0, code = test(a[0], &flag, a[1]);

	*ret_done = flag;
	return code;
}

static int poll_all(const struct loop *loop, bool *ret_done)
{
	int (*test)(word, word, int *, word) = (int (*)(word, word, int *, word))original(ROW_Testall, false);
	const word *a = loop->arguments;
	int flag = 0, code = test(a[0], a[1], &flag, a[2]);

	*ret_done = flag;
	return code;
}

static int poll_any(const struct loop *loop, bool *ret_done)
{
	int (*test)(word, word, word, int *, word) =
	        (int (*)(word, word, word, int *, word))original(ROW_Testany, false);
	const word *a = loop->arguments;
	int flag = 0, code = test(a[0], a[1], a[2], &flag, a[3]);

	*ret_done = flag;
	return code;
}

/* The number of complete requests is MPI_UNDEFINED if none is active. */
static int poll_some(const struct loop *loop, bool *ret_done)
{
	int (*test)(word, word, word, word, word) =
	        (int (*)(word, word, word, word, word))original(ROW_Testsome, false);
	const word *a = loop->arguments;
	int code = test(a[0], a[1], a[2], a[3], a[4]);

	*ret_done = code == 0 && *(const int *)a[2] != 0;
	return code;
}

/* Waits for a request of ours and completes it with the status. Returns the MPI error code. */
static int request_finish(char request[8], word status)
{
	const word arguments[] = {(word)request, status};
	struct loop loop = {.poll = poll_wait, .arguments = arguments};

	return loop_run(&loop);
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
	struct status unused;
	int flag = 0, code = probe(loop->arguments[0], loop->arguments[1], loop->arguments[2], &flag, &unused);

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
	struct status unused = {{0}};
	int inter = 1;

	if ((large ? (int64_t)count : (int)count) <= 0 || test_inter(comm, &inter) != 0 || inter)
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

/* Loops whose last poll does the call's work. */
static const struct twin {
	enum call_row row;
	int (*poll)(const struct loop *loop, bool *ret_done);
} twins[] = {
        {ROW_Wait, poll_wait},     {ROW_Waitall, poll_all},   {ROW_Waitany, poll_any},
        {ROW_Waitsome, poll_some}, {ROW_Mprobe, poll_mprobe},
};

/* Does the work of the open call. Returns the MPI error code. */
static int replace(enum call_row row, bool large, const word *arguments)
{
	for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++)
		if (twins[i].row == row)
			return loop_run(&(struct loop){.poll = twins[i].poll, .arguments = arguments});
	return receive(row, large, arguments);
}

/* Polls before Probe. Returns the MPI error code of a poll, which has called the error handler, or PREWAIT_NOT_DONE. */
static int64_t probe_await(const word *arguments)
{
	int code = loop_run(&(struct loop){.poll = poll_probe, .arguments = arguments});

	return code != 0 ? code : PREWAIT_NOT_DONE;
}

int64_t prewait(enum call_row row, enum call_name name, const word *arguments)
{
	bool large = name == NAME_MPI_LARGE || name == NAME_PMPI_LARGE;

	if (row == ROW_Probe)
		return probe_await(arguments);
	if (!PREWAIT_BARRIER(row))
		return replace(row, large, arguments);
	barrier_await(row, large, arguments);
	return PREWAIT_NOT_DONE;
}

void prewait_start(void)
{
	if (next_family() == MPIWAIT_FAMILY_UNKNOWN)
		return;
	test_inter = (int (*)(word, int *))next_symbol("PMPI_Comm_test_inter");
	for (uint32_t row = 0; row < CALL_ROWS; row++)
		if (PREWAIT_CAN(row) && !PREWAIT_BARRIER(row) && (row == ROW_Probe || !has_tool(row)))
			watch_offer((enum call_row)row, PROCESS_PREWAITS);
	if (idle.probes_spin) {
		watch_begin(ROW_Probe);
		watch_begin(ROW_Mprobe);
	}
	for (uint32_t row = 0; row < CALL_ROWS && process.config.ibarrier && test_inter; row++)
		if (PREWAIT_BARRIER(row))
			watch_table[row].before = PROCESS_PREWAITS;
}
