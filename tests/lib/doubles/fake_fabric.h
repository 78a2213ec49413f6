/*
 * A double of libfabric: what a driver tells it, and what it tells the driver. Its types are those of
 * preload/idle/fabric.h, which a test compares with libfabric's own.
 *
 * Objects come from a few places, the one that was freed last first, so that addresses come again. Each table ends
 * where a page ends, before one that cannot be read.
 */
#pragma once

#include <stdbool.h>

#include "preload/idle/fabric.h"

enum fake_kind { FAKE_FABRIC, FAKE_DOMAIN, FAKE_QUEUE, FAKE_COUNTER, FAKE_COMMON, FAKE_KINDS };

struct fake_fabric {
	size_t said[FAKE_KINDS];             /* what the tables of objects that are opened next say of their size */
	struct fabric_object *(*open)(void); /* libfabric opens a fabric for itself, past its own interface */
	int (*close)(struct fabric_object *object);         /* likewise */
	struct fabric_table *(*table)(enum fake_kind kind); /* another one of the same functions */
	ssize_t found;                                      /* what reads of queues say */
	uint64_t count;                                     /* what counters say */
	int refusal;                                        /* what closing says */
	bool lies_within;              /* tables of queues lie in this library, as those of real providers do */
	fabric_function *opens_inside; /* a fabric or a domain opens a fabric for itself first, by that; NULL: none */
	const struct fabric_object *last; /* what was read last */
	bool shares;                      /* all who open a fabric have the same one */
	struct fabric_object *inside;     /* what was opened inside */
	long reads, opened, closed, older;
};

extern struct fake_fabric fake_fabric;

/* A component that has libfabric in its scope offers: fi_fabric, which is called, or jumped to; that of version 1.0;
 * fi_fabric2.
 */
struct fake_entry {
	fabric_function *fabric, *jump, *older;
	fabric2_function *fabric2;
	struct fake_fabric *fake;
};
