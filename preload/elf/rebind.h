/*
 * Rebind: changes references that the loader has bound.
 *
 * Invariant: used only at the program's start. A reference changes only if it has exactly the expected value; one that
 * cannot be written stays.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/elf/object.h"

/* Returns the value that a reference should have. weak: the object can do without it. */
typedef uintptr_t rebind_choice(uintptr_t value, const char *name, bool weak);

/* Passes every reference of the object that was bound by name to `choose`. */
void rebind(const struct object *object, rebind_choice *choose);
