/*
 * A program or library as it is loaded: what it defines and what it refers to, read from its own dynamic section.
 *
 * Invariant: nothing here asks the loader, allocates or locks. So it also serves in the middle of a dlopen, for objects
 * that are mapped and not yet relocated.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object {
	uintptr_t base;
	const Elf64_Phdr *segment;
	size_t segments;
	const Elf64_Sym *symbol;
	const Elf64_Half *version; /* NULL: none */
	const char *strings;
	const uint32_t *gnu_hash; /* NULL: it has the older table */
	const uint32_t *hash;
	const Elf64_Rela *relocation[2];
	size_t relocations[2];
};

/* A name, with the hash by which objects are searched for it. */
struct object_name {
	const char *text;
	uint32_t hash;
	uintptr_t address; /* 0: a definition at any address will do */
};

/* Returns false for an object without names. */
bool object_read(const struct dl_phdr_info *info, struct object *ret_object);

struct object_name object_name(const char *text);

/* The function that the object defines under that name; NULL: none. Not one of a version that has to be asked for. */
const Elf64_Sym *object_find(const struct object *object, const struct object_name *name);

/* The same of any version. */
const Elf64_Sym *object_find_any(const struct object *object, const struct object_name *name);

/*
 * Returns true if the object defines the function at that address, of any version. An IFUNC counts wherever it leads:
 * the object chooses that itself.
 */
bool object_defines(const struct object *object, struct object_name name, uintptr_t address);

/* Returns true if the object refers to that name without defining it. */
bool object_refers(const struct object *object, const char *text);

/* How many symbols it has, the first being none. 0: not known. */
size_t object_count(const struct object *object);

/* The segment in which these bytes of the object are. NULL: they are not within one. */
const Elf64_Phdr *object_segment(const struct object *object, const void *start, size_t size);
