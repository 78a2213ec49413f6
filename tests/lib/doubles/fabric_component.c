/*
 * A component of an MPI that links libfabric and is loaded with local symbols: offers what fi_fabric is to it.
 */
#include "tests/lib/doubles/fake_fabric.h"

int fi_fabric(void *attributes, struct fabric_object **ret_fabric, void *context);
int older_fabric(void *attributes, struct fabric_object **ret_fabric, void *context);
int fi_fabric2(void *info, struct fabric_object **ret_fabric, uint64_t flags, void *context);
extern const struct fake_entry component_entry;

__asm__(".symver older_fabric, fi_fabric@FABRIC_1.0");

/* Prevents a tail call, so that the caller is this component. */
#define RETURN(call)                       \
	int code = call;                   \
	__asm__ volatile("" ::: "memory"); \
	return code

static int call_fabric(void *attributes, struct fabric_object **ret_fabric, void *context)
{
	RETURN(fi_fabric(attributes, ret_fabric, context));
}

static int call_fabric2(void *info, struct fabric_object **ret_fabric, uint64_t flags, void *context)
{
	RETURN(fi_fabric2(info, ret_fabric, flags, context));
}

static int call_older(void *attributes, struct fabric_object **ret_fabric, void *context)
{
	RETURN(older_fabric(attributes, ret_fabric, context));
}

static int jump_fabric(void *attributes, struct fabric_object **ret_fabric, void *context)
{
	return fi_fabric(attributes, ret_fabric, context);
}

const struct fake_entry component_entry = {call_fabric, jump_fabric, call_older, call_fabric2, &fake_fabric};
