/*
 * Which program or library an address belongs to, by the name of its file and the identity that the linker gave it.
 *
 * Asks the loader, which may take its lock: not for the path of a call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"

struct module {
	const void *identity; /* as long as it is loaded */
	uintptr_t base;       /* an address less that is what its file says */
	struct mpiwait_module file;
};

/* Returns false for an address that is in none. May change errno. */
bool module_find(uintptr_t address, struct module *ret_module);
