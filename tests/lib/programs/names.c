/*
 * Prints which functions of the table appear to exist, and whose they are: "name weak dlsym dlvsym" lines, each with
 * the file that has the function or with "-".
 *
 * With -DNAMES_LIBRARY this is a library that has the weak references, with -DNAMES_CALLER a program that is linked to
 * it. Otherwise:
 *
 *     names                                    prints what the program itself sees
 *     names lazy|now local|global library...   loads these, one after the other, and prints what the last of them sees
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void names_say(void);

#ifdef NAMES_CALLER
int main(void)
{
	names_say();
	return 0;
}
#else

#define WEAK(name) extern void name(void) __attribute__((weak));

#define PLAIN(name)       EACH(MPI_##name) EACH(PMPI_##name)
#define LARGE(name)       PLAIN(name) EACH(MPI_##name##_c) EACH(PMPI_##name##_c)
#define NEWER_PLAIN(name) PLAIN(name)
#define NEWER_LARGE(name) LARGE(name)
#define VARIADIC(name)    PLAIN(name)

#define CALL(name, arguments, kind, large, ...) large(name)

#define EACH(name) WEAK(name)
#include "preload/contract/mpi_calls.def"
#undef EACH

static const char *owner(const void *function)
{
	Dl_info info;

	if (!function)
		return "-";
	if (!dladdr(function, &info) || !info.dli_fname)
		return "?";
	return strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1 : info.dli_fname;
}

static void say(const char *name, const void *weak)
{
	const void *found, *versioned;
	const char *error;

	dlerror();
	found = dlsym(RTLD_DEFAULT, name);
	error = dlerror();
	versioned = dlvsym(RTLD_DEFAULT, name, "LIBMPI_1");
	printf("%s %s %s %s %s\n", name, owner(weak), owner(found), owner(versioned), error ? "error" : "fine");
}

void names_say(void)
{
#define EACH(name) say(#name, (const void *)name);
#include "preload/contract/mpi_calls.def"
#undef EACH
}

#ifndef NAMES_LIBRARY
static int load(int count, char **arguments)
{
	int mode = (strcmp(arguments[0], "now") == 0 ? RTLD_NOW : RTLD_LAZY) |
	           (strcmp(arguments[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL);
	void *library = NULL;
	void (*names)(void);

	for (int i = 2; i < count; i++) {
		library = dlopen(arguments[i], mode);
		if (!library) {
			printf("%s\n", dlerror());
			return 1;
		}
	}
	names = (void (*)(void))dlsym(library, "names_say");
	if (!names)
		return 2;
	names();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return load(argc - 1, argv + 1);
	names_say();
	return 0;
}
#endif
#endif
