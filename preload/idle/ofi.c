/*
 * ofi: the hook of libfabric. MPICH's ofi netmod and its derivatives (Cray MPICH, MVAPICH 4) read a completion queue at
 * every poll of their wait loop. A read that returns -FI_EAGAIN is an idle poll; a completion is progress.
 *
 * MPI libraries reach fi_fabric by name, and everything else by tables of operations that lead from there to a queue.
 * The library puts copies of these tables into the fabrics, domains, queues and counters that are opened through it. A
 * copy differs from the original in the functions that open the next object, read a queue or a counter, and close. Each
 * call takes the original function from the original table, since a provider may change it.
 *
 * Only fabrics opened after MPI starts are watched, and none that a provider opens for itself: a layered provider reads
 * such a queue under its own locks, also in a send. A provider's fabric is recognised by its opening inside another
 * opening, or from libfabric's code, if an MPI asked the loader for fi_fabric (Intel MPI) and so bypassed this one.
 *
 * Invariant: reading neither allocates nor locks, and asks the loader for nothing. A table of unknown size is not
 * replaced, nor is one without a free entry for its object.
 *
 * MPICH reads with its lock held. After a second thread has called MPI, no thread naps under that lock (act.c), and
 * this hook leaves waits to sched_yield if the runtime calls that.
 *
 * Open MPI reads queues inside opal_progress, whose hook sees these polls. Only blocking sends of its mtl ofi poll a
 * queue outside of it; this hook serves them.
 */
#include <errno.h>
#include <stddef.h>

#include "preload/idle/fabric.h"
#include "preload/idle/idle.h"
#include "preload/mpi/next.h"
#include "preload/process/process.h"
#include "preload/wait/act.h"
#include "preload/wait/wait.h"

#define EXPORT  __attribute__((visibility("default")))
#define TAKEN   512u /* objects at a time; MPICH has up to 64 interfaces of a domain, a queue and some counters each */
#define VERSION "FABRIC_1.1"
#define LATER   "FABRIC_1.8"

enum kind { KIND_FABRIC, KIND_DOMAIN, KIND_QUEUE, KIND_COUNTER, KINDS };

/* An entry: an object whose tables are replaced. */
struct taken {
	struct fabric_object *object; /* NULL: none, or the object is being closed */
	struct fabric_table *original[FABRIC_TABLES];
	uint64_t count; /* latest value of a counter */
	enum kind kind;
	uint32_t opened; /* number of openings: some providers have one fabric or domain for all callers */
	bool used;
	struct fabric_table copy[FABRIC_TABLES];
};

static struct taken taken[TAKEN];
static uint32_t reached; /* entries from this index on were never used */

/* Depth of openings in this thread. */
static __thread uint32_t openings __attribute__((tls_model("initial-exec")));

int ofi_fabric(void *attributes, struct fabric_object **ret_fabric, void *context);
int ofi_fabric2(void *info, struct fabric_object **ret_fabric, uint64_t flags, void *context);

static uint32_t reached_get(void)
{
	return __atomic_load_n(&reached, __ATOMIC_ACQUIRE);
}

/* Finds an object's entry by its address, for objects whose tables another tool replaced by copies of ours. */
static __attribute__((noinline)) struct taken *taken_search(const struct fabric_object *object)
{
	for (uint32_t i = 0; i < reached_get(); i++)
		if (__atomic_load_n(&taken[i].object, __ATOMIC_RELAXED) == object)
			return &taken[i];
	return NULL;
}

/* Returns the entry whose copy is the object's table, NULL if the table is no copy of ours. */
static inline struct taken *taken_by_table(struct fabric_object *object, unsigned table)
{
	uintptr_t copy = (uintptr_t)__atomic_load_n(&object->table[table], __ATOMIC_RELAXED);

	if (__builtin_expect(copy - (uintptr_t)taken >= sizeof(taken), 0))
		return NULL;
	return (struct taken *)(copy - offsetof(struct taken, copy) - table * sizeof(struct fabric_table));
}

/* Returns the object's entry, NULL if there is none. */
static inline struct taken *taken_of(struct fabric_object *object, unsigned table)
{
	struct taken *entry = taken_by_table(object, table);

	return __builtin_expect(entry != NULL, 1) ? entry : taken_search(object);
}

/* Returns the function that the provider has at that place of its table; NULL: the object has no entry. */
static inline fabric_operation *original(const struct taken *entry, unsigned table, unsigned function)
{
	return entry ? __atomic_load_n(&entry->original[table]->function[function], __ATOMIC_RELAXED) : NULL;
}

static inline bool hook_serves(void)
{
	return process.hooks & MPIWAIT_HOOK_OFI && idle_frame == 0 &&
	       !(process.threaded && process.hooks & MPIWAIT_HOOK_YIELD);
}

/*
 * Takes a poll's result. Outside of blocking calls completions are no progress: MPICH's Iprobe makes one at each poll.
 */
static inline void polled(bool idle_poll)
{
	struct wait *wait = &wait_self;

	if (wait->kind < CALL_TIME)
		return;
	if (!idle_poll)
		wait->progressed = 1;
	else if (hook_serves() && wait_count_poll(wait) && wait_may_read_clock(wait, MPIWAIT_HOOK_OFI))
		wait_idle(wait, MPIWAIT_HOOK_OFI);
}

/* Takes a read's result. A read of no entries from a queue that has some returns 0, which tells nothing. */
static inline ssize_t queue_polled(ssize_t found)
{
	if (found != 0)
		polled(found == -EAGAIN);
	return found;
}

static ssize_t queue_read(struct fabric_object *queue, void *buffer, size_t count)
{
	fabric_read_function *next =
	        (fabric_read_function *)original(taken_of(queue, FABRIC_OWN), FABRIC_OWN, FABRIC_READ);

	return next ? queue_polled(next(queue, buffer, count)) : -ENOSYS;
}

static ssize_t queue_readfrom(struct fabric_object *queue, void *buffer, size_t count, uint64_t *sources)
{
	fabric_readfrom_function *next =
	        (fabric_readfrom_function *)original(taken_of(queue, FABRIC_OWN), FABRIC_OWN, FABRIC_READFROM);

	return next ? queue_polled(next(queue, buffer, count, sources)) : -ENOSYS;
}

/* Returns true if the counter has another value than at its latest reading, and keeps it. */
static inline bool counter_moved(struct taken *entry, uint64_t count)
{
	if (__atomic_load_n(&entry->count, __ATOMIC_RELAXED) == count)
		return false;
	__atomic_store_n(&entry->count, count, __ATOMIC_RELAXED);
	return true;
}

static uint64_t counter_read(struct fabric_object *counter)
{
	struct taken *entry = taken_of(counter, FABRIC_OWN);
	fabric_count_function *next = (fabric_count_function *)original(entry, FABRIC_OWN, FABRIC_READ);
	uint64_t count = next ? next(counter) : 0;

	if (next)
		polled(!counter_moved(entry, count));
	return count;
}

static void entry_free(struct taken *entry)
{
	__atomic_store_n(&entry->object, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->used, false, __ATOMIC_RELEASE);
}

/* Puts the copies into the object: it is watched from here on. */
static void copies_put(struct taken *entry, struct fabric_object *object)
{
	__atomic_store_n(&entry->object, object, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < FABRIC_TABLES; i++)
		__atomic_store_n(&object->table[i], &entry->copy[i], __ATOMIC_RELEASE);
}

/*
 * Puts the original tables back. The entry is no longer found by the object's address, which another object may have as
 * soon as this one is closed.
 */
static void originals_put(struct taken *entry, struct fabric_object *object)
{
	__atomic_store_n(&entry->object, NULL, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < FABRIC_TABLES; i++)
		if (object->table[i] == &entry->copy[i])
			__atomic_store_n(&object->table[i], entry->original[i], __ATOMIC_RELEASE);
}

/* Closes an object that has one opening. If others opened it past us, it lives on, and gets the copies back. */
static int object_close_last(struct taken *entry, struct fabric_object *object, fabric_close_function *next)
{
	int code;

	originals_put(entry, object);
	code = next(object);
	if (code == 0)
		entry_free(entry);
	else
		copies_put(entry, object);
	return code;
}

/* Replaces an object's close: the last one gives the entry back. */
static int object_close(struct fabric_object *object)
{
	struct taken *entry = taken_of(object, FABRIC_COMMON);
	fabric_close_function *next = (fabric_close_function *)original(entry, FABRIC_COMMON, FABRIC_CLOSE);
	int code;

	if (!next)
		return -ENOSYS;
	if (__atomic_load_n(&entry->opened, __ATOMIC_RELAXED) <= 1)
		return object_close_last(entry, object, next);
	code = next(object);
	if (code == 0)
		__atomic_fetch_sub(&entry->opened, 1, __ATOMIC_RELAXED);
	return code;
}

static fabric_open_function domain_open, queue_open, counter_open;
static fabric_domain2_function domain2_open;

/* Functions of the copies that replace the originals'. */
static const struct replacement {
	enum kind kind;
	unsigned index;
	fabric_operation *function;
} replacements[] = {
        {KIND_FABRIC, FABRIC_DOMAIN, (fabric_operation *)domain_open},
        {KIND_FABRIC, FABRIC_DOMAIN2, (fabric_operation *)domain2_open},
        {KIND_DOMAIN, FABRIC_CQ_OPEN, (fabric_operation *)queue_open},
        {KIND_DOMAIN, FABRIC_CNTR_OPEN, (fabric_operation *)counter_open},
        {KIND_QUEUE, FABRIC_READ, (fabric_operation *)queue_read},
        {KIND_QUEUE, FABRIC_READFROM, (fabric_operation *)queue_readfrom},
        {KIND_COUNTER, FABRIC_READ, (fabric_operation *)counter_read},
};

static const size_t least_bytes[KINDS] = {
        [KIND_FABRIC] = FABRIC_FABRIC_LEAST,
        [KIND_DOMAIN] = FABRIC_DOMAIN_LEAST,
        [KIND_QUEUE] = FABRIC_CQ_LEAST,
        [KIND_COUNTER] = FABRIC_CNTR_LEAST,
};

static bool table_is_known(const struct fabric_table *table, size_t least)
{
	return table && table->bytes >= least && table->bytes <= sizeof(*table);
}

static bool object_is_known(const struct fabric_object *object, enum kind kind)
{
	return table_is_known(object->table[FABRIC_COMMON], FABRIC_COMMON_LEAST) &&
	       table_is_known(object->table[FABRIC_OWN], least_bytes[kind]);
}

/* Copies as many bytes as the table claims; the rest is zero. */
static void table_copy(struct fabric_table *copy, const struct fabric_table *table)
{
	*copy = (struct fabric_table){.bytes = 0};
	__builtin_memcpy(copy, table, table->bytes);
}

static void function_replace(struct fabric_table *copy, unsigned index, fabric_operation *function)
{
	if (offsetof(struct fabric_table, function[index + 1]) <= copy->bytes && copy->function[index])
		copy->function[index] = function;
}

static void copies_make(struct taken *entry)
{
	for (unsigned i = 0; i < FABRIC_TABLES; i++)
		table_copy(&entry->copy[i], entry->original[i]);
	function_replace(&entry->copy[FABRIC_COMMON], FABRIC_CLOSE, (fabric_operation *)object_close);
	for (size_t i = 0; i < sizeof(replacements) / sizeof(replacements[0]); i++)
		if (replacements[i].kind == entry->kind)
			function_replace(&entry->copy[FABRIC_OWN], replacements[i].index, replacements[i].function);
}

static void reached_raise(uint32_t least)
{
	uint32_t known = reached_get();

	while (known < least &&
	       !__atomic_compare_exchange_n(&reached, &known, least, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
}

/* Returns a free entry, NULL if there is none. */
static struct taken *entry_claim(void)
{
	for (uint32_t i = 0; i < TAKEN; i++)
		if (!__atomic_exchange_n(&taken[i].used, true, __ATOMIC_ACQ_REL)) {
			reached_raise(i + 1);
			return &taken[i];
		}
	return NULL;
}

/* Frees the entry of an object at that address that was closed past us. */
static void stale_free(const struct fabric_object *object)
{
	struct taken *entry = taken_search(object);

	if (entry)
		entry_free(entry);
}

/* Makes the copies of the object's tables, and puts them into the object. */
static void entry_fill(struct taken *entry, struct fabric_object *object, enum kind kind)
{
	entry->kind = kind;
	entry->count = 0;
	entry->opened = 1;
	for (unsigned i = 0; i < FABRIC_TABLES; i++)
		entry->original[i] = object->table[i];
	copies_make(entry);
	copies_put(entry, object);
}

/* Watches an object that was just opened, if possible. */
static void object_take(struct fabric_object *object, enum kind kind)
{
	struct taken *entry = taken_by_table(object, FABRIC_OWN);

	if (entry) {
		__atomic_fetch_add(&entry->opened, 1, __ATOMIC_RELAXED);
		return;
	}
	stale_free(object);
	if (object_is_known(object, kind))
		entry = entry_claim();
	if (entry)
		entry_fill(entry, object, kind);
	else
		idle.misses_queues = true;
}

/* Ends an opening of the thread, and watches the object if it was the outermost one. */
static int opening_end(int code, struct fabric_object **object, enum kind kind)
{
	if (--openings == 0 && code == 0 && *object)
		object_take(*object, kind);
	return code;
}

/* Replaces a function that opens an object, which is watched then. */
static int object_open(struct fabric_object *from, unsigned index, void *attributes, struct fabric_object **ret_object,
                       void *context, enum kind kind)
{
	fabric_open_function *next = (fabric_open_function *)original(taken_of(from, FABRIC_OWN), FABRIC_OWN, index);

	if (!next)
		return -ENOSYS;
	openings++;
	return opening_end(next(from, attributes, ret_object, context), ret_object, kind);
}

static int domain_open(struct fabric_object *fabric, void *info, struct fabric_object **ret_domain, void *context)
{
	return object_open(fabric, FABRIC_DOMAIN, info, ret_domain, context, KIND_DOMAIN);
}

static int domain2_open(struct fabric_object *fabric, void *info, struct fabric_object **ret_domain, uint64_t flags,
                        void *context)
{
	fabric_domain2_function *next =
	        (fabric_domain2_function *)original(taken_of(fabric, FABRIC_OWN), FABRIC_OWN, FABRIC_DOMAIN2);

	if (!next)
		return -ENOSYS;
	openings++;
	return opening_end(next(fabric, info, ret_domain, flags, context), ret_domain, KIND_DOMAIN);
}

static int queue_open(struct fabric_object *domain, void *attributes, struct fabric_object **ret_queue, void *context)
{
	return object_open(domain, FABRIC_CQ_OPEN, attributes, ret_queue, context, KIND_QUEUE);
}

static int counter_open(struct fabric_object *domain, void *attributes, struct fabric_object **ret_counter,
                        void *context)
{
	return object_open(domain, FABRIC_CNTR_OPEN, attributes, ret_counter, context, KIND_COUNTER);
}

/* Finds libfabric's function behind us. Keeps errno. */
static void *function_find(const char *name, const char *version, const void *caller)
{
	int saved = errno;
	void *found = next_versioned(name, version, caller);

	if (!found) /* the caller ended in a jump to us: the return address is another function's */
		found = next_symbol_in("libfabric", name);
	errno = saved;
	return found;
}

/* Returns true if libfabric or a provider opens the fabric for itself. An MPI library may contain libfabric. */
static bool is_provider(const void *caller)
{
	return (next_defines(caller, "fi_fabric") || next_defines(caller, "fi_prov_ini")) &&
	       !next_defines(caller, "PMPI_Init");
}

EXPORT int ofi_fabric(void *attributes, struct fabric_object **ret_fabric, void *context)
{
	fabric_function *next = (fabric_function *)function_find("fi_fabric", VERSION, __builtin_return_address(0));

	if (!next)
		return -ENOSYS;
	if (!idle.takes_fabrics || is_provider(__builtin_return_address(0)))
		return next(attributes, ret_fabric, context);
	openings++;
	return opening_end(next(attributes, ret_fabric, context), ret_fabric, KIND_FABRIC);
}

/* libfabric's fi_fabric2 calls fi_fabric, by name or not: an opening inside this one. */
EXPORT int ofi_fabric2(void *info, struct fabric_object **ret_fabric, uint64_t flags, void *context)
{
	fabric2_function *next = (fabric2_function *)function_find("fi_fabric2", LATER, __builtin_return_address(0));

	if (!next)
		return -ENOSYS;
	if (!idle.takes_fabrics)
		return next(info, ret_fabric, flags, context);
	openings++;
	return opening_end(next(info, ret_fabric, flags, context), ret_fabric, KIND_FABRIC);
}

__asm__(".symver ofi_fabric, fi_fabric@@FABRIC_1.1");
__asm__(".symver ofi_fabric2, fi_fabric2@@FABRIC_1.8");

/* Returns true if both tables are of one library: the provider put another of its own tables into the object. */
static bool table_is_the_providers(const struct taken *entry, const struct fabric_table *table)
{
	return table_is_known(table, least_bytes[entry->kind]) &&
	       next_in_same_object(table, entry->original[FABRIC_OWN]);
}

/*
 * Watches the queue again if its provider chose another table since, as OPX does when an endpoint is enabled. Returns
 * true if the queue is watched.
 */
static bool queue_watch(struct taken *entry)
{
	struct fabric_object *object = __atomic_load_n(&entry->object, __ATOMIC_ACQUIRE);
	struct fabric_table *table;

	if (!object || entry->kind != KIND_QUEUE)
		return false;
	table = object->table[FABRIC_OWN];
	if (table->function[FABRIC_READ] == (fabric_operation *)queue_read)
		return true;
	if (!table_is_the_providers(entry, table))
		return false;
	entry->original[FABRIC_OWN] = table;
	copies_make(entry);
	__atomic_store_n(&object->table[FABRIC_OWN], &entry->copy[FABRIC_OWN], __ATOMIC_RELEASE);
	return true;
}

bool idle_ofi_switch_on(void)
{
	bool watched = false;

	for (uint32_t i = 0; i < reached_get(); i++)
		watched |= queue_watch(&taken[i]);
	return watched;
}
