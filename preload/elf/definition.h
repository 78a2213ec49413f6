/*
 * Definitions: finds the loaded object that defines a function, in the symbol tables of the objects themselves.
 *
 * dl_iterate_phdr takes the loader's lock: not to be used on the path of a call.
 */
#pragma once

#include "preload/elf/object.h"

/* Reads the object that contains the address. Returns false if none does. */
bool definition_object(uintptr_t address, struct object *ret_object);

/* Writes the segment of an object that contains the address; nothing if none does. */
void definition_text(uintptr_t address, uintptr_t *ret_start, uintptr_t *ret_size);

/* Returns true if the object that contains the address defines the function there. */
bool definition_is_at(const char *name, uintptr_t address);

/*
 * Returns the address of the function in the first object behind the one that contains `inside` that defines it, 0 if
 * none does. Objects come in the order in which they were loaded. IFUNCs are skipped: only the loader knows where they
 * lead.
 */
uintptr_t definition_behind(const char *name, uintptr_t inside);
