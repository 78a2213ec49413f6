/*
 * A double of an MPI whose blocking calls spin without ever making an idle call. It is built once per ABI: HANDLE is
 * the type of a request, REQUEST_NULL and STATUS_BYTES are that ABI's.
 *
 * Arguments say how long a call blocks:
 *     Irecv, Recv (buffer, microseconds, ...)   the message arrives that much later
 *     Probe, Iprobe, Mprobe, Improbe (source, microseconds, ...)   the message arrives that long after the first call
 *     Ibarrier (comm), Barrier and the collectives (comm)   `comm` microseconds; an odd one is an intercommunicator
 *     Barrier and the collectives   besides until the last rank comes, at fake_last_us, and $FAKE_OWN_US longer
 *     Comm_size (comm)   returns 1 for FAKE_ALONE, otherwise $FAKE_RANKS
 *
 * Probe, Iprobe from FAKE_NOBODY fail: each failure calls the program's error handler, and is an 'e' in fake_log.
 *
 * fake_log has a letter per call: it shows a private call that was made without its status memory, or in the wrong
 * order. Calls that only test write the byte $FAKE_STATUS into a status: no caller may depend on it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALIAS(name) __attribute__((weak, alias(#name)))
#define REQUESTS    4096
#define FAKE_ALONE  4 /* a communicator */
#define FAKE_NOBODY 9 /* a rank that does not exist */

#define FAKE_ERR_RANK 6

typedef uintptr_t word;

char fake_log[64];
extern uint64_t fake_last_us;
uint64_t fake_last_us; /* when the last rank comes, in us of CLOCK_MONOTONIC; 0: all ranks are there */

static uint64_t ready_at[REQUESTS]; /* when a request completes, by handle; 0: free */
static uint64_t message_at;

#ifdef OPENMPI
char ompi_mpi_comm_world[256];
char ompi_request_null[256];
#endif

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void spin_until(uint64_t end)
{
	while (now_us() < end)
		continue;
}

static void log_call(char letter)
{
	size_t length = strlen(fake_log);

	if (length + 1 < sizeof(fake_log))
		fake_log[length] = letter;
}

static void status_set(void *status, int byte)
{
	if ((word)status > 1)
		memset(status, byte, STATUS_BYTES);
}

static void status_fill(void *status)
{
	status_set(status, 0xff);
}

static void status_spoil(void *status)
{
	const char *byte = getenv("FAKE_STATUS");

	status_set(status, byte ? atoi(byte) : 0xff);
}

static HANDLE request_make(word microseconds)
{
	word handle = 1;

	while (ready_at[handle] != 0)
		handle++;
	ready_at[handle] = now_us() + microseconds;
	return (HANDLE)handle;
}

static void request_end(HANDLE *request, void *status)
{
	if (*request == REQUEST_NULL)
		return;
	spin_until(ready_at[(word)*request]);
	ready_at[(word)*request] = 0;
	*request = REQUEST_NULL;
	status_fill(status);
}

int PMPI_Init(int *, char ***);
int PMPI_Init(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return 0;
}
int MPI_Init(int *, char ***) ALIAS(PMPI_Init);

int PMPI_Initialized(int *);
int PMPI_Initialized(int *flag)
{
	*flag = 1;
	return 0;
}

int PMPI_Finalize(void);
int PMPI_Finalize(void)
{
	return 0;
}
int MPI_Finalize(void) ALIAS(PMPI_Finalize);

int PMPI_Wait(HANDLE *, void *);
int PMPI_Wait(HANDLE *request, void *status)
{
	request_end(request, status);
	return 0;
}
int MPI_Wait(HANDLE *, void *) ALIAS(PMPI_Wait);

int PMPI_Waitall(int, HANDLE *, void *);
int PMPI_Waitall(int count, HANDLE *requests, void *statuses)
{
	(void)statuses;
	for (int i = 0; i < count; i++)
		request_end(&requests[i], 0);
	return 0;
}
int MPI_Waitall(int, HANDLE *, void *) ALIAS(PMPI_Waitall);

/* Returns the index of a request that is complete, -1 if none is yet. */
static int find_ready(int count, const HANDLE *requests)
{
	for (int i = 0; i < count; i++)
		if (requests[i] != REQUEST_NULL && now_us() >= ready_at[(word)requests[i]])
			return i;
	return -1;
}

static int first_ready(int count, const HANDLE *requests)
{
	int index = -1;

	while (index < 0)
		index = find_ready(count, requests);
	return index;
}

int PMPI_Waitany(int, HANDLE *, int *, void *);
int PMPI_Waitany(int count, HANDLE *requests, int *index, void *status)
{
	*index = first_ready(count, requests);
	request_end(&requests[*index], status);
	return 0;
}
int MPI_Waitany(int, HANDLE *, int *, void *) ALIAS(PMPI_Waitany);

int PMPI_Waitsome(int, HANDLE *, int *, int *, void *);
int PMPI_Waitsome(int count, HANDLE *requests, int *some, int *indices, void *statuses)
{
	(void)statuses;
	indices[0] = first_ready(count, requests);
	request_end(&requests[indices[0]], 0);
	*some = 1;
	return 0;
}
int MPI_Waitsome(int, HANDLE *, int *, int *, void *) ALIAS(PMPI_Waitsome);

int PMPI_Testany(int, HANDLE *, int *, int *, void *);
int PMPI_Testany(int count, HANDLE *requests, int *index, int *flag, void *status)
{
	int found = find_ready(count, requests);

	*flag = found >= 0;
	if (*flag) {
		*index = found;
		request_end(&requests[found], status);
	} else {
		status_spoil(status);
	}
	return 0;
}

int PMPI_Test(HANDLE *, int *, void *);
int PMPI_Test(HANDLE *request, int *flag, void *status)
{
	int index;

	return PMPI_Testany(1, request, &index, flag, status);
}

int PMPI_Testall(int, HANDLE *, int *, void *);
int PMPI_Testall(int count, HANDLE *requests, int *flag, void *statuses)
{
	for (int i = 0; i < count; i++)
		if (requests[i] != REQUEST_NULL && now_us() < ready_at[(word)requests[i]]) {
			*flag = 0;
			return 0;
		}
	*flag = 1;
	return PMPI_Waitall(count, requests, statuses);
}

int PMPI_Testsome(int, HANDLE *, int *, int *, void *);
int PMPI_Testsome(int count, HANDLE *requests, int *some, int *indices, void *statuses)
{
	int flag;

	(void)statuses;
	PMPI_Testany(count, requests, indices, &flag, NULL);
	*some = flag;
	return 0;
}

int PMPI_Irecv(word, word, word, word, word, word, HANDLE *);
int PMPI_Irecv(word buffer, word microseconds, word type, word source, word tag, word comm, HANDLE *request)
{
	(void)buffer, (void)type, (void)source, (void)tag, (void)comm;
	log_call('i');
	*request = request_make(microseconds);
	return 0;
}
int MPI_Irecv(word, word, word, word, word, word, HANDLE *) ALIAS(PMPI_Irecv);

int PMPI_Irecv_c(word, word, word, word, word, word, HANDLE *);
int PMPI_Irecv_c(word buffer, word microseconds, word type, word source, word tag, word comm, HANDLE *request)
{
	int code = PMPI_Irecv(buffer, microseconds, type, source, tag, comm, request);

	log_call('c');
	return code;
}

int PMPI_Recv(word, word, word, word, word, word, void *);
int PMPI_Recv(word buffer, word microseconds, word type, word source, word tag, word comm, void *status)
{
	(void)buffer, (void)type, (void)source, (void)tag, (void)comm;
	log_call('R');
	spin_until(now_us() + microseconds);
	status_fill(status);
	return 0;
}
int MPI_Recv(word, word, word, word, word, word, void *) ALIAS(PMPI_Recv);
int PMPI_Recv_c(word, word, word, word, word, word, void *) ALIAS(PMPI_Recv);
int MPI_Recv_c(word, word, word, word, word, word, void *) ALIAS(PMPI_Recv);

int PMPI_Iprobe(word, word, word, int *, void *);
int PMPI_Iprobe(word source, word microseconds, word comm, int *flag, void *status)
{
	(void)comm;
	if (source == FAKE_NOBODY) {
		log_call('e');
		return FAKE_ERR_RANK;
	}
	if (message_at == 0)
		message_at = now_us() + microseconds;
	*flag = now_us() >= message_at;
	status_spoil(status);
	return 0;
}

int PMPI_Probe(word, word, word, void *);
int PMPI_Probe(word source, word microseconds, word comm, void *status)
{
	int flag = 0;

	log_call('P');
	while (!flag)
		if (PMPI_Iprobe(source, microseconds, comm, &flag, status) != 0)
			return FAKE_ERR_RANK;
	message_at = 0;
	status_fill(status);
	return 0;
}
int MPI_Probe(word, word, word, void *) ALIAS(PMPI_Probe);

int PMPI_Improbe(word, word, word, int *, int *, void *);
int PMPI_Improbe(word source, word microseconds, word comm, int *flag, int *message, void *status)
{
	PMPI_Iprobe(source, microseconds, comm, flag, status);
	if (!*flag)
		return 0;
	log_call('m');
	message_at = 0;
	status_fill(status);
	*message = 4711;
	return 0;
}

int PMPI_Mprobe(word, word, word, int *, void *);
int PMPI_Mprobe(word source, word microseconds, word comm, int *message, void *status)
{
	int flag = 0;

	log_call('M');
	while (!flag)
		PMPI_Improbe(source, microseconds, comm, &flag, message, status);
	return 0;
}
int MPI_Mprobe(word, word, word, int *, void *) ALIAS(PMPI_Mprobe);

int PMPI_Ibarrier(word, HANDLE *);
int PMPI_Ibarrier(word comm, HANDLE *request)
{
	log_call('b');
	*request = request_make((word)(HANDLE)comm);
	return 0;
}

int PMPI_Comm_test_inter(word, int *);
int PMPI_Comm_test_inter(word comm, int *flag)
{
	*flag = comm % 2 == 1;
	return 0;
}

int PMPI_Comm_rank(word, int *);
int PMPI_Comm_rank(word comm, int *rank)
{
	(void)comm;
	*rank = 0;
	return 0;
}

int PMPI_Comm_size(word, int *);
int PMPI_Comm_size(word comm, int *size)
{
	const char *ranks = getenv("FAKE_RANKS");

	*size = (HANDLE)comm == FAKE_ALONE || !ranks ? 1 : atoi(ranks);
	return 0;
}

/* Waits until the last rank has come and its data has been passed on. */
static int meet(char letter)
{
	const char *own = getenv("FAKE_OWN_US");
	uint64_t now = now_us();

	log_call(letter);
	if (fake_last_us != 0)
		spin_until((now > fake_last_us ? now : fake_last_us) + (own ? (uint64_t)atoi(own) : 0));
	return 0;
}

/* These functions read no arguments, which lie in registers and on the caller's stack. */
#define MEET(name, letter)           \
	int PMPI_##name(void);       \
	int PMPI_##name(void)        \
	{                            \
		return meet(letter); \
	}                            \
	int MPI_##name(void) ALIAS(PMPI_##name);

MEET(Barrier, 'B')
MEET(Bcast, 'C')
MEET(Scan, 's')
MEET(Reduce, 'r')
MEET(Allreduce, 'A')
MEET(Allreduce_c, 'A')
MEET(Allgather, 'G')
MEET(Allgatherv, 'g')
MEET(Alltoall, 'T')
MEET(Alltoallv, 't')
MEET(Alltoallw, 'w')
MEET(Reduce_scatter, 'S')
MEET(Reduce_scatter_block, 'b')
MEET(Neighbor_alltoall, 'n')
