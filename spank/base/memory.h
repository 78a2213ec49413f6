/*
 * Counts failed allocations. Code that builds a JSON value of many parts checks no single call: jansson leaves out a
 * part for which it has no memory. The caller compares memory_failures before and after, and stores nothing, and
 * removes no source, if it has grown.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/*
 * Returns how many allocations by jansson and by the functions below have failed in this thread so far. If the number
 * has grown since an earlier call, values built or parsed in between may lack parts.
 */
unsigned memory_failures(void);

/* As calloc and strdup; failures are counted. */
void *memory_array(size_t count, size_t size);
char *memory_copy(const char *text);

/*
 * Makes room for one more than `count` items of `size` bytes. Only earlier calls may have allocated `items`: the room
 * doubles at each power of two. Returns the items' new address, or NULL without memory, with the items untouched.
 */
void *memory_more(void *items, size_t count, size_t size);

/* As json_loadb, which by itself would abort the process if it had no memory for the digits of a long number. */
json_t *memory_json(const char *text, size_t length, size_t flags);

/* As memory_json; if it returns NULL because of the text, ret_problem says what is wrong. */
json_t *memory_json_explained(const char *text, size_t length, size_t flags, json_error_t *ret_problem);

/*
 * As json_dumps, compact and with fifteen digits. Returns NULL without memory, where json_dumps may return a text that
 * lacks parts. The caller frees the text.
 */
char *memory_text(const json_t *json, size_t more_flags);
