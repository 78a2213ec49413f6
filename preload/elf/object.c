/* Reads loaded objects. Invariant: object.h. */
#include "preload/elf/object.h"

#include <string.h>

#define HIDDEN_VERSION 0x8000u

/*
 * Returns the address of a table. glibc replaces the section's values by addresses where it can write them; other
 * loaders leave the file's values.
 */
static const void *address_of(const struct object *object, Elf64_Addr value)
{
	return (const void *)(value < object->base ? value + object->base : value);
}

/* Notes a table that an entry of the dynamic section tells of. */
static void entry_read(struct object *object, const Elf64_Dyn *entry)
{
	const void *address = address_of(object, entry->d_un.d_ptr);

	switch (entry->d_tag) {
	case DT_SYMTAB:
		object->symbol = address;
		break;
	case DT_STRTAB:
		object->strings = address;
		break;
	case DT_VERSYM:
		object->version = address;
		break;
	case DT_GNU_HASH:
		object->gnu_hash = address;
		break;
	case DT_HASH:
		object->hash = address;
		break;
	case DT_RELA:
		object->relocation[0] = address;
		break;
	case DT_RELASZ:
		object->relocations[0] = entry->d_un.d_val / sizeof(Elf64_Rela);
		break;
	case DT_JMPREL:
		object->relocation[1] = address;
		break;
	case DT_PLTRELSZ:
		object->relocations[1] = entry->d_un.d_val / sizeof(Elf64_Rela);
		break;
	default:
		break;
	}
}

bool object_read(const struct dl_phdr_info *info, struct object *ret_object)
{
	struct object object = {.base = info->dlpi_addr, .segment = info->dlpi_phdr, .segments = info->dlpi_phnum};
	const Elf64_Dyn *entry = NULL;

	for (size_t i = 0; i < object.segments; i++)
		if (object.segment[i].p_type == PT_DYNAMIC)
			entry = (const Elf64_Dyn *)(object.base + object.segment[i].p_vaddr);
	for (; entry && entry->d_tag != DT_NULL; entry++)
		entry_read(&object, entry);
	for (size_t i = 0; i < 2; i++)
		if (!object.relocation[i])
			object.relocations[i] = 0;
	if (!object.symbol || !object.strings || (!object.gnu_hash && !object.hash))
		return false;
	*ret_object = object;
	return true;
}

struct object_name object_name(const char *text)
{
	struct object_name name = {.text = text, .hash = 5381};

	for (; *text; text++)
		name.hash = name.hash * 33 + (unsigned char)*text;
	return name;
}

/* Returns the name's hash for the older table (System V ABI). */
static uint32_t older_hash(const char *text)
{
	uint32_t hash = 0;

	for (; *text; text++) {
		hash = (hash << 4) + (unsigned char)*text;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

/* Returns true if other objects can be bound to the symbol as to a function. */
static bool is_function(const Elf64_Sym *symbol)
{
	unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other), type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
	       (visibility == STV_DEFAULT || visibility == STV_PROTECTED) &&
	       (type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC);
}

/* Returns true if the symbol is the wanted definition, whatever its version. */
static bool is_match(const struct object *object, size_t index, const struct object_name *name)
{
	const Elf64_Sym *symbol = &object->symbol[index];

	return is_function(symbol) && strcmp(object->strings + symbol->st_name, name->text) == 0 &&
	       (!name->address || name->address == object->base + symbol->st_value ||
	        ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC);
}

struct gnu_table {
	uint32_t buckets, first, words, shift;
	const Elf64_Addr *bloom;
	const uint32_t *bucket;
	const uint32_t *chain;
};

static struct gnu_table gnu_table(const uint32_t *words)
{
	struct gnu_table table = {.buckets = words[0], .first = words[1], .words = words[2], .shift = words[3]};

	table.bloom = (const Elf64_Addr *)(const void *)(words + 4);
	table.bucket = (const uint32_t *)(const void *)(table.bloom + table.words);
	table.chain = table.bucket + table.buckets;
	return table;
}

/* Returns the index of the definition by the GNU hash table, 0 if there is none. */
static size_t gnu_find(const struct object *object, const struct object_name *name)
{
	const uint32_t bits = 8 * sizeof(Elf64_Addr);
	struct gnu_table table = gnu_table(object->gnu_hash);
	Elf64_Addr word = table.words ? table.bloom[name->hash / bits % table.words] : 0;
	uint32_t index;

	if (!(word >> name->hash % bits & word >> (name->hash >> table.shift) % bits & 1) || table.buckets == 0)
		return 0;
	index = table.bucket[name->hash % table.buckets];
	for (bool last = index < table.first; !last; index++) {
		uint32_t hash = table.chain[index - table.first];

		if ((hash | 1) == (name->hash | 1) && is_match(object, index, name))
			return index;
		last = hash & 1;
	}
	return 0;
}

/* Returns the index of the definition by the older hash table, 0 if there is none. */
static size_t older_find(const struct object *object, const struct object_name *name)
{
	uint32_t buckets = object->hash[0];
	const uint32_t *bucket = object->hash + 2, *chain = bucket + buckets;

	if (buckets == 0)
		return 0;
	for (uint32_t index = bucket[older_hash(name->text) % buckets]; index != 0; index = chain[index])
		if (is_match(object, index, name))
			return index;
	return 0;
}

const Elf64_Sym *object_find_any(const struct object *object, const struct object_name *name)
{
	size_t index = object->gnu_hash ? gnu_find(object, name) : older_find(object, name);

	return index ? &object->symbol[index] : NULL;
}

const Elf64_Sym *object_find(const struct object *object, const struct object_name *name)
{
	const Elf64_Sym *symbol = object_find_any(object, name);

	return symbol && object->version && object->version[symbol - object->symbol] & HIDDEN_VERSION ? NULL : symbol;
}

bool object_defines(const struct object *object, struct object_name name, uintptr_t address)
{
	name.address = address;
	return object_find_any(object, &name) != NULL;
}

bool object_refers(const struct object *object, const char *text)
{
	size_t count = object_count(object);

	for (size_t i = 1; i < count; i++)
		if (object->symbol[i].st_shndx == SHN_UNDEF &&
		    strcmp(object->strings + object->symbol[i].st_name, text) == 0)
			return true;
	return false;
}

size_t object_count(const struct object *object)
{
	struct gnu_table table;
	uint32_t last = 0;

	if (object->hash)
		return object->hash[1];
	table = gnu_table(object->gnu_hash);
	for (uint32_t i = 0; i < table.buckets; i++)
		if (table.bucket[i] > last)
			last = table.bucket[i];
	if (last < table.first)
		return table.first;
	while (!(table.chain[last - table.first] & 1))
		last++;
	return last + 1;
}

const Elf64_Phdr *object_segment(const struct object *object, const void *start, size_t size)
{
	uintptr_t offset = (uintptr_t)start - object->base;

	for (size_t i = 0; i < object->segments; i++) {
		const Elf64_Phdr *segment = &object->segment[i];

		if (segment->p_type == PT_LOAD && offset >= segment->p_vaddr && size <= segment->p_memsz &&
		    offset - segment->p_vaddr <= segment->p_memsz - size)
			return segment;
	}
	return NULL;
}
