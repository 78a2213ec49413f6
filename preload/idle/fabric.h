/*
 * Fabric: the few types of libfabric that the hook ofi needs, as in every release since 1.5. The build needs no headers
 * of libfabric; a test compares these types with them.
 *
 * An object of libfabric begins with its class, its context and two tables of operations: a common one, and one of its
 * class. A table begins with its own size. Later releases append to tables.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FABRIC_FUNCTIONS 24u /* most functions of a table; libfabric 2.5 has 13 */

typedef void fabric_operation(void);

struct fabric_table {
	size_t bytes; /* size of the table, this field included */
	fabric_operation *function[FABRIC_FUNCTIONS];
};

enum { FABRIC_COMMON, FABRIC_OWN, FABRIC_TABLES };

/* The begin of struct fid_fabric, fid_domain, fid_cq and fid_cntr. */
struct fabric_object {
	size_t class;
	void *context;
	struct fabric_table *table[FABRIC_TABLES];
};

/* Indexes of functions in their tables. */
enum {
	FABRIC_CLOSE = 0,   /* struct fi_ops */
	FABRIC_DOMAIN = 0,  /* struct fi_ops_fabric */
	FABRIC_DOMAIN2 = 5, /* since 1.17 */
	FABRIC_CQ_OPEN = 1, /* struct fi_ops_domain */
	FABRIC_CNTR_OPEN = 4,
	FABRIC_READ = 0,     /* struct fi_ops_cq, fi_ops_cntr */
	FABRIC_READFROM = 1, /* struct fi_ops_cq */
};

/* Sizes of the tables of libfabric 1.0 in bytes. Callers rely on these, whatever size a table claims. */
enum {
	FABRIC_COMMON_LEAST = 40,
	FABRIC_FABRIC_LEAST = 40,
	FABRIC_DOMAIN_LEAST = 72,
	FABRIC_CQ_LEAST = 64,
	FABRIC_CNTR_LEAST = 48,
};

/* fi_fabric, and fi_fabric2 of libfabric 2.0. */
typedef int fabric_function(void *attributes, struct fabric_object **ret_fabric, void *context);
typedef int fabric2_function(void *info, struct fabric_object **ret_fabric, uint64_t flags, void *context);

/* fi_ops_fabric.domain, and fi_ops_domain.cq_open and cntr_open. */
typedef int fabric_open_function(struct fabric_object *from, void *attributes, struct fabric_object **ret_object,
                                 void *context);
typedef int fabric_domain2_function(struct fabric_object *fabric, void *info, struct fabric_object **ret_domain,
                                    uint64_t flags, void *context);
typedef ssize_t fabric_read_function(struct fabric_object *queue, void *buffer, size_t count);
typedef ssize_t fabric_readfrom_function(struct fabric_object *queue, void *buffer, size_t count, uint64_t *sources);
typedef uint64_t fabric_count_function(struct fabric_object *counter);
typedef int fabric_close_function(struct fabric_object *object);
