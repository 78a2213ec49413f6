/*
 * References that the loader has bound, bound anew.
 *
 * Invariant: only at the start of the program, and only where a reference has exactly the value that is expected; what
 * cannot be written stays as it is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/elf/object.h"

/* Given a reference's value, its name, and whether the object can do without it, returns the value that it should have.
 */
typedef uintptr_t rebind_choice(uintptr_t value, const char *name, bool weak);

/* Looks at all references of the object that were bound by name. */
void rebind(const struct object *object, rebind_choice *choose);
