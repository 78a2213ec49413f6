/*
 * Keys as users and sites write them, KEY or KEY=VALUE: a table says what each may be and where it goes. What a refusal
 * calls accepted follows from it. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum key_kind {
	KEY_MARK,   /* a bool, true by the key alone */
	KEY_WORD,   /* an enum or a bool: one of the words in accepted, of which the first means first, and so on */
	KEY_NUMBER, /* a uint32_t: from least to most, in scale-ths of it; '%' may follow */
	KEY_TEXT,   /* a string that fits and is not empty */
	KEY_PATH,   /* the same, an absolute path */
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
};

#define KEY_FIELD(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)

#define KEY_ACCEPTED_MAX 128

/* The key of that "KEY" or "KEY=VALUE", or NULL. */
const struct key *key_find(const struct key keys[], size_t count, const char *text);

/* Writes the value of such a text to the key's field of a struct. Returns 0, or -EINVAL with the field untouched. */
int key_set(const struct key *key, const char *text, void *ret_struct);

/* Writes what is accepted, as "pin=cores|none" or "profile, without a value". Returns buffer. */
const char *key_accepted(const struct key *key, char buffer[KEY_ACCEPTED_MAX]);
