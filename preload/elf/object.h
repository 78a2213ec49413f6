/*
 * Object: a loaded program or library, with the names that it defines and refers to, read from its own dynamic section.
 *
 * Invariant: no function asks the loader, allocates or locks. They work in the middle of a dlopen too, on objects that
 * are mapped and not yet relocated.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A loaded object, by its tables in memory. */
struct object {
	uintptr_t base;
	const Elf64_Phdr *segment;
	size_t segments;
	const Elf64_Sym *symbol;
	const Elf64_Half *version; /* NULL: none */
	const char *strings;
	const uint32_t *gnu_hash; /* NULL: the object has only the older table, hash */
	const uint32_t *hash;
	const Elf64_Rela *relocation[2];
	size_t relocations[2];
};

/* A name, with the hash that objects are searched by. */
struct object_name {
	const char *text;
	uint32_t hash;
	uintptr_t address; /* wanted address of the definition; 0: any */
};

/* Reads a loaded object. Returns false if it has no names. */
bool object_read(const struct dl_phdr_info *info, struct object *ret_object);

/* Returns the name with its hash, for any address. The text is borrowed. */
struct object_name object_name(const char *text);

/*
 * Returns the function that the object defines under that name, NULL if none. A version that must be asked for
 * explicitly does not count.
 */
const Elf64_Sym *object_find(const struct object *object, const struct object_name *name);

/* As object_find, for any version. */
const Elf64_Sym *object_find_any(const struct object *object, const struct object_name *name);

/*
 * Returns true if the object defines the function at that address, in any version. An IFUNC matches any address: the
 * object itself chooses where it leads.
 */
bool object_defines(const struct object *object, struct object_name name, uintptr_t address);

/* Returns true if the object refers to that name and does not define it. */
bool object_refers(const struct object *object, const char *text);

/* Returns the number of symbols, the first of which is none; 0: unknown. */
size_t object_count(const struct object *object);

/* Returns the segment that contains these bytes of the object, NULL if none contains all of them. */
const Elf64_Phdr *object_segment(const struct object *object, const void *start, size_t size);
