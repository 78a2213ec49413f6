/*
 * Whether memory ran out while something was built. A JSON value of many parts is put together by calls that leave a
 * part out where it is missing; who is about to make that durable, or to give up what it was made of, asks here first.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/*
 * How many allocations of jansson's, and of those below, have failed in this thread so far. Where it is another number
 * than before, what was built or parsed since may lack parts.
 */
unsigned memory_failures(void);

/* calloc and strdup, counted. */
void *memory_array(size_t count, size_t size);
char *memory_copy(const char *text);

/*
 * Makes room for one more than count items, which only such calls have made room for before; it doubles each time.
 * Returns where they are now. NULL: no memory, and they are where they were.
 */
void *memory_more(void *items, size_t count, size_t size);

/* json_loadb, which by itself ends the process (an assertion) where it cannot keep a long number's digits. */
json_t *memory_json(const char *text, size_t length, size_t flags);

/* The same; where it returns NULL for the text's sake, ret_problem says what is wrong with it. */
json_t *memory_json_explained(const char *text, size_t length, size_t flags, json_error_t *ret_problem);

/*
 * json_dumps, compact and with fifteen digits, which by itself may leave out what its text had no room for. NULL: no
 * memory.
 */
char *memory_text(const json_t *json, size_t more_flags);
