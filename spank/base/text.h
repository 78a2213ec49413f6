/* Texts that are put together in a buffer, lists of words in one text, and numbers. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends to the text in buffer what there is room for. Returns whether that is all of it. */
__attribute__((format(printf, 3, 4))) bool text_add(char *buffer, size_t size, const char *format, ...);

/* The place of a word in a list with such separators between its words, from 0 on; -1: it is not there. */
int text_find(const char *list, char separator, const char *word);

/* A number of digits alone that is at most so large. Returns whether it is one; else *ret_number is untouched. */
bool text_number(const char *text, uint64_t most, uint64_t *ret_number);
