/*
 * The lease: how a rank asks slurmstepd for its core's frequency, and how it hears the answer.
 *
 * A request is a word in the stats segment, one for each CPU of the node, which the rank writes. An answer is a word on
 * the board, one for each CPU too: a memfd of root's that tasks can only read. To ring is FUTEX_WAKE on the board's
 * bell, and to wait for an answer is FUTEX_WAIT on its word: neither needs to write there. So there is nothing that a
 * task could send to root, and no lock of its own that root could wait for. A ring may be missed in the moment in which
 * root falls asleep: root looks each MPIWAIT_LEASE_LOOK_NS anyway while a core is low, and who waits rings again.
 *
 * Both are found by number, device and inode, or opened again through /proc/<task>/fd, which an eventfd cannot be: the
 * ranks of mpirun have no inherited descriptors.
 */
#pragma once

#include <stdint.h>

#define MPIWAIT_BOARD_MAGIC 0x324c574du /* "MWL2" in memory */

/* A core comes back by itself when its low frequency was not asked for again for HOLD; a rank asks each RENEW. */
#define MPIWAIT_LEASE_HOLD_NS  UINT64_C(1000000000)
#define MPIWAIT_LEASE_RENEW_NS UINT64_C(250000000)
#define MPIWAIT_LEASE_LOOK_NS  UINT64_C(10000000)

enum mpiwait_lease_verb { MPIWAIT_LEASE_LOW = 1, MPIWAIT_LEASE_RESTORE };

enum mpiwait_lease_answer {
	MPIWAIT_LEASE_DONE,      /* the core is as it was asked to be */
	MPIWAIT_LEASE_NOT_YOURS, /* that core is not granted to the thread's task */
	MPIWAIT_LEASE_NOT_NOW,   /* the thread may run elsewhere too, or another thread of the process runs there */
	MPIWAIT_LEASE_BUSY,      /* another process of the task has the core's lease */
	MPIWAIT_LEASE_OVER       /* the lease of that core has ended */
};

/* A request: serial in bits 0 to 31, the thread's number in 32 to 53, the verb in 54 to 63. 0: nothing was asked. */
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
 * An answer: the request's serial in bits 0 to 31, on which the rank waits; the answer in 32 to 39; in 40 to 63 how
 * often the core's frequency was changed so far, of which the last 24 bits.
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
	uint32_t bell; /* never changes */
	uint32_t cpus; /* how many replies there are, by number of the CPU */
	uint32_t over; /* nobody answers any more */
	uint32_t reserved[12];
	uint64_t reply[];
};

_Static_assert(sizeof(struct mpiwait_board) == 64, "layout of the board");

static inline uint64_t mpiwait_board_size(uint32_t cpus)
{
	return sizeof(struct mpiwait_board) + (uint64_t)cpus * sizeof(uint64_t);
}
