/*
 * Shows and hides names. names.h says why and how.
 *
 * All functions run in the constructor, or in the loader with its lock held: never twice at a time. They only read the
 * loader's own tables and call dl_iterate_phdr, which the loader allows there. It does not allow dlsym and dlopen.
 */
#include "preload/mpi/names.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/elf/object.h"
#include "preload/elf/rebind.h"
#include "preload/mpi/calls.h"

#define SEEN        1u /* version index of a symbol without a version */
#define SYMBOLS_MAX (CALL_ROWS * CALL_NAMES + 64)

/*
 * The MPI functions by index of the library's own symbol table; text NULL: not an MPI function. Empty until a
 * definition is asked for.
 */
static struct name {
	struct object_name name;
	uintptr_t next; /* address of the function that would be found without the library; 0: none */
} names[SYMBOLS_MAX];

static struct {
	struct object object;
	size_t symbols;
	size_t trigger;    /* index of __gmon_start__ in the symbol table */
	Elf64_Half unseen; /* version index of an unseen symbol */
} own;

static uintptr_t lowest, highest; /* range of the addresses in names[].next */
static bool acting, listed;

static struct {
	unsigned long long loads, unloads;
	uintptr_t mpi; /* base of the MPI whose names are seen; 0: none */
} noticed;

static bool is_mpi_name(const char *text)
{
	return strncmp(text, "MPI_", 4) == 0 || strncmp(text, "PMPI_", 5) == 0;
}

static bool is_own(const struct dl_phdr_info *info)
{
	return info->dlpi_phdr == own.object.segment;
}

static int own_note(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct object object;

	(void)size, (void)unused;
	if (!object_read(info, &object) || !object_segment(&object, &own, sizeof(own)))
		return 0;
	own.object = object;
	own.symbols = object_count(&object);
	return 1;
}

/* Finds this library's own symbols and versions. Returns false if the names cannot be shown and hidden. */
static bool own_find(void)
{
	const struct object_name trigger = object_name("__gmon_start__");
	const Elf64_Sym *symbol;

	dl_iterate_phdr(own_note, NULL);
	if (!own.object.version || own.symbols > SYMBOLS_MAX)
		return false;
	symbol = object_find_any(&own.object, &trigger);
	if (!symbol)
		return false;
	own.trigger = (size_t)(symbol - own.object.symbol);
	own.unseen = own.object.version[own.trigger];
	return true;
}

static bool is_own_mpi(size_t index)
{
	const Elf64_Sym *symbol = &own.object.symbol[index];

	return symbol->st_shndx != SHN_UNDEF && is_mpi_name(own.object.strings + symbol->st_name);
}

/* Lists the library's own MPI functions, with no next function yet. */
static void own_list(void)
{
	for (size_t i = 1; i < own.symbols; i++) {
		names[i].next = 0;
		if (is_own_mpi(i))
			names[i].name = object_name(own.object.strings + own.object.symbol[i].st_name);
	}
	listed = true;
}

/* Notes the object's definitions as those that are found next, for the names that have none yet. */
static void definitions_note(const struct object *object)
{
	for (size_t i = 1; i < own.symbols; i++) {
		const Elf64_Sym *found = NULL;

		if (names[i].name.text && !names[i].next)
			found = object_find(object, &names[i].name);
		if (!found)
			continue;
		names[i].next = object->base + found->st_value;
		lowest = lowest && lowest < names[i].next ? lowest : names[i].next;
		highest = highest > names[i].next ? highest : names[i].next;
	}
}

/*
 * Notes the definitions of one linked object, at the start. Objects come in the order in which the loader searches
 * them; definitions before ours are found anyway.
 */
static int linked_note(struct dl_phdr_info *info, size_t size, void *context)
{
	bool *behind = context;
	struct object object;

	(void)size;
	if (is_own(info))
		*behind = true;
	else if (*behind && object_read(info, &object))
		definitions_note(&object);
	return 0;
}

/* Lists them with the functions that objects linked behind this library define. */
static void linked_list(void)
{
	bool behind = false;

	own_list();
	dl_iterate_phdr(linked_note, &behind);
}

/*
 * Adds the protection `more` to the read-only pages with the versions; 0 takes it away. Returns false if that is not
 * possible.
 */
static bool versions_protect(int more)
{
	const Elf64_Phdr *segment =
	        object_segment(&own.object, own.object.version, own.symbols * sizeof(*own.object.version));
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)own.object.version & ~(page - 1);
	uintptr_t end = (uintptr_t)(own.object.version + own.symbols);

	/*
	 * Pages with code are left alone: they would have to become writable and executable, or stop being executable.
	 */
	if (!segment || segment->p_flags & PF_X)
		return false;
	return mprotect((void *)start, end - start, PROT_READ | (segment->p_flags & PF_W ? PROT_WRITE : more)) == 0;
}

static bool is_seen(size_t index)
{
	return own.object.version[index] != own.unseen;
}

/* Shows or hides the symbol with that index. */
static void version_set(size_t index, bool seen)
{
	Elf64_Half *version = (Elf64_Half *)(uintptr_t)&own.object.version[index];
	Elf64_Half wanted = seen ? SEEN : own.unseen;

	if (*version != wanted)
		__atomic_store_n(version, wanted, __ATOMIC_RELAXED);
}

/*
 * Shows the functions that the MPI has and hides all others. A function that is unseen in the file is shown only if the
 * library acts. any: there is an MPI; trigger: __gmon_start__ is shown. Returns false if nothing can be changed.
 */
static bool versions_settle(bool any, bool trigger)
{
	if (!versions_protect(PROT_WRITE))
		return false;
	for (size_t i = 1; i < own.symbols; i++)
		if (is_own_mpi(i))
			version_set(i, any && names[i].next && (acting || is_seen(i)));
	version_set(own.trigger, trigger);
	versions_protect(0);
	return true;
}

/*
 * Returns the address to which a reference should be bound. The loader bound it to us or past us before it was known
 * which functions are seen.
 */
static uintptr_t reference_choose(uintptr_t value, const char *text, bool weak)
{
	struct object_name name;
	const Elf64_Sym *symbol;
	uintptr_t mine, next;

	if (!object_segment(&own.object, (const void *)value, 1) && value - lowest > highest - lowest)
		return value;
	if (!is_mpi_name(text))
		return value;
	name = object_name(text);
	symbol = object_find_any(&own.object, &name);
	if (!symbol)
		return value;
	mine = own.object.base + symbol->st_value;
	if (value == mine && !listed)
		linked_list();
	next = names[symbol - own.object.symbol].next;
	if (is_seen((size_t)(symbol - own.object.symbol)))
		return value == next ? mine : value;
	return value == mine && (next || weak) ? next : value;
}

static int references_settle(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct object object;

	(void)size, (void)unused;
	if (!is_own(info) && object_read(info, &object))
		rebind(&object, reference_choose);
	return 0;
}

struct search {
	struct object mpi; /* first MPI that was found */
	unsigned mpis;
	bool begun, unloaded;
};

/* Returns true if nothing has been loaded or unloaded since the last call. Notes the present counts. */
static bool is_known(struct search *search, const struct dl_phdr_info *info)
{
	bool same = info->dlpi_adds == noticed.loads && info->dlpi_subs == noticed.unloads;

	search->begun = true;
	search->unloaded = info->dlpi_subs != noticed.unloads;
	noticed.loads = info->dlpi_adds;
	noticed.unloads = info->dlpi_subs;
	return same;
}

/* Notes an object that is an MPI. Stops the walk if nothing was loaded since the last one. */
static int loaded_note(struct dl_phdr_info *info, size_t size, void *context)
{
	const struct object_name init = object_name("PMPI_Init");
	struct search *search = context;
	struct object object;

	(void)size;
	if (!search->begun && is_known(search, info))
		return 1;
	if (!is_own(info) && object_read(info, &object) && object_find(&object, &init) && search->mpis++ == 0)
		search->mpi = object;
	return 0;
}

void names_settle(bool acts)
{
	struct search search = {.begun = true};

	if (!own_find())
		return;
	acting = acts;
	dl_iterate_phdr(loaded_note, &search);
	if (search.mpis > 0)
		linked_list();
	if (versions_settle(search.mpis > 0, acts && search.mpis == 0))
		dl_iterate_phdr(references_settle, NULL);
}

/*
 * Shows the functions of an MPI that has been loaded. With two MPIs, none is shown: a program
 * that loads both means one of them with each call, and gets that one if this library stands before neither.
 */
static void loaded_check(void)
{
	struct search search = {.mpis = 0};
	uintptr_t mpi;

	if (dl_iterate_phdr(loaded_note, &search) != 0)
		return;
	mpi = search.mpis == 1 ? search.mpi.base : 0;
	if (mpi == noticed.mpi && !search.unloaded)
		return;
	own_list();
	if (mpi)
		definitions_note(&search.mpi);
	if (versions_settle(mpi != 0, true))
		noticed.mpi = mpi;
}

/*
 * Resolves __gmon_start__, which the loader does in the middle of a dlopen. Returns NULL: the function does not exist,
 * as without the library.
 */
static void (*load_noticed(void))(void)
{
	loaded_check();
	return NULL;
}

__attribute__((ifunc("load_noticed"), visibility("default"))) void later_load_noticed(void);
__asm__(".symver later_load_noticed, __gmon_start__@MPIWAIT_LATER");
