/* Walks an object's relocations. Invariant: rebind.h. */
#include "preload/elf/rebind.h"

#include <sys/mman.h>
#include <unistd.h>

/* Relocation types that store a symbol's address, a word. */
#if defined(__x86_64__)
#define STORES(type) ((type) == R_X86_64_64 || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_JUMP_SLOT)
#elif defined(__aarch64__)
#define STORES(type) ((type) == R_AARCH64_ABS64 || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_JUMP_SLOT)
#elif defined(__powerpc64__)
#define STORES(type) ((type) == R_PPC64_ADDR64 || (type) == R_PPC64_GLOB_DAT || (type) == R_PPC64_JMP_SLOT)
#else
#define STORES(type) ((void)(type), false)
#endif

/* The whole pages that the loader made read-only after it bound the object. */
struct pages {
	uintptr_t start, end;
	bool writable;
};

/* Returns the object's pages that the loader has made read-only. */
static struct pages sealed_find(const struct object *object)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct pages sealed = {.start = 0};

	for (size_t i = 0; i < object->segments; i++) {
		const Elf64_Phdr *segment = &object->segment[i];
		uintptr_t start = object->base + segment->p_vaddr;

		if (segment->p_type == PT_GNU_RELRO) {
			sealed.start = start & ~(page - 1);
			sealed.end = (start + segment->p_memsz) & ~(page - 1);
		}
	}
	return sealed;
}

/* Returns true if the slot's segment is writable: bound lazily, or not sealed. */
static bool is_open(const struct object *object, const uintptr_t *slot)
{
	const Elf64_Phdr *segment = object_segment(object, slot, sizeof(*slot));

	return segment && segment->p_flags & PF_W && !(segment->p_flags & PF_X);
}

/* Makes these pages writable. Returns false if that is not possible. */
static bool sealed_open(struct pages *sealed)
{
	if (!sealed->writable)
		sealed->writable =
		        mprotect((void *)sealed->start, sealed->end - sealed->start, PROT_READ | PROT_WRITE) == 0;
	return sealed->writable;
}

/* Changes a reference, if its page can be written. */
static void slot_write(const struct object *object, struct pages *sealed, uintptr_t *slot, uintptr_t value)
{
	bool in_sealed = (uintptr_t)slot >= sealed->start && (uintptr_t)slot < sealed->end;

	if (is_open(object, slot) && (!in_sealed || sealed_open(sealed)))
		__atomic_store_n(slot, value, __ATOMIC_RELAXED);
}

/* Asks for the value that a reference should have, if it is bound by name, and changes it to that. */
static void reference_choose(const struct object *object, struct pages *sealed, const Elf64_Rela *relocation,
                             rebind_choice *choose)
{
	const Elf64_Sym *symbol = &object->symbol[ELF64_R_SYM(relocation->r_info)];
	uintptr_t *slot = (uintptr_t *)(object->base + relocation->r_offset);
	uintptr_t value, wanted;

	if (!STORES(ELF64_R_TYPE(relocation->r_info)) || symbol == object->symbol || relocation->r_addend != 0)
		return;
	value = __atomic_load_n(slot, __ATOMIC_RELAXED);
	wanted = choose(value, object->strings + symbol->st_name, ELF64_ST_BIND(symbol->st_info) == STB_WEAK);
	if (wanted != value)
		slot_write(object, sealed, slot, wanted);
}

void rebind(const struct object *object, rebind_choice *choose)
{
	struct pages sealed = sealed_find(object);

	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < object->relocations[i]; j++)
			reference_choose(object, &sealed, &object->relocation[i][j], choose);
	if (sealed.writable)
		mprotect((void *)sealed.start, sealed.end - sealed.start, PROT_READ);
}
