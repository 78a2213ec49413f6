/*
 * Strict getters for JSON. Each returns true if the value has the right type, range and characters. Pure.
 *
 * The _of functions take the value itself; the _get functions take the object that holds it and its key. If a value is
 * refused, integer_of and integer_get write 0; rank_of writes -1; the others write nothing.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_COUNT_MAX INT64_C(1000000000000000) /* the largest count that a record may have */

/* Sets of ASCII characters that a text may have, for the getters below and for other strict parsers. */
#define JSON_LOWER   "abcdefghijklmnopqrstuvwxyz"
#define JSON_LETTERS JSON_LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define JSON_DIGITS  "0123456789"
/* Printable ASCII without quotes and backslashes. */
#define JSON_PLAIN JSON_LETTERS JSON_DIGITS " !#$%&'()*+,-./:;<=>?@[]^_`{|}~"

/* Returns true if the text has only characters that are in `accepted`. */
bool characters_ok(const char *text, const char *accepted);

/* Read an integer in [0, most]. */
bool integer_of(const json_t *value, int64_t most, uint64_t *ret_value);
bool integer_get(const json_t *object, const char *key, int64_t most, uint64_t *ret_value);

/* As integer_get, but a missing key is accepted and leaves *ret_value as it is. */
bool integer_maybe(const json_t *object, const char *key, int64_t most, uint64_t *ret_value);

/* As integer_get with UINT32_MAX as the most. */
bool integer32_get(const json_t *object, const char *key, uint32_t *ret_value);

/* Adds value to *sum, but not beyond `most`, so that a getter still accepts the sum. */
void integer_add(uint64_t *sum, uint64_t value, int64_t most);

/* Reads a rank, or another number that may be unknown: an integer in [0, INT32_MAX], or -1. */
bool rank_of(const json_t *value, int32_t *ret_value);

/* Read a number in [0, limit), with or without a fraction. */
bool number_of(const json_t *value, double limit, double *ret_value);
bool number_get(const json_t *object, const char *key, double limit, double *ret_value);

/* Read a string that fits into the buffer and has accepted characters only; `accepted` NULL: any characters. */
bool text_of(const json_t *value, char *buffer, size_t size, const char *accepted);
bool text_get(const json_t *object, const char *key, char *buffer, size_t size, const char *accepted);

/* As text_get, but a missing key is accepted and leaves the buffer as it is. */
bool text_maybe(const json_t *object, const char *key, char *buffer, size_t size, const char *accepted);

/* Sets the value in the object unless it is NULL, 0, "", {} or []. Takes the caller's reference in either case. */
void object_set_some(json_t *object, const char *key, json_t *value);
