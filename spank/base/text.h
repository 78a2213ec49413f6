/* Appends text to a buffer, finds words in a list, parses numbers. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends to the text in buffer as much as fits. Returns true if all of it fits. */
__attribute__((format(printf, 3, 4))) bool text_add(char *buffer, size_t size, const char *format, ...);

/*
 * Copies the plain characters of at most from_size bytes of a text, as many as fit, and ends them with a NUL. Plain are
 * printable ASCII characters but for " and \.
 */
void text_plain(const char *from, size_t from_size, char *ret_text, size_t size);

/* Returns the index of a word in a list whose words have `separator` between them, from 0 on; -1: it is not there. */
int text_find(const char *list, char separator, const char *word);

/* Parses a number of digits only that is at most `most`. Returns false, with *ret_number untouched, if it is not. */
bool text_number(const char *text, uint64_t most, uint64_t *ret_number);
