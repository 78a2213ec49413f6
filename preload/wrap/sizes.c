/* Message sizes. sizes.h says why and when; mpi_calls.def says which message of a call counts. */
#include "preload/wrap/sizes.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/mpi/query.h"

struct sizes_short sizes_short;

static struct call_shape shapes[CALL_ROWS];
static struct mpiwait_sizes nowhere;
static struct query_values abi;

void sizes_prepare(struct mpiwait_sizes *sizes)
{
	abi = *query_values();
	sizes_short = (struct sizes_short){
	        .type_size = query_type_size(), .classes = sizes ? sizes : &nowhere, .proc_null = abi.proc_null};
	for (int row = 0; row < CALL_ROWS; row++) {
		call_shape_get((enum call_row)row, &shapes[row]);
		if (shapes[row].persistent)
			shapes[row].volume = VOLUME_NONE;
	}
}

void sizes_locate(const struct config_near *near, uintptr_t world, int32_t rank, int32_t size)
{
	uint8_t *locality;

	if (near->size == 0 || near->rank != (uint32_t)rank || near->size != (uint32_t)size)
		return;
	locality = mmap(NULL, near->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (locality == MAP_FAILED)
		return;
	for (uint32_t i = 0; i < near->ranges; i++)
		memset(locality + near->range[i].first, MPIWAIT_NEAR, near->range[i].last - near->range[i].first + 1);
	sizes_short.world = (int)world;
	sizes_short.locality = locality;
	sizes_short.ranks = near->size;
}

/* Returns true if the argument is no peer: there is none, or it is MPI_PROC_NULL. */
static bool is_nobody(int8_t peer, const uintptr_t *arguments)
{
	return peer < 0 || (int)arguments[peer] == abi.proc_null;
}

/* Returns true if MPI reads or writes the message's buffer at this rank. */
static bool is_significant(const struct call_message *message, const uintptr_t *arguments)
{
	if (message->buffer >= 0 && arguments[message->buffer] == abi.in_place)
		return false;
	return message->peer < 0 || !is_nobody(message->peer, arguments) || !is_nobody(message->source, arguments);
}

/*
 * Chooses the message of a rooted call: the one that only the root has counts for MPI_ROOT, or if the other one is not
 * significant.
 */
static const struct call_message *rooted_choose(const struct call_shape *shape, const uintptr_t *arguments)
{
	const struct call_message *of_root = &shape->message[shape->message[1].only_root];
	const struct call_message *of_all = &shape->message[shape->message[0].only_root];
	int root = (int)arguments[shape->root];

	if (root == abi.proc_null)
		return NULL;
	return root == abi.root || !is_significant(of_all, arguments) ? of_root : of_all;
}

/* Returns the message that makes the call's bytes at this rank, or NULL. */
static const struct call_message *message_choose(const struct call_shape *shape, const uintptr_t *arguments)
{
	if (shape->root >= 0)
		return rooted_choose(shape, arguments);
	for (size_t i = 0; i < shape->messages; i++)
		if (is_significant(&shape->message[i], arguments))
			return &shape->message[i];
	return NULL;
}

/* Returns the bytes of `count` elements; 0 if the MPI does not know the type's size. */
static inline uint64_t bytes_of(int64_t count, uintptr_t type)
{
	int size = 0;

	if (count > 0)
		sizes_short.type_size(type, &size); /* leaves 0 where it fails */
	return (uint64_t)count * (size < 0 ? query_type_large(type) : (uint64_t)size);
}

uint64_t sizes_count_large(enum call_row row, int64_t count, uintptr_t type, size_t locality)
{
	uint64_t bytes = (uint64_t)count * query_type_large(type);
	struct mpiwait_lane *lane = wait_self.lane;

	lane->locality_bytes[locality] += bytes;
	lane->calls[row].bytes += bytes;
	return mpiwait_size_class(bytes);
}

/* Returns false if what a neighborhood collective has for its receiver with that index goes to MPI_PROC_NULL. */
static bool is_sent(const struct call_shape *shape, const uintptr_t *arguments, int index)
{
	return shape->volume != VOLUME_NEIGHBOR_EACH || query_is_neighbor(arguments[shape->handle], index);
}

/* Returns the bytes of a message whose counts are an array. */
static uint64_t array_bytes(const struct call_shape *shape, const struct call_message *message, bool large,
                            const uintptr_t *arguments)
{
	const void *counts = (const void *)arguments[message->count], *types = (const void *)arguments[message->type];
	int lengths[CALL_MESSAGES_MAX] = {0, 0};
	uint64_t bytes = 0;
	int64_t sum = 0;

	if (!counts || query_lengths(arguments[shape->handle], shape->volume, lengths) != 0)
		return 0;
	for (int i = 0; i < lengths[message - shape->message]; i++) {
		int64_t count = large ? ((const int64_t *)counts)[i] : ((const int *)counts)[i];

		if (!is_sent(shape, arguments, i))
			continue;
		if (message->types)
			bytes += bytes_of(count, query_handle(types, (size_t)i));
		else
			sum += count;
	}
	return message->types ? bytes : bytes_of(sum, arguments[message->type]);
}

/* Returns the number of ranks to which the same count goes. */
static uint64_t times(const struct call_shape *shape, const uintptr_t *arguments)
{
	int lengths[CALL_MESSAGES_MAX] = {0, 0};
	uint64_t sent = 0;

	if (shape->volume != VOLUME_EACH && shape->volume != VOLUME_LOCAL && shape->volume != VOLUME_NEIGHBOR_EACH)
		return 1;
	if (query_lengths(arguments[shape->handle], shape->volume, lengths) != 0)
		return 0;
	if (shape->volume != VOLUME_NEIGHBOR_EACH)
		return lengths[0] > 0 ? (uint64_t)lengths[0] : 0;
	for (int i = 0; i < lengths[0]; i++)
		sent += is_sent(shape, arguments, i);
	return sent;
}

/* Returns the bytes that the call hands over by that message. */
static uint64_t message_bytes(const struct call_shape *shape, const struct call_message *message, bool large,
                              const uintptr_t *arguments)
{
	int64_t count = 1;

	if (message->counts)
		return array_bytes(shape, message, large, arguments);
	if (message->count >= 0)
		count = large ? (int64_t)arguments[message->count] : (int)arguments[message->count];
	return bytes_of(count, arguments[message->type]) * times(shape, arguments);
}

void sizes_count(enum call_row row, bool large, const uintptr_t *arguments)
{
	const struct call_shape *shape = &shapes[row];
	struct mpiwait_lane *lane = wait_self.lane;
	const struct call_message *message;
	uint64_t bytes = 0;

	if (!lane || shape->volume == VOLUME_NONE)
		return;
	message = message_choose(shape, arguments);
	if (message)
		bytes = message_bytes(shape, message, large, arguments);
	if (message && shape->between && message->peer >= 0) {
		int peer = is_nobody(message->peer, arguments) ? message->source : message->peer;

		lane->locality_bytes[sizes_locality(arguments[shape->handle], (uint32_t)arguments[peer])] += bytes;
	}
	lane->calls[row].bytes += bytes;
	__atomic_fetch_add(&sizes_short.classes->calls[row][mpiwait_size_class(bytes)], 1, __ATOMIC_RELAXED);
}
