/*
 * Definitions: finds the loaded object that defines a function, in the symbol tables of the objects themselves.
 *
 * dl_iterate_phdr takes the loader's lock: not for the path of a call.
 */
#pragma once

#include "preload/elf/object.h"

/* Reads the object that the address is in. Returns false for an address that is in none. */
bool definition_object(uintptr_t address, struct object *ret_object);

/* Writes which segment of its object the address is in; nothing for an address that is in none. */
void definition_text(uintptr_t address, uintptr_t *ret_start, uintptr_t *ret_size);

/* Returns true if the object that the address is in defines the function there. */
bool definition_is_at(const char *name, uintptr_t address);

/*
 * Returns where the first object behind that of `place` defines the function, 0 if none does. Objects come in the order
 * in which they were loaded. IFUNCs are passed over: only the loader knows where they lead.
 */
uintptr_t definition_behind(const char *name, uintptr_t place);
