/*
 * Tools that wrap MPI_Init, MPI_Barrier and MPI_Test, and count their calls. Each finds the next function in another
 * way, which could make the tool and a library beside it call each other without end.
 *
 *     TABLES    rewrites the tables of calls of all objects, and lets dlsym answer with its wrappers
 *     DLSYM     counts nothing, and defines dlsym: the next function after the caller is then the next after the tool
 *     RETURNS   defines the MPI functions, and calls the first of that name that is not its own
 *     JUMPS     the same, by a jump
 *     PROFILES  the same, and calls the PMPI function, as most tools do
 *     AUDITS    the loader asks it about every binding (LD_AUDIT)
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

typedef uintptr_t word;

enum { INIT, BARRIER, TEST, NAMES };

static const char *const names[NAMES] = {"MPI_Init", "MPI_Barrier", "MPI_Test"};
static int calls[NAMES];
static void *next[NAMES];

static inline int name_find(const char *name)
{
	for (int i = 0; i < NAMES; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	return NAMES;
}

static void say(void)
{
	dprintf(1, "tool_init %d\ntool_barrier %d\ntool_test %d\n", calls[INIT], calls[BARRIER], calls[TEST]);
}

static int (*next_of(int name))(word, word, word)
{
	calls[name]++;
	return (int (*)(word, word, word))next[name];
}

#ifdef PROFILES
int PMPI_Init(word, word, word);
int PMPI_Barrier(word, word, word);
int PMPI_Test(word, word, word);
#endif

#ifdef JUMPS
#define GO_ON(name, a, b, c) return next_of(name)(a, b, c)
#else
#define GO_ON(name, a, b, c)                        \
	volatile int code = next_of(name)(a, b, c); \
	return code
#endif

static int init(word a, word b, word c)
{
	GO_ON(INIT, a, b, c);
}

static int barrier(word a, word b, word c)
{
	GO_ON(BARRIER, a, b, c);
}

static int test(word a, word b, word c)
{
	GO_ON(TEST, a, b, c);
}

static void *const wrappers[NAMES] __attribute__((unused)) = {(void *)init, (void *)barrier, (void *)test};

#if defined(RETURNS) || defined(JUMPS) || defined(PROFILES)
EXPORT int MPI_Init(word, word, word) __attribute__((alias("init")));
EXPORT int MPI_Barrier(word, word, word) __attribute__((alias("barrier")));
EXPORT int MPI_Test(word, word, word) __attribute__((alias("test")));

static void __attribute__((constructor)) start(void)
{
#ifdef PROFILES
	next[INIT] = (void *)PMPI_Init;
	next[BARRIER] = (void *)PMPI_Barrier;
	next[TEST] = (void *)PMPI_Test;
#else
	for (int i = 0; i < NAMES; i++) {
		next[i] = dlsym(RTLD_DEFAULT, names[i]);
		if (next[i] == wrappers[i])
			next[i] = dlsym(RTLD_NEXT, names[i]);
	}
#endif
}
#endif

#ifdef DLSYM
/* The loader sees this tool as the caller. */
EXPORT void *dlsym(void *handle, const char *name)
{
	void *(*real)(void *, const char *) =
	        (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	void *volatile answer = real(handle, name);

	return answer;
}
#endif

#ifdef TABLES
static void *(*true_dlsym)(void *, const char *);

static void *dlsym_wrapped(void *handle, const char *name)
{
	int found = name_find(name);
	void *volatile answer = found < NAMES ? wrappers[found] : true_dlsym(handle, name);

	return answer;
}

static void entry_write(void **entry, void *value)
{
	mprotect((void *)((uintptr_t)entry & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
	*entry = value;
}

static void table_write(uintptr_t base, const Elf64_Rela *entry, size_t entries, const Elf64_Sym *symbol,
                        const char *strings)
{
	for (size_t i = 0; i < entries; i++) {
		const char *name = strings + symbol[ELF64_R_SYM(entry[i].r_info)].st_name;
		int found = name_find(name);

		if (ELF64_R_SYM(entry[i].r_info) == 0 || entry[i].r_addend != 0)
			continue;
		if (found < NAMES)
			entry_write((void **)(base + entry[i].r_offset), wrappers[found]);
		if (strcmp(name, "dlsym") == 0)
			entry_write((void **)(base + entry[i].r_offset), (void *)dlsym_wrapped);
	}
}

static int object_write(struct dl_phdr_info *info, size_t size, void *own)
{
	const Elf64_Rela *entries[2] = {NULL, NULL};
	const Elf64_Sym *symbol = NULL;
	const char *strings = NULL;
	size_t bytes[2] = {0, 0};
	const Elf64_Dyn *each = NULL;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			each = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	if (!each || info->dlpi_addr == (uintptr_t)own || strstr(info->dlpi_name, "vdso") ||
	    strstr(info->dlpi_name, "ld-"))
		return 0;
	for (; each->d_tag != DT_NULL; each++) {
		const void *address = (const void *)each->d_un.d_ptr;

		if (each->d_tag == DT_RELA)
			entries[0] = address;
		if (each->d_tag == DT_RELASZ)
			bytes[0] = each->d_un.d_val;
		if (each->d_tag == DT_JMPREL)
			entries[1] = address;
		if (each->d_tag == DT_PLTRELSZ)
			bytes[1] = each->d_un.d_val;
		if (each->d_tag == DT_SYMTAB)
			symbol = address;
		if (each->d_tag == DT_STRTAB)
			strings = address;
	}
	for (int i = 0; i < 2 && symbol && strings; i++)
		if (entries[i])
			table_write(info->dlpi_addr, entries[i], bytes[i] / sizeof(Elf64_Rela), symbol, strings);
	return 0;
}

static void __attribute__((constructor)) start(void)
{
	Dl_info own;

	dladdr((void *)say, &own);
	true_dlsym = dlsym;
	for (int i = 0; i < NAMES; i++)
		next[i] = dlsym(RTLD_DEFAULT, names[i]);
	dl_iterate_phdr(object_write, own.dli_fbase);
}
#endif

#ifdef AUDITS
EXPORT unsigned la_version(unsigned version);
EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
EXPORT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                              const char *name);

unsigned la_version(unsigned version)
{
	return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
	(void)map, (void)space, (void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

/* The first binding of a name is the program's. */
uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name)
{
	int found = name_find(name);

	(void)index, (void)from, (void)to, (void)flags;
	if (found == NAMES)
		return symbol->st_value;
	if (!next[found])
		next[found] = (void *)symbol->st_value;
	return (uintptr_t)wrappers[found];
}
#endif

static void __attribute__((destructor)) stop(void)
{
	if (calls[INIT] + calls[BARRIER] + calls[TEST] > 0)
		say();
}
