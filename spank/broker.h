/*
 * Broker: the thread in slurmstepd that obeys the tasks' leases (preload/lease.h).
 *
 * The other ends are the user's: they may send anything, flood, and never read. A packet is answered without waiting;
 * each lease may speak a thousand times a second, and is not listened to until then; what is no request ends the lease;
 * and whoever is not the task, by the kernel's word, is not heard at all.
 */
#ifndef MPIWAIT_SPANK_BROKER_H
#define MPIWAIT_SPANK_BROKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/lease.h"
#include "spank/error.h"

/* What the broker decides nothing about. Called by its thread, one at a time. */
struct broker_calls {
	enum mpiwait_lease_answer (*lower)(void *context, uint32_t task, pid_t process,
	                                   const struct mpiwait_lease_request *request, uint32_t *ret_changes);
	enum mpiwait_lease_answer (*restore)(void *context, uint32_t task, const struct mpiwait_lease_request *request,
	                                     uint32_t *ret_changes);
	void (*drop)(void *context, uint32_t task);         /* the lease has ended */
	uint64_t (*expire)(void *context, uint64_t now_ns); /* when to call again, UINT64_MAX: after the next lower */
};

struct broker_lease {
	int descriptor; /* our end, with SO_PASSCRED; -1: none. It becomes the broker's */
	pid_t task;     /* its process; 0: none */
	uid_t uid;
};

struct broker;

/* Starts the thread. Returns 0 with *ret_broker to be ended by broker_stop, or negative errno. */
int broker_start(const struct broker_lease leases[], uint32_t count, const struct broker_calls *calls, void *context,
                 struct broker **ret_broker, struct error *error);

/* Ends the thread and closes the leases, without calling drop. broker may be NULL. */
void broker_stop(struct broker *broker);

#endif
