/*
 * Strict getters: a value of JSON is of its type, in its range and of the characters that it may have, or it is
 * refused. Pure.
 *
 * An integer is 0 where it is refused; all else is untouched then.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_COUNT_MAX INT64_C(1000000000000000)

#define JSON_LOWER   "abcdefghijklmnopqrstuvwxyz"
#define JSON_LETTERS JSON_LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define JSON_DIGITS  "0123456789"
/* Printable ASCII without quotes and backslashes. */
#define JSON_PLAIN JSON_LETTERS JSON_DIGITS " !#$%&'()*+,-./:;<=>?@[]^_`{|}~"

/* Whether the text has no other characters. */
bool characters_ok(const char *text, const char *accepted);

/* An integer that lies in [0, most]. */
bool integer_of(const json_t *value, int64_t most, uint64_t *ret_value);
bool integer_get(const json_t *object, const char *key, int64_t most, uint64_t *ret_value);

/* The same where it is there at all. */
bool integer_maybe(const json_t *object, const char *key, int64_t most, uint64_t *ret_value);
bool integer32_get(const json_t *object, const char *key, uint32_t *ret_value);

/* Adds, up to the most that a getter takes. */
void integer_add(uint64_t *sum, uint64_t value, int64_t most);

/* A rank or the like: an integer that lies in [0, INT32_MAX], or -1. *ret_value is -1 where it is refused. */
bool rank_of(const json_t *value, int32_t *ret_value);

/* A number that lies in [0, limit), with or without a fraction. */
bool number_of(const json_t *value, double limit, double *ret_value);
bool number_get(const json_t *object, const char *key, double limit, double *ret_value);

/* A string of accepted characters (NULL: of any) that fits. */
bool text_of(const json_t *value, char *buffer, size_t size, const char *accepted);
bool text_get(const json_t *object, const char *key, char *buffer, size_t size, const char *accepted);

/* Sets a value, which is taken, unless there is nothing in it: NULL, 0, "", {} or []. */
void object_set_some(json_t *object, const char *key, json_t *value);
