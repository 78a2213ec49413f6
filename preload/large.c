/*
 * Narrows the arguments of a large-count call. Why stands in large.h.
 *
 * Invariant: an array is read only where the standard says that it is significant at this rank; elsewhere the pointer
 * may be anything. The same holds for the range of a count.
 */
#include "preload/large.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include "preload/calls.h"
#include "preload/keep.h"
#include "preload/next.h"
#include "preload/query.h"

#define STACK_NUMBERS 512

typedef uintptr_t word;

struct narrowing {
	const char *signature;
	struct call_shape shape;
	const word *given;
	word passed[CALL_ARGUMENTS_MAX];
	bool significant[CALL_GROUPS_MAX];
	int length[CALL_GROUPS_MAX]; /* of the arrays of each message */
	int *numbers;                /* where narrowed arrays go */
	size_t used;
	int returned; /* for a count that the call returns */
};

int large_stand_in(void)
{
	return query_values()->err_count;
}

static bool has_arrays(const struct narrowing *narrowing)
{
	return narrowing->shape.message[0].counts || narrowing->shape.message[1].counts;
}

/* Which of the messages matter at this rank. Only rooted calls and MPI_IN_PLACE leave any out. */
static int significance_find(struct narrowing *narrowing)
{
	const struct call_shape *shape = &narrowing->shape;
	bool is_root = true;
	int code = 0, root;

	if (shape->root >= 0) {
		root = (int)narrowing->given[shape->root];
		code = query_is_root(narrowing->given[shape->handle], root, &is_root);
	}
	for (size_t i = 0; i < CALL_GROUPS_MAX; i++) {
		const struct call_message *message = &shape->message[i];
		bool in_place = i < shape->messages && message->buffer >= 0 &&
		                narrowing->given[message->buffer] == query_values()->in_place;

		narrowing->significant[i] = !in_place && (is_root || !message->only_root);
	}
	return code;
}

static int lengths_find(struct narrowing *narrowing)
{
	const struct call_shape *shape = &narrowing->shape;

	return query_lengths(narrowing->given[shape->handle], shape->volume, narrowing->length);
}

static size_t numbers_count(const struct narrowing *narrowing)
{
	size_t count = 0;

	for (size_t i = 0; i < CALL_GROUPS_MAX; i++)
		if (narrowing->shape.message[i].counts && narrowing->significant[i])
			count += 2 * (size_t)narrowing->length[i];
	return count;
}

static bool fits(int64_t number, bool is_count)
{
	return number <= INT_MAX && number >= (is_count ? 0 : INT_MIN);
}

static bool array_narrow(struct narrowing *narrowing, size_t argument, size_t message, bool is_count)
{
	const int64_t *given = (const int64_t *)narrowing->given[argument];
	int *numbers = narrowing->numbers + narrowing->used;

	if (!narrowing->significant[message] || !given)
		return true;
	for (int i = 0; i < narrowing->length[message]; i++) {
		if (!fits(given[i], is_count))
			return false;
		numbers[i] = (int)given[i];
	}
	narrowing->passed[argument] = (word)numbers;
	narrowing->used += (size_t)narrowing->length[message];
	return true;
}

static bool arguments_narrow(struct narrowing *narrowing)
{
	size_t message = 0;

	for (size_t i = 0; narrowing->signature[i]; i++) {
		char letter = narrowing->signature[i];
		bool significant = message >= CALL_GROUPS_MAX || narrowing->significant[message];

		if (letter == 'n' && significant && !fits((int64_t)narrowing->given[i], true))
			return false;
		if ((letter == 'N' || letter == 'V') && !array_narrow(narrowing, i, message, letter == 'N'))
			return false;
		if (letter == 'o' && narrowing->given[i])
			narrowing->passed[i] = (word)&narrowing->returned;
		message += letter == 't' || letter == 'T';
	}
	return true;
}

static int function_call(void *function, const word *a, size_t count)
{
	switch (count) {
#define CASE(n, parameters, ...) \
	case n:                  \
		return ((int(*) parameters)function)(__VA_ARGS__);
		CASE(2, (word, word), a[0], a[1])
		CASE(3, (word, word, word), a[0], a[1], a[2])
		CASE(4, (word, word, word, word), a[0], a[1], a[2], a[3])
		CASE(5, (word, word, word, word, word), a[0], a[1], a[2], a[3], a[4])
		CASE(6, (word, word, word, word, word, word), a[0], a[1], a[2], a[3], a[4], a[5])
		CASE(7, (word, word, word, word, word, word, word), a[0], a[1], a[2], a[3], a[4], a[5], a[6])
		CASE(8, (word, word, word, word, word, word, word, word), a[0], a[1], a[2], a[3], a[4], a[5], a[6],
		     a[7])
		CASE(9, (word, word, word, word, word, word, word, word, word), a[0], a[1], a[2], a[3], a[4], a[5],
		     a[6], a[7], a[8])
		CASE(10, (word, word, word, word, word, word, word, word, word, word), a[0], a[1], a[2], a[3], a[4],
		     a[5], a[6], a[7], a[8], a[9])
		CASE(11, (word, word, word, word, word, word, word, word, word, word, word), a[0], a[1], a[2], a[3],
		     a[4], a[5], a[6], a[7], a[8], a[9], a[10])
		CASE(12, (word, word, word, word, word, word, word, word, word, word, word, word), a[0], a[1], a[2],
		     a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11])
		CASE(13, (word, word, word, word, word, word, word, word, word, word, word, word, word), a[0], a[1],
		     a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12])
#undef CASE
	default:
		return query_values()->err_count;
	}
}

/* The plain function: by the name, MPI_ or PMPI_, by which the other one was called. */
static int plain_call(size_t index, struct narrowing *narrowing)
{
	size_t count = 0;
	int code;

	while (narrowing->signature[count])
		count++;
	code = function_call(next_get(index - NAME_MPI_LARGE + NAME_MPI), narrowing->passed, count);
	for (size_t i = 0; i < count && code == 0; i++)
		if (narrowing->signature[i] == 'o' && narrowing->given[i])
			*(int64_t *)narrowing->given[i] = narrowing->returned;
	return code;
}

static int refuse(const struct narrowing *narrowing, int code)
{
	int8_t handle = narrowing->shape.handle;

	if (handle >= 0)
		query_raise(narrowing->signature[handle], narrowing->given[handle], code);
	return code;
}

static int narrow_and_call(size_t index, struct narrowing *narrowing)
{
	return arguments_narrow(narrowing) ? plain_call(index, narrowing)
	                                   : refuse(narrowing, query_values()->err_count);
}

/* With arrays that the MPI may read until the request is complete. */
static int kept_call(size_t index, struct narrowing *narrowing, size_t numbers)
{
	struct keep *keep = keep_new();
	int code;

	narrowing->numbers = keep ? malloc((numbers + 1) * sizeof(int)) : NULL;
	if (!narrowing->numbers) {
		if (keep)
			keep_begin(keep, NULL, NULL);
		return refuse(narrowing, query_values()->err_no_memory);
	}
	code = narrow_and_call(index, narrowing);
	keep_begin(keep, narrowing->numbers,
	           code == 0 ? (const void *)narrowing->given[narrowing->shape.request] : NULL);
	return code;
}

static int array_call(size_t index, struct narrowing *narrowing)
{
	int stack[STACK_NUMBERS];
	size_t numbers;
	int code = lengths_find(narrowing);

	if (code != 0)
		return code;
	numbers = numbers_count(narrowing);
	if (narrowing->shape.request >= 0 && numbers > 0)
		return kept_call(index, narrowing, numbers);
	narrowing->numbers = numbers <= STACK_NUMBERS ? stack : malloc(numbers * sizeof(int));
	if (!narrowing->numbers)
		return refuse(narrowing, query_values()->err_no_memory);
	code = narrow_and_call(index, narrowing);
	if (narrowing->numbers != stack)
		free(narrowing->numbers);
	return code;
}

int large_call(size_t index, const uintptr_t *arguments)
{
	enum call_row row = (enum call_row)(index / CALL_NAMES);
	struct narrowing narrowing = {.signature = call_signature(row), .given = arguments};
	int code;

	call_shape_get(row, &narrowing.shape);
	for (size_t i = 0; narrowing.signature[i]; i++)
		narrowing.passed[i] = arguments[i];
	code = significance_find(&narrowing);
	if (code != 0)
		return code;
	return has_arrays(&narrowing) ? array_call(index, &narrowing) : narrow_and_call(index, &narrowing);
}
