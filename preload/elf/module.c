/* Asks the loader for the module of an address. Contract: module.h. */
#include "preload/elf/module.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

struct search {
	uintptr_t address;
	struct module *module;
};

/* Returns true if these bytes are loaded and readable. */
static bool is_loaded(const struct dl_phdr_info *info, uintptr_t offset, size_t size)
{
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_R && offset >= segment->p_vaddr &&
		    offset - segment->p_vaddr < segment->p_memsz &&
		    size <= segment->p_memsz - (offset - segment->p_vaddr))
			return true;
	}
	return false;
}

static size_t padded(size_t size, size_t align)
{
	return (size + align - 1) / align * align;
}

/* Reads the build id from the notes of one segment. */
static void notes_read(const char *at, const char *end, size_t align, struct mpiwait_module *file)
{
	while ((size_t)(end - at) >= sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *note = (const Elf64_Nhdr *)(const void *)at;
		const char *owner = at + sizeof(*note);
		size_t size = padded(sizeof(*note) + note->n_namesz, align);

		if (size > (size_t)(end - at) || note->n_descsz > (size_t)(end - at) - size)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof("GNU") &&
		    memcmp(owner, "GNU", sizeof("GNU")) == 0 && note->n_descsz <= MPIWAIT_BUILD_ID) {
			memcpy(file->build_id, at + size, note->n_descsz);
			file->build_id_size = note->n_descsz;
			return;
		}
		size = padded(size + note->n_descsz, align);
		if (size > (size_t)(end - at))
			return;
		at += size;
	}
}

static void build_id_read(const struct dl_phdr_info *info, struct mpiwait_module *file)
{
	for (size_t i = 0; i < info->dlpi_phnum && file->build_id_size == 0; i++) {
		const Elf64_Phdr *segment = &info->dlpi_phdr[i];
		const char *notes = (const char *)(info->dlpi_addr + segment->p_vaddr);

		if (segment->p_type == PT_NOTE && is_loaded(info, segment->p_vaddr, segment->p_memsz))
			notes_read(notes, notes + segment->p_memsz, segment->p_align == 8 ? 8 : 4, file);
	}
}

/* Reads the name of the module's file. The loader has none for the program itself. */
static void name_read(const struct dl_phdr_info *info, struct mpiwait_module *file)
{
	char path[4096];
	const char *name = info->dlpi_name, *slash;
	ssize_t length = name && name[0] ? -1 : readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length > 0) {
		path[length] = '\0';
		name = path;
	}
	slash = name ? strrchr(name, '/') : NULL;
	if (slash)
		name = slash + 1;
	for (size_t i = 0; name && name[i] && i < sizeof(file->name) - 1; i++)
		file->name[i] = name[i];
}

static int object_match(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;

	(void)size;
	if (!is_loaded(info, search->address - info->dlpi_addr, 1))
		return 0;
	*search->module = (struct module){.identity = info->dlpi_phdr, .base = info->dlpi_addr};
	name_read(info, &search->module->file);
	build_id_read(info, &search->module->file);
	return 1;
}

bool module_find(uintptr_t address, struct module *ret_module)
{
	struct search search = {address, ret_module};

	return dl_iterate_phdr(object_match, &search) != 0;
}
