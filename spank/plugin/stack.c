#include "spank/plugin/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

/* Returns true if the object itself defines the function, not an object that it needs. */
static bool object_has(const struct link_map *object, const char *name)
{
	void *handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
	void *function = handle ? dlsym(handle, name) : NULL;
	struct link_map *found = NULL;
	Dl_info info;

	if (function && dladdr1(function, &info, (void **)&found, RTLD_DL_LINKMAP) == 0)
		found = NULL;
	if (handle)
		dlclose(handle);
	return found == object;
}

bool stack_has_task_init_behind(void)
{
	struct link_map *own;
	Dl_info info;

	if (dladdr1((void *)stack_has_task_init_behind, &info, (void **)&own, RTLD_DL_LINKMAP) == 0)
		return false;
	for (const struct link_map *object = own->l_next; object; object = object->l_next)
		if (object_has(object, "slurm_spank_task_init"))
			return true;
	return false;
}
