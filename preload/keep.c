/*
 * Memory that waits for a request's end. Its invariant stands in keep.h.
 *
 * A list that only grows; its entries are used again. An entry belongs to one thread from keep_look to keep_release:
 * the MPI may hand the same handle out again, to another thread, before this one has returned from the call.
 */
#include "preload/keep.h"

#include <stddef.h>
#include <stdlib.h>

#include "preload/query.h"

struct keep {
	struct keep *next;
	void *memory;
	uintptr_t request;
	const void *place; /* the caller's handle, from keep_look to keep_release */
	const char *owner; /* the thread that is between those two */
	uint32_t state;
};

enum { KEEP_FREE, KEEP_BUSY, KEEP_HELD, KEEP_WATCHED };

uint32_t keep_count;

static struct keep *first;
static __thread char self __attribute__((tls_model("initial-exec")));

static bool state_change(struct keep *keep, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&keep->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

struct keep *keep_new(void)
{
	struct keep *keep;

	for (keep = __atomic_load_n(&first, __ATOMIC_ACQUIRE); keep; keep = keep->next)
		if (state_change(keep, KEEP_FREE, KEEP_BUSY))
			return keep;
	keep = calloc(1, sizeof(*keep));
	if (!keep)
		return NULL;
	keep->state = KEEP_BUSY;
	keep->next = __atomic_load_n(&first, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&first, &keep->next, keep, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		continue;
	__atomic_fetch_add(&keep_count, 1, __ATOMIC_RELAXED);
	return keep;
}

void keep_begin(struct keep *keep, void *memory, const void *request)
{
	if (!request) {
		free(memory);
		__atomic_store_n(&keep->state, KEEP_FREE, __ATOMIC_RELEASE);
		return;
	}
	keep->memory = memory;
	keep->request = query_handle(request, 0);
	__atomic_store_n(&keep->state, KEEP_HELD, __ATOMIC_RELEASE);
}

static void request_watch(const void *place)
{
	uintptr_t request = query_handle(place, 0);

	for (struct keep *keep = __atomic_load_n(&first, __ATOMIC_ACQUIRE); keep; keep = keep->next) {
		if (!state_change(keep, KEEP_HELD, KEEP_BUSY))
			continue;
		if (keep->request == request) {
			keep->place = place;
			keep->owner = &self;
			__atomic_store_n(&keep->state, KEEP_WATCHED, __ATOMIC_RELEASE);
			return;
		}
		__atomic_store_n(&keep->state, KEEP_HELD, __ATOMIC_RELEASE);
	}
}

/* Also gives back what a call that was left by longjmp had taken: its place is no longer anybody's. */
static void own_release(bool returned)
{
	for (struct keep *keep = __atomic_load_n(&first, __ATOMIC_ACQUIRE); keep; keep = keep->next) {
		if (__atomic_load_n(&keep->state, __ATOMIC_ACQUIRE) != KEEP_WATCHED || keep->owner != &self)
			continue;
		if (!returned || query_handle(keep->place, 0) == keep->request) {
			__atomic_store_n(&keep->state, KEEP_HELD, __ATOMIC_RELEASE);
			continue;
		}
		free(keep->memory);
		__atomic_store_n(&keep->state, KEEP_FREE, __ATOMIC_RELEASE);
	}
}

void keep_look(const char *signature, const uintptr_t *arguments)
{
	bool many = signature[0] == 'k';
	const char *requests = (const char *)arguments[many ? 1 : 0];
	int count = many ? (int)arguments[0] : 1;

	own_release(false);
	for (int i = 0; requests && i < count; i++)
		request_watch(requests + (size_t)i * query_values()->handle_size);
}

void keep_release(void)
{
	own_release(true);
}
