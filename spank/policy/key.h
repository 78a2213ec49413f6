/*
 * Keys as users and sites write them, KEY or KEY=VALUE, or "KEY": VALUE in JSON: a table says what each may be and
 * where it goes. What a refusal calls accepted follows from it. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"

enum key_kind {
	KEY_MARK,   /* a bool: true by the key alone; in JSON true or false */
	KEY_WORD,   /* an enum or a bool: one of the words in accepted, of which the first means first, and so on */
	KEY_NUMBER, /* a uint32_t: from least to most, in scale-ths of it; '%' may follow */
	KEY_TEXT,   /* a string that fits and is not empty */
	KEY_PATH,   /* the same, an absolute path */
	KEY_NAME,   /* the same, beginning with a small letter */
	KEY_OTHER,  /* in JSON alone: what read makes of it; NULL: nothing */
};

struct key {
	const char *name;
	enum key_kind kind;
	size_t offset, size;         /* KEY_FIELD */
	const char *accepted;        /* for people; "cores|none" of a KEY_WORD */
	const char *does, *standard; /* for a help: what it does, what holds without it */
	int first;                   /* of a KEY_WORD */
	const char *characters;      /* that a value may have; NULL: any */
	double least, most, scale;   /* of a KEY_NUMBER */
	int (*read)(const json_t *value, const struct key *key, void *field, struct error *error);
};

#define KEY_FIELD(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)

#define KEY_ACCEPTED_MAX 128

/* The key whose name are so many bytes of text, or NULL. */
const struct key *key_find(const struct key keys[], size_t count, const char *text, size_t length);

/* Writes the value of "KEY" or "KEY=VALUE" to the key's field of a struct. Returns 0, or -EINVAL with it untouched. */
int key_set(const struct key *key, const char *text, void *ret_struct);

/* The same with a value of JSON, which error refuses in full. */
int key_read(const struct key *key, const json_t *value, void *ret_struct, struct error *error);

/* Writes what is accepted, as "pin=cores|none" or "profile, without a value". Returns buffer. */
const char *key_accepted(const struct key *key, char buffer[KEY_ACCEPTED_MAX]);
