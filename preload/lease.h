/*
 * The lease: what a rank says to slurmstepd's broker, and what it hears. With stats.h, one of the two files that both
 * halves include: a protocol has two ends.
 *
 * Over a SOCK_SEQPACKET pair, one request in one packet of a fixed size, one reply to each that is heard. A task is
 * never obliged to read: a reply for which there is no room is dropped. The broker knows who asks from the kernel
 * (SCM_CREDENTIALS), not from the packet; a packet that is no request costs the task its lease.
 */
#ifndef MPIWAIT_PRELOAD_LEASE_H
#define MPIWAIT_PRELOAD_LEASE_H

#include <stdint.h>

#define MPIWAIT_LEASE_MAGIC 0x314c574du /* "MWL1" in memory */

/* A core comes back by itself when its low frequency was not asked for again for HOLD; a rank asks each RENEW. */
#define MPIWAIT_LEASE_HOLD_NS  UINT64_C(1000000000)
#define MPIWAIT_LEASE_RENEW_NS UINT64_C(250000000)

enum mpiwait_lease_verb { MPIWAIT_LEASE_LOW = 1, MPIWAIT_LEASE_RESTORE };

enum mpiwait_lease_answer {
	MPIWAIT_LEASE_DONE,      /* the core is as it was asked to be */
	MPIWAIT_LEASE_NOT_YOURS, /* that core is not in this lease */
	MPIWAIT_LEASE_NOT_NOW,   /* the thread may run elsewhere too, or another thread of the process runs there */
	MPIWAIT_LEASE_BUSY,      /* another process of the task has the lease */
	MPIWAIT_LEASE_OVER       /* the lease of that core has ended */
};

struct mpiwait_lease_request {
	uint32_t magic;
	uint32_t verb;
	uint32_t cpu;    /* any CPU of the core */
	uint32_t tid;    /* of the thread that waits there */
	uint32_t serial; /* comes back in the reply */
};

struct mpiwait_lease_reply {
	uint32_t magic;
	uint32_t serial;
	uint32_t answer;
	uint32_t changes; /* of frequencies that the request has caused */
};

_Static_assert(sizeof(struct mpiwait_lease_request) == 20, "layout of the lease's packets");
_Static_assert(sizeof(struct mpiwait_lease_reply) == 16, "layout of the lease's packets");

#endif
