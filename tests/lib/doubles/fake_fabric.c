/*
 * A double of libfabric. fake_fabric.h describes it.
 */
#include "tests/lib/doubles/fake_fabric.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT  __attribute__((visibility("default")))
#define OBJECTS 1024
#define MOST    40 /* most functions in a table */

EXPORT int fi_fabric(void *attributes, struct fabric_object **ret_fabric, void *context);
EXPORT int later_fabric(void *attributes, struct fabric_object **ret_fabric, void *context);
EXPORT int older_fabric(void *attributes, struct fabric_object **ret_fabric, void *context);
EXPORT int later_fabric2(void *info, struct fabric_object **ret_fabric, uint64_t flags, void *context);

static struct object {
	struct fabric_object object;
	struct object *next;
	int references; /* references beyond the first */
} objects[OBJECTS], *unused;

static size_t begun; /* objects ever used */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int refuse(void)
{
	return -7;
}

static int object_close(struct fabric_object *object)
{
	struct object *closed = (struct object *)object;

	if (fake_fabric.refusal != 0)
		return fake_fabric.refusal;
	pthread_mutex_lock(&mutex);
	fake_fabric.closed++;
	if (closed->references-- > 0) {
		pthread_mutex_unlock(&mutex);
		return 0;
	}
	closed->references = 0;
	memset(&closed->object, 0, sizeof(closed->object));
	closed->next = unused;
	unused = closed;
	pthread_mutex_unlock(&mutex);
	return 0;
}

static ssize_t queue_read(struct fabric_object *queue, void *buffer, size_t count)
{
	(void)buffer, (void)count;
	fake_fabric.last = queue;
	fake_fabric.reads++;
	return fake_fabric.found;
}

static ssize_t queue_readfrom(struct fabric_object *queue, void *buffer, size_t count, uint64_t *sources)
{
	*sources = 4711;
	return queue_read(queue, buffer, count);
}

static uint64_t counter_read(struct fabric_object *counter)
{
	fake_fabric.last = counter;
	fake_fabric.reads++;
	return fake_fabric.count;
}

static fabric_open_function domain_open, queue_open, counter_open;
static fabric_domain2_function domain2_open;

static const size_t real_bytes[FAKE_KINDS] = {56, 96, 64, 64, 56};

static const struct function {
	enum fake_kind kind;
	unsigned index;
	fabric_operation *function;
} functions[] = {
        {FAKE_FABRIC, FABRIC_DOMAIN, (fabric_operation *)domain_open},
        {FAKE_FABRIC, FABRIC_DOMAIN2, (fabric_operation *)domain2_open},
        {FAKE_DOMAIN, FABRIC_CQ_OPEN, (fabric_operation *)queue_open},
        {FAKE_DOMAIN, FABRIC_CNTR_OPEN, (fabric_operation *)counter_open},
        {FAKE_QUEUE, FABRIC_READ, (fabric_operation *)queue_read},
        {FAKE_QUEUE, FABRIC_READFROM, (fabric_operation *)queue_readfrom},
        {FAKE_COUNTER, FABRIC_READ, (fabric_operation *)counter_read},
        {FAKE_COMMON, FABRIC_CLOSE, (fabric_operation *)object_close},
};

/* Returns memory for a table at the end of a page, before a page that cannot be read. */
static struct fabric_table *table_place(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(memory + page, page, PROT_NONE);
	return (struct fabric_table *)(memory + page - bytes);
}

static void table_fill(struct fabric_table *table, enum fake_kind kind, size_t bytes)
{
	size_t count = bytes / sizeof(fabric_operation *) - 1;

	table->bytes = bytes;
	for (size_t i = 0; i < count; i++)
		table->function[i] = (fabric_operation *)refuse;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (functions[i].kind == kind && functions[i].index < count)
			table->function[functions[i].index] = functions[i].function;
}

/* Returns the table of that kind and size: a provider has one table for all objects of a kind. */
static struct fabric_table *table_get(enum fake_kind kind)
{
	static struct fabric_table *made[FAKE_KINDS][MOST + 1];
	size_t bytes = fake_fabric.said[kind] ? fake_fabric.said[kind] : real_bytes[kind];
	struct fabric_table **table = &made[kind][bytes / sizeof(fabric_operation *) - 1];

	if (!*table) {
		*table = table_place(bytes);
		table_fill(*table, kind, bytes);
	}
	return *table;
}

/* Returns a table that lies in this library. */
static struct fabric_table *table_own(enum fake_kind kind)
{
	static struct fabric_table tables[FAKE_KINDS][2];
	static unsigned turn;
	struct fabric_table *table = &tables[kind][turn++ % 2];

	table_fill(table, kind, real_bytes[kind]);
	return table;
}

static int object_open(enum fake_kind kind, void *context, struct fabric_object **ret_object)
{
	struct object *opened;

	pthread_mutex_lock(&mutex);
	opened = unused ? unused : &objects[begun];
	if (unused)
		unused = unused->next;
	else
		begun++;
	opened->object = (struct fabric_object){.class = kind + 1, .context = context};
	opened->object.table[FABRIC_COMMON] = table_get(FAKE_COMMON);
	opened->object.table[FABRIC_OWN] = fake_fabric.lies_within ? table_own(kind) : table_get(kind);
	fake_fabric.opened++;
	pthread_mutex_unlock(&mutex);
	*ret_object = &opened->object;
	return 0;
}

static struct fabric_object *fabric_open(void)
{
	struct fabric_object *fabric = NULL;

	fi_fabric(NULL, &fabric, NULL);
	return fabric;
}

/* Opens another fabric first, as layered providers do. */
static void inside_open(void)
{
	fabric_function *opens = fake_fabric.opens_inside;

	fake_fabric.opens_inside = NULL;
	if (opens)
		opens(NULL, &fake_fabric.inside, NULL);
}

static int domain_open(struct fabric_object *fabric, void *info, struct fabric_object **ret_domain, void *context)
{
	(void)fabric, (void)info;
	inside_open();
	return object_open(FAKE_DOMAIN, context, ret_domain);
}

static int domain2_open(struct fabric_object *fabric, void *info, struct fabric_object **ret_domain, uint64_t flags,
                        void *context)
{
	return flags == 42 ? domain_open(fabric, info, ret_domain, context) : -22;
}

static int queue_open(struct fabric_object *domain, void *attributes, struct fabric_object **ret_queue, void *context)
{
	(void)domain, (void)attributes;
	return object_open(FAKE_QUEUE, context, ret_queue);
}

static int counter_open(struct fabric_object *domain, void *attributes, struct fabric_object **ret_counter,
                        void *context)
{
	(void)domain, (void)attributes;
	return object_open(FAKE_COUNTER, context, ret_counter);
}

int later_fabric(void *attributes, struct fabric_object **ret_fabric, void *context)
{
	static struct object *shared;
	int code = 0;

	(void)attributes;
	inside_open();
	if (fake_fabric.shares && shared)
		shared->references++;
	else
		code = object_open(FAKE_FABRIC, context, ret_fabric);
	if (fake_fabric.shares && !shared)
		shared = (struct object *)*ret_fabric;
	if (fake_fabric.shares)
		*ret_fabric = &shared->object;
	return code;
}

/* Version 1.0, whose attributes differ: its callers must not reach the later version. */
int older_fabric(void *attributes, struct fabric_object **ret_fabric, void *context)
{
	fake_fabric.older++;
	return later_fabric(attributes, ret_fabric, context);
}

int later_fabric2(void *info, struct fabric_object **ret_fabric, uint64_t flags, void *context)
{
	return flags == 42 ? fi_fabric(info, ret_fabric, context) : -22;
}

__asm__(".symver later_fabric, fi_fabric@@FABRIC_1.1");
__asm__(".symver older_fabric, fi_fabric@FABRIC_1.0");
__asm__(".symver later_fabric2, fi_fabric2@@FABRIC_1.8");

EXPORT struct fake_fabric fake_fabric = {.found = -11, .open = fabric_open, .close = object_close, .table = table_own};
