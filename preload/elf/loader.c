/*
 * Finds the loader's functions. Contract: loader.h.
 *
 * glibc 2.34 moved the dl* functions into libc under a new version, and kept the old versions. A library that refers to
 * these also loads into containers with an older glibc. There they are in libdl, which every MPI needs but tee does
 * not: hence weak. The references serve if the C library is unknown.
 */
#include "preload/elf/loader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/elf/object.h"

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__) || defined(__powerpc64__)
#define OLDEST "GLIBC_2.17"
#endif

#ifdef OLDEST
__asm__(".symver referred_symbol, dlsym@" OLDEST);
__asm__(".symver referred_open, dlopen@" OLDEST);
__asm__(".symver referred_address, dladdr@" OLDEST);
#else
#define referred_symbol  dlsym
#define referred_open    dlopen
#define referred_address dladdr
#endif

extern void *referred_symbol(void *, const char *) __attribute__((weak));
extern void *referred_open(const char *, int) __attribute__((weak));
extern int referred_address(const void *, Dl_info *) __attribute__((weak));

static struct loader loader;
static bool found;

/* Returns true for libc and libdl of glibc, and for the loader of musl, which is its C library. */
static bool is_c_library(const char *path)
{
	static const char *const names[] = {"libc.so.", "libdl.so.", "ld-musl-"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static uintptr_t function_find(const struct object *object, const char *text)
{
	const struct object_name name = object_name(text);
	const Elf64_Sym *symbol = object_find_any(object, &name);

	return symbol ? object->base + symbol->st_value : 0;
}

/* Takes the functions of the first C library in the list of loaded objects. Stops the walk there. */
static int library_match(struct dl_phdr_info *info, size_t size, void *context)
{
	struct loader *ret_loader = context;
	struct object object;

	(void)size;
	if (!info->dlpi_name || !is_c_library(info->dlpi_name) || !object_read(info, &object))
		return 0;
	*ret_loader = (struct loader){
	        .symbol = (void *(*)(void *, const char *))function_find(&object, "dlsym"),
	        .versioned = (void *(*)(void *, const char *, const char *))function_find(&object, "dlvsym"),
	        .open = (void *(*)(const char *, int))function_find(&object, "dlopen"),
	        .address = (int (*)(const void *, Dl_info *))function_find(&object, "dladdr"),
	};
	return ret_loader->symbol && ret_loader->open && ret_loader->address;
}

/* Two threads that call at the same time find the same. */
const struct loader *loader_get(void)
{
	struct loader own = {.symbol = NULL};

	if (__atomic_load_n(&found, __ATOMIC_ACQUIRE))
		return &loader;
	if (!dl_iterate_phdr(library_match, &own))
		own = (struct loader){referred_symbol, NULL, referred_open, referred_address};
	if (!own.symbol || !own.open || !own.address)
		return NULL;
	loader = own;
	__atomic_store_n(&found, true, __ATOMIC_RELEASE);
	return &loader;
}
