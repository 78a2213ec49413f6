/*
 * dlsym, dlvsym, dlopen and dladdr as the C library defines them.
 *
 * Invariant: a call of them reaches the loader. Our references to these names need not: tools that wrap functions
 * rewrite the tables of calls of every object, ours too, or define dlsym themselves. Such a dlsym answers with the
 * tool's wrapper, or looks behind the tool where we ask for what is behind us, and finds us: an endless recursion.
 */
#pragma once

#include <dlfcn.h>

struct loader {
	void *(*symbol)(void *handle, const char *name);
	void *(*versioned)(void *handle, const char *name, const char *version); /* NULL: there is none (musl) */
	void *(*open)(const char *path, int mode);
	int (*address)(const void *address, Dl_info *ret_info);
};

/* Returns NULL in a process that has none of them: before glibc 2.34 they live in libdl, which not everything loads. */
const struct loader *loader_get(void);
