/*
 * Broker: the thread in slurmstepd that obeys the tasks' leases (preload/contract/lease.h), and the only one that uses
 * what the calls work on. Others in slurmstepd give it orders: also from a child that shares its memory and ends at
 * once, in which Slurm's contain_spank runs callbacks.
 *
 * The requests are words of the user's: they may be forged, torn and written without end. The thread only reads them,
 * by pread: a write there, or taking anything that a task sends, could be made to wait for ever. It answers on the
 * board, a memfd of root's that tasks can read, map and wait on, and cannot write: root alone has a mapping that
 * writes, and no descriptor that does.
 *
 * Rings wake it at most a thousand times a second, and what it does for tasks that ask to be slowed, looking for them
 * included, takes at most a fortieth of a CPU, all steps of the job together. Orders and expiry come first, before each
 * request; then what restores; then what slows.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "preload/contract/lease.h"
#include "spank/base/error.h"

/* What the broker decides nothing about. Called by its thread, one at a time. */
struct broker_calls {
	/* Of any CPU of the node. changes: of that core's frequency so far, likewise in restore. */
	enum mpiwait_lease_answer (*lower)(void *context, uint32_t cpu, pid_t thread, uint32_t *ret_changes);
	enum mpiwait_lease_answer (*restore)(void *context, uint32_t cpu, uint32_t *ret_changes);
	uint64_t (*expire)(void *context, uint64_t now_ns); /* when to call again, UINT64_MAX: nothing is low */
	bool (*obey)(void *context); /* does what was ordered; false: there is nothing more to do, ever */
};

struct broker_config {
	const struct broker_calls *calls;
	void *context;
	uint32_t cpus; /* of the node: each has a word, and a reply on the board */
	int segment;   /* -1: no requests are heard */
	int directory; /* of the job's state, whose steps share a ration; -1: this step has one of its own */
};

struct broker;

/* Makes the board and starts the thread. Returns 0 with *ret_broker to be ended by broker_end, or negative errno. */
int broker_start(const struct broker_config *config, struct broker **ret_broker, struct error *error);

/* The board: a descriptor for reading, close-on-exec, the broker's. */
int broker_board(const struct broker *broker);

/*
 * Has the thread obey, and waits until it has, most_ns at most. Returns whether it has; if not, it may still do so, at
 * any time.
 */
bool broker_order(struct broker *broker, uint64_t most_ns);

/*
 * Once obey has returned false: waits for the thread's end, most_ns at most, and frees. broker may be NULL.
 * Returns false where the thread has not ended: then what it uses, the broker too, is its own for good, and the object
 * that it runs in stays in memory.
 */
bool broker_end(struct broker *broker, uint64_t most_ns);
