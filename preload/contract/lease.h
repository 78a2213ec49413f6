/*
 * The lease: how a rank asks slurmstepd for its core's frequency, and how it gets the answer.
 *
 * A request is a word in the stats segment, one for each CPU of the node. The rank writes it. An answer is a word on
 * the board, also one for each CPU. The board is a memfd of root's that tasks can only read. A rank rings by FUTEX_WAKE
 * on the board's bell, and waits for an answer by FUTEX_WAIT on the answer's word: neither needs to write to the board.
 * So a task can send nothing to root, and root waits for no lock of a task's. Root may miss a ring in the moment in
 * which it falls asleep. Root therefore reads the requests each MPIWAIT_LEASE_POLL_NS while a core is low, and a rank
 * that waits rings again.
 *
 * A rank finds segment and board by number, device and inode, or opens them again through /proc/<task>/fd, because the
 * ranks of mpirun have no inherited descriptors. An eventfd cannot be opened so.
 */
#pragma once

#include <stdint.h>

#define MPIWAIT_BOARD_MAGIC 0x324c574du /* "MWL2" in memory */

/* Root restores a core's frequency if nobody has asked for the low frequency again for HOLD; a rank asks each RENEW. */
#define MPIWAIT_LEASE_HOLD_NS  UINT64_C(1000000000)
#define MPIWAIT_LEASE_RENEW_NS UINT64_C(250000000)
#define MPIWAIT_LEASE_POLL_NS  UINT64_C(10000000)

enum mpiwait_lease_verb { MPIWAIT_LEASE_LOW = 1, MPIWAIT_LEASE_RESTORE };

enum mpiwait_lease_answer {
	MPIWAIT_LEASE_DONE,      /* the core has the frequency that was asked for */
	MPIWAIT_LEASE_NOT_YOURS, /* the core is not granted to the thread's task */
	MPIWAIT_LEASE_NOT_NOW,   /* the thread is bound to no single core, or a thread of its process runs there too */
	MPIWAIT_LEASE_BUSY,      /* another process of the task has the core's lease */
	MPIWAIT_LEASE_OVER       /* the lease of the core has ended */
};

/*
 * Returns a request: serial in bits 0 to 31, the thread's number in 32 to 53, the verb in 54 to 63. 0 means that
 * nothing was asked.
 */
static inline uint64_t mpiwait_lease_request(uint32_t verb, uint32_t tid, uint32_t serial)
{
	return (uint64_t)verb << 54 | (uint64_t)(tid & 0x3fffff) << 32 | serial;
}

static inline uint32_t mpiwait_lease_serial(uint64_t word)
{
	return (uint32_t)word;
}

static inline uint32_t mpiwait_lease_tid(uint64_t request)
{
	return (uint32_t)(request >> 32) & 0x3fffff;
}

static inline uint32_t mpiwait_lease_verb(uint64_t request)
{
	return (uint32_t)(request >> 54);
}

/*
 * An answer has the request's serial in bits 0 to 31, on which the rank waits, and the answer in 32 to 39. Bits 40 to
 * 63 count the changes of the core's frequency so far, modulo 2^24.
 */
#define MPIWAIT_LEASE_CHANGES_MASK 0xffffffu

static inline uint64_t mpiwait_lease_reply(uint32_t serial, uint32_t answer, uint32_t changes)
{
	return (uint64_t)(changes & MPIWAIT_LEASE_CHANGES_MASK) << 40 | (uint64_t)(answer & 0xff) << 32 | serial;
}

static inline uint32_t mpiwait_lease_answer(uint64_t reply)
{
	return (uint32_t)(reply >> 32) & 0xff;
}

static inline uint32_t mpiwait_lease_changes(uint64_t reply)
{
	return (uint32_t)(reply >> 40);
}

struct mpiwait_board {
	uint32_t magic;
	uint32_t bell; /* futex on which root sleeps; its value never changes */
	uint32_t cpus; /* number of replies; the index of a reply is the number of its CPU */
	uint32_t over; /* not 0: nobody answers any more */
	uint32_t reserved[12];
	uint64_t reply[];
};

_Static_assert(sizeof(struct mpiwait_board) == 64, "layout of the board");

static inline uint64_t mpiwait_board_size(uint32_t cpus)
{
	return sizeof(struct mpiwait_board) + (uint64_t)cpus * sizeof(uint64_t);
}
