/*
 * jansson's lexer ignores that its text could not grow, and then asserts that it did. So while a text is parsed and
 * there is no memory, allocations of the sizes that the lexer's text has (powers of two) come from a static reserve.
 * The next value for which there is no memory ends the parsing, and jansson frees the reserve's pieces.
 */
#include "spank/base/memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_LEAST 32
#define TEXT_MOST  4096

static __thread unsigned failures __attribute__((tls_model("initial-exec")));
static __thread bool parses __attribute__((tls_model("initial-exec")));

static struct {
	_Alignas(16) char bytes[4 * TEXT_MOST];
	size_t used;
	size_t pieces;
	pthread_mutex_t mutex;
} reserve = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Counts a failed allocation. Returns the pointer. */
static void *counted(void *pointer)
{
	failures += !pointer;
	return pointer;
}

/* Returns a piece of the reserve, if a text is being parsed and the lexer may have asked for that size; else NULL. */
static void *reserve_take(size_t size)
{
	void *piece = NULL;

	if (!parses || size < TEXT_LEAST || size > TEXT_MOST || (size & (size - 1)) != 0)
		return NULL;
	pthread_mutex_lock(&reserve.mutex);
	if (reserve.used + size <= sizeof(reserve.bytes)) {
		piece = reserve.bytes + reserve.used;
		reserve.used += size;
		reserve.pieces++;
	}
	pthread_mutex_unlock(&reserve.mutex);
	return piece;
}

static void *json_take(size_t size)
{
	void *pointer = counted(malloc(size));

	return pointer ? pointer : reserve_take(size);
}

static void json_give(void *pointer)
{
	char *piece = pointer;

	if (piece < reserve.bytes || piece >= reserve.bytes + sizeof(reserve.bytes)) {
		free(pointer);
		return;
	}
	pthread_mutex_lock(&reserve.mutex);
	if (--reserve.pieces == 0)
		reserve.used = 0;
	pthread_mutex_unlock(&reserve.mutex);
}

__attribute__((constructor)) static void json_watch(void)
{
	json_set_alloc_funcs(json_take, json_give);
}

unsigned memory_failures(void)
{
	return failures;
}

void *memory_array(size_t count, size_t size)
{
	return counted(calloc(count, size));
}

char *memory_copy(const char *text)
{
	return counted(strdup(text));
}

void *memory_more(void *items, size_t count, size_t size)
{
	bool is_full = (count & (count - 1)) == 0;

	return is_full ? counted(reallocarray(items, count ? 2 * count : 1, size)) : items;
}

json_t *memory_json_explained(const char *text, size_t length, size_t flags, json_error_t *ret_problem)
{
	json_t *json;

	parses = true;
	json = json_loadb(text, length, flags, ret_problem);
	parses = false;
	return json;
}

json_t *memory_json(const char *text, size_t length, size_t flags)
{
	return memory_json_explained(text, length, flags, NULL);
}

char *memory_text(const json_t *json, size_t more_flags)
{
	unsigned before = failures;
	char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15) | more_flags);

	if (failures == before)
		return text;
	free(text);
	return NULL;
}
