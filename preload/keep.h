/*
 * Memory that a request still needs, kept until the request is gone.
 *
 * Only for arguments that were rewritten for an MPI without large counts (large.h). A request is gone when a call that
 * may complete it has changed the caller's handle. The first one kept makes keep_count positive for good; as long as it
 * is zero, which is everywhere but in such programs, nothing here costs more than one look at it.
 */
#ifndef MPIWAIT_PRELOAD_KEEP_H
#define MPIWAIT_PRELOAD_KEEP_H

#include <stdbool.h>
#include <stdint.h>

struct keep;

extern uint32_t keep_count;

static inline bool keep_any(void)
{
	return __builtin_expect(__atomic_load_n(&keep_count, __ATOMIC_RELAXED) != 0, 0);
}

/* A place for one more. NULL: no memory. */
struct keep *keep_new(void);

/* Gives it the memory, until the request at *request is gone; without a request, frees the memory now. */
void keep_begin(struct keep *keep, void *memory, const void *request);

/* Before a call that may complete requests, of that signature and with those arguments: notes the ones kept. */
void keep_look(const char *signature, const uintptr_t *arguments);

/* After it: frees what the requests that are gone needed. */
void keep_release(void);

#endif
