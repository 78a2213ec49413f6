/*
 * Loader: dlsym, dlvsym, dlopen and dladdr as the C library defines them.
 *
 * Invariant: a call of them reaches the loader. A call through our own references may not. Tools that wrap functions
 * rewrite every object's tables of calls, ours too, or define dlsym themselves. A tool's dlsym answers with the tool's
 * wrapper; or, if asked for the function behind us, it searches behind the tool and finds us, in endless recursion.
 */
#pragma once

#include <dlfcn.h>

struct loader {
	void *(*symbol)(void *handle, const char *name);
	void *(*versioned)(void *handle, const char *name,
	                   const char *version); /* NULL: the C library has none (musl) */
	void *(*open)(const char *path, int mode);
	int (*address)(const void *address, Dl_info *ret_info);
};

/*
 * Returns the functions, NULL if the process has none: before glibc 2.34 they are in libdl, which not every program
 * loads.
 */
const struct loader *loader_get(void);
