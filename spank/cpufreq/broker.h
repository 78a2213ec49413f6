/*
 * Broker: the thread in slurmstepd that serves the ranks' requests for a core's frequency (preload/contract/lease.h).
 * Only this thread runs the callbacks, so their data needs no lock. Other threads of slurmstepd give it orders, and so
 * may the short-lived child that shares slurmstepd's memory, in which Slurm's contain_spank runs SPANK callbacks.
 *
 * A request is a word that the user's program writes: it may be forged, torn, or changed without end. The thread only
 * reads requests, by pread: a write to the segment, or taking anything that a task sends, could make root wait for
 * ever. It answers on the board, a memfd of root's. Tasks can read, map and wait on the board but not write to it: the
 * only writable mapping is the broker's, and no descriptor is writable.
 *
 * Tasks that ring the bell wake the thread at most a thousand times a second. Serving LOW requests, the search for them
 * included, takes at most a fortieth of a CPU, all steps of the job together. Before each request the thread obeys
 * orders and restores cores whose lease expired; then it serves RESTORE requests, then LOW requests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/contract/lease.h"
#include "spank/base/error.h"

/* Policy callbacks. The broker schedules them; all run on its thread, one at a time. */
struct broker_calls {
	/*
	 * Lower and restore the core of a CPU, any one of the node, and return the answer for the rank. *ret_changes is
	 * how often that core's frequency was changed so far.
	 */
	enum mpiwait_lease_answer (*lower)(void *context, uint32_t cpu, pid_t thread, uint32_t *ret_changes);
	enum mpiwait_lease_answer (*restore)(void *context, uint32_t cpu, uint32_t *ret_changes);
	/* Restores the cores whose lease expired. Returns when to call it again; UINT64_MAX: no core is low. */
	uint64_t (*expire)(void *context, uint64_t now_ns);
	/* Does what was ordered. Returns false if the thread has nothing more to do and shall end. */
	bool (*obey)(void *context);
};

struct broker_config {
	const struct broker_calls *calls;
	void *context;
	uint32_t cpus; /* number of the node's CPUs: each has a request's word, and a reply on the board */
	int segment;   /* descriptor of the stats segment, copied; -1: no requests are read */
	int directory; /* the job's directory, in which its steps share a ration; -1: this step has its own */
};

struct broker;

/* Makes the board and starts the thread. Returns 0, with *ret_broker for broker_end to free, or -errno. */
int broker_start(const struct broker_config *config, struct broker **ret_broker, struct error *error);

/* Returns the board's descriptor: read-only, close-on-exec, owned by the broker. */
int broker_board(const struct broker *broker);

/*
 * Orders the thread to call obey, and waits for that, most_ns at most. Returns true if obey has run; if not, it may
 * still run at any time.
 */
bool broker_order(struct broker *broker, uint64_t most_ns);

/*
 * Waits for the thread's end, most_ns at most, and frees the broker. The caller calls it after obey has returned false.
 * broker may be NULL. Returns false if the thread has not ended: the caller must then never free what the thread uses.
 * The broker, and the shared object whose code the thread runs, stay in memory.
 */
bool broker_end(struct broker *broker, uint64_t most_ns);
