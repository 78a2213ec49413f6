/* Walks the loaded objects. Contract: definition.h. */
#include "preload/elf/definition.h"

struct search {
	uintptr_t inside;
	struct object_name name;
	struct object object;
	uintptr_t address;
	bool passed; /* the object that contains `inside` was passed */
};

static bool is_inside(const struct dl_phdr_info *info, uintptr_t address)
{
	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
			return true;
	return false;
}

static int object_match(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;

	(void)size;
	return is_inside(info, search->inside) && object_read(info, &search->object);
}

static int behind_match(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;
	const Elf64_Sym *symbol = NULL;

	(void)size;
	if (search->passed && object_read(info, &search->object))
		symbol = object_find(&search->object, &search->name);
	search->passed |= is_inside(info, search->inside);
	if (!symbol || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
		return 0;
	search->address = search->object.base + symbol->st_value;
	return 1;
}

bool definition_object(uintptr_t address, struct object *ret_object)
{
	struct search search = {.inside = address};

	if (!dl_iterate_phdr(object_match, &search))
		return false;
	*ret_object = search.object;
	return true;
}

void definition_text(uintptr_t address, uintptr_t *ret_start, uintptr_t *ret_size)
{
	const Elf64_Phdr *segment = NULL;
	struct object object;

	if (definition_object(address, &object))
		segment = object_segment(&object, (const void *)address, 1);
	if (!segment)
		return;
	*ret_start = object.base + segment->p_vaddr;
	*ret_size = segment->p_memsz;
}

bool definition_is_at(const char *name, uintptr_t address)
{
	struct object object;

	return definition_object(address, &object) && object_defines(&object, object_name(name), address);
}

uintptr_t definition_behind(const char *name, uintptr_t inside)
{
	struct search search = {.inside = inside, .name = object_name(name)};

	return dl_iterate_phdr(behind_match, &search) ? search.address : 0;
}
