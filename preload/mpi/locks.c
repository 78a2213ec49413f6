/*
 * Finds the MPI library's references to these functions. The invariant stands in locks.h.
 *
 * None of them is linked: one got a new version when glibc took libpthread in.
 */
#include "preload/mpi/locks.h"

#include <link.h>
#include <stdint.h>
#include <string.h>

#include "preload/elf/object.h"
#include "preload/elf/rebind.h"
#include "preload/mpi/next.h"

struct replacement {
	const char *name;
	uintptr_t next, ours;
	bool done;
};

static struct {
	struct object mpi;
	uintptr_t inside;
	struct replacement take, give;
} search = {.take.name = "pthread_mutex_lock", .give.name = "pthread_mutex_unlock"};

/* One that was not called yet may be bound lazily: it leads into the library itself. */
static uintptr_t reference_choose(uintptr_t value, const char *name, bool weak)
{
	struct replacement *found = strcmp(name, search.take.name) == 0   ? &search.take
	                            : strcmp(name, search.give.name) == 0 ? &search.give
	                                                                  : NULL;

	(void)weak;
	if (!found || (value != found->next && !object_segment(&search.mpi, (const void *)value, 1)))
		return value;
	found->done = true;
	return found->ours;
}

static int mpi_look(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	if (!object_read(info, &search.mpi) || !object_segment(&search.mpi, (const void *)search.inside, 1))
		return 0;
	rebind(&search.mpi, reference_choose);
	return 1;
}

bool locks_replace(lock_function *take, lock_function *give, struct locks *ret_next)
{
	struct locks next = {
	        .take = (lock_function *)next_symbol("pthread_mutex_lock"),
	        .give = (lock_function *)next_symbol("pthread_mutex_unlock"),
	        .try = (lock_function *)next_symbol("pthread_mutex_trylock"),
	};

	search.inside = (uintptr_t)next_symbol("PMPI_Init");
	if (!search.inside || !next.take || !next.give || !next.try)
		return false;
	*ret_next = next;
	search.take.next = (uintptr_t)next.take;
	search.take.ours = (uintptr_t)take;
	search.give.next = (uintptr_t)next.give;
	search.give.ours = (uintptr_t)give;
	dl_iterate_phdr(mpi_look, NULL);
	return search.take.done && search.give.done;
}
