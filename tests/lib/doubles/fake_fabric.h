/*
 * A double of libfabric, controlled by the driver through fake_fabric. Its types are those of preload/idle/fabric.h,
 * which a test compares with libfabric's own.
 *
 * Objects come from a few slots, the one freed last first, so that addresses come again. Each table ends where a page
 * ends, before a page that cannot be read.
 */
#pragma once

#include <stdbool.h>

#include "preload/idle/fabric.h"

enum fake_kind { FAKE_FABRIC, FAKE_DOMAIN, FAKE_QUEUE, FAKE_COUNTER, FAKE_COMMON, FAKE_KINDS };

struct fake_fabric {
	size_t said[FAKE_KINDS]; /* size that tables of objects opened next claim to have; 0: the real size */
	struct fabric_object *(*open)(void);        /* opens a fabric for libfabric itself, past its own interface */
	int (*close)(struct fabric_object *object); /* closes an object, past the interface */
	struct fabric_table *(*table)(enum fake_kind kind); /* returns another table with the same functions */
	ssize_t found;                                      /* result of reads of queues */
	uint64_t count;                                     /* result of reads of counters */
	int refusal;                                        /* result of closing */
	bool lies_within; /* new tables lie in this library, as those of real providers do */
	fabric_function
	        *opens_inside; /* the next open of a fabric or domain first opens a fabric with it; NULL: none */
	const struct fabric_object *last; /* object read last */
	bool shares;                      /* true if all opens of a fabric return the same one */
	struct fabric_object *inside;     /* the fabric opened inside another open */
	long reads, opened, closed, older;
};

extern struct fake_fabric fake_fabric;

/* The functions of a component that has libfabric in its scope: fi_fabric, called or jumped to; its version 1.0;
 * fi_fabric2. */
struct fake_entry {
	fabric_function *fabric, *jump, *older;
	fabric2_function *fabric2;
	struct fake_fabric *fake;
};
