/*
 * Parses keys that users and sites write: KEY or KEY=VALUE, or "KEY": VALUE in JSON. A table has, for each key, its
 * kind, the values it may have, and the member of a struct it is written to. Refusals take their words from it. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"

enum key_kind {
	KEY_MARK,   /* a bool: the key alone means true; in JSON true or false */
	KEY_WORD,   /* an enum or a bool: a word of `accepted`; the first word means `first`, the second first + 1 */
	KEY_NUMBER, /* a uint32_t: a number from least to most, times scale; '%' may follow it */
	KEY_TEXT,   /* a string that fits and is not empty */
	KEY_PATH,   /* as KEY_TEXT, and an absolute path */
	KEY_NAME,   /* as KEY_TEXT, and beginning with a small letter */
	KEY_OTHER,  /* for JSON only: `read` reads it; read NULL: it is ignored */
};

struct key {
	const char *name;
	enum key_kind kind;
	size_t offset, size;         /* the member that it is written to; set by KEY_FIELD */
	const char *accepted;        /* accepted values, for people; "cores|none" for a KEY_WORD */
	const char *does, *standard; /* for the help: what the key does, and the default */
	int first;                   /* for a KEY_WORD, the value of its first word */
	const char *characters;      /* characters that a value may have; NULL: any */
	double least, most, scale;   /* for a KEY_NUMBER, its range and its factor */
	int (*read)(const json_t *value, const struct key *key, void *field, struct error *error);
};

#define KEY_FIELD(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)

#define KEY_ACCEPTED_MAX 128

/* Returns the key whose name is the first `length` bytes of text, or NULL. */
const struct key *key_find(const struct key keys[], size_t count, const char *text, size_t length);

/*
 * Writes the value of "KEY" or "KEY=VALUE" to the key's member of *ret_struct. Returns 0, or -EINVAL with the struct
 * untouched.
 */
int key_set(const struct key *key, const char *text, void *ret_struct);

/* As key_set for a value of JSON, which may be of a wrong type. Returns 0, or -EINVAL with a message in error. */
int key_read(const struct key *key, const json_t *value, void *ret_struct, struct error *error);

/* Writes the key with its accepted values: "pin=cores|none", or "profile, without a value". Returns buffer. */
const char *key_accepted(const struct key *key, char buffer[KEY_ACCEPTED_MAX]);
