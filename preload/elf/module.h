/*
 * Module: the program or library that contains an address, by its file's name and its build id.
 *
 * Asks the loader, which may take its lock: not to be used on the path of a call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"

/* A loaded program or library. */
struct module {
	const void *identity; /* identifies the module while it is loaded */
	uintptr_t base;       /* an address less the base is an address in the file */
	struct mpiwait_module file;
};

/* Finds the module that contains the address. Returns false if none does. May change errno. */
bool module_find(uintptr_t address, struct module *ret_module);
