/* Finds the SPANK plugins behind one of ours: those that were loaded later, and have a callback in each task. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/lib/check.h"

static void *load(const char *path)
{
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return handle;
}

/* Arguments: probe_stack.so and mover.so of tests/lib/doubles. */
int main(int argument_count, char **arguments)
{
	void *mover, *probe;
	bool (*sees_one_behind)(void);

	if (argument_count != 3)
		return 2;
	mover = load(arguments[2]);
	probe = load(arguments[1]);
	*(void **)&sees_one_behind = dlsym(probe, "probe_sees_one_behind");
	CHECK(sees_one_behind && !sees_one_behind());
	dlclose(mover);
	mover = load(arguments[2]);
	CHECK(sees_one_behind && sees_one_behind());
	dlclose(mover);
	CHECK(sees_one_behind && !sees_one_behind());
	dlclose(probe);
	return CHECK_RESULT;
}
