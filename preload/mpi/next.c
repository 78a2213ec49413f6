/*
 * The resolver. Invariant: RTLD_NEXT comes first, because another PMPI tool or an ABI translator may stand between us
 * and the MPI. Only an MPI that was dlopened with RTLD_LOCAL is looked up by its file, whatever its name: it defines
 * PMPI_Init. The loader's answer counts if an object defines the name at that address. Otherwise an auditor (LD_AUDIT)
 * may have answered with a wrapper of its own, whose next function is ours. Then the first definition behind us counts.
 */
#include "preload/mpi/next.h"

#include <link.h>
#include <string.h>

#include "preload/elf/definition.h"
#include "preload/elf/loader.h"
#include "preload/mpi/forward.h"

#define ERR_OTHER       16 /* MPI_ERR_OTHER of Open MPI and of the standard ABI */
#define ERR_OTHER_MPICH 15
#define LIBRARIES       8
#define NAME_MAX_BYTES  32

void *next_table[CALL_ROWS * CALL_NAMES];

/* An array of arrays: pointers would be relocated in every process that the library is preloaded into. */
static const char call_names[CALL_ROWS][NAME_MAX_BYTES] = {
#define CALL(name, ...) #name,
#include "preload/contract/mpi_calls.def"
#undef CALL
};

static const uint8_t call_kinds[CALL_ROWS] = {
#define CALL(name, arguments, kind, ...) CALL_##kind,
#include "preload/contract/mpi_calls.def"
#undef CALL
};

/* Libraries that translate between two ABIs: MPItrampoline, Wi4MPI, Mukautuva. With them, there are two MPIs. */
static const char *const translators[] = {"libmpitrampoline", "libmpiwrapper", "libwi4mpi", "libmuk.", NULL};

static struct {
	void *reference; /* handle that keeps the MPI loaded, and the scope of an RTLD_LOCAL one */
	enum mpiwait_family family;
	bool found;
	bool ambiguous;
} mpi;

static int absent(void)
{
	return ERR_OTHER;
}

static int absent_mpich(void)
{
	return ERR_OTHER_MPICH;
}

const char *next_call_name(enum call_row row)
{
	return call_names[row];
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool begins_so(const char *name, const char *const *prefix)
{
	for (; *prefix; prefix++)
		if (strncmp(name, *prefix, strlen(*prefix)) == 0)
			return true;
	return false;
}

struct libraries {
	const char *path[LIBRARIES];
	int count;
	bool translated;
};

/* Notes the file names only: the loader must not be asked to open anything from inside its own iteration. */
static int library_note(struct dl_phdr_info *info, size_t size, void *context)
{
	const struct object_name init = object_name("PMPI_Init");
	struct libraries *libraries = context;
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	struct object object;

	(void)size;
	libraries->translated |= begins_so(base_name(path), translators);
	if (libraries->count < LIBRARIES && path[0] && object_read(info, &object) &&
	    !object_segment(&object, &mpi, sizeof(mpi)) && object_find(&object, &init))
		libraries->path[libraries->count++] = path;
	return 0;
}

/*
 * Takes a reference on every MPI library that is loaded and keeps the first as the MPI. A second provider of PMPI_Init
 * makes the MPI ambiguous. Returns the first one's path, NULL if none is loaded.
 */
static const char *libraries_scan(const struct loader *loader)
{
	struct libraries libraries = {.count = 0};
	const char *first = NULL;
	void *provider = NULL;

	dl_iterate_phdr(library_note, &libraries);
	mpi.ambiguous |= libraries.translated;
	for (int i = 0; i < libraries.count; i++) {
		void *library = loader->open(libraries.path[i], RTLD_LAZY | RTLD_NOLOAD);
		void *init = library ? loader->symbol(library, "PMPI_Init") : NULL;

		if (!init)
			continue;
		if (!provider) {
			provider = init;
			first = libraries.path[i];
			__atomic_store_n(&mpi.reference, library, __ATOMIC_RELEASE);
		} else if (init != provider) {
			mpi.ambiguous = true;
		}
	}
	return first;
}

void *next_variable(const char *name)
{
	const struct loader *loader = loader_get();
	void *library = __atomic_load_n(&mpi.reference, __ATOMIC_ACQUIRE);
	void *variable = loader ? loader->symbol(RTLD_DEFAULT, name) : NULL;

	return !variable && library && loader ? loader->symbol(library, name) : variable;
}

static enum mpiwait_family family_of(const char *path)
{
	if (next_variable("ompi_mpi_comm_world"))
		return MPIWAIT_FAMILY_OPENMPI;
	if (!path)
		return MPIWAIT_FAMILY_UNKNOWN;
	return strncmp(base_name(path), "libmpi_abi", 10) == 0 ? MPIWAIT_FAMILY_ABI : MPIWAIT_FAMILY_MPICH;
}

/* Returns the loader's answer if an object defines the name there, else the first definition behind us, if any. */
static void *definition_of(const char *name, void *answer)
{
	uintptr_t defined;

	if (definition_is_at(name, (uintptr_t)answer))
		return answer;
	defined = definition_behind(name, (uintptr_t)next_table);
	return defined ? (void *)defined : answer;
}

void *next_symbol(const char *name)
{
	const struct loader *loader = loader_get();
	void *library = __atomic_load_n(&mpi.reference, __ATOMIC_ACQUIRE);
	void *symbol;

	if (!loader)
		return NULL;
	symbol = loader->symbol(RTLD_NEXT, name);
	if (!symbol && library)
		symbol = loader->symbol(library, name);
	return symbol ? definition_of(name, symbol) : NULL;
}

struct named_library {
	const char *prefix;
	const char *path;
};

static int named_library_note(struct dl_phdr_info *info, size_t size, void *context)
{
	struct named_library *library = context;

	(void)size;
	if (!info->dlpi_name || strncmp(base_name(info->dlpi_name), library->prefix, strlen(library->prefix)) != 0)
		return 0;
	library->path = info->dlpi_name;
	return 1;
}

void *next_symbol_in(const char *prefix, const char *name)
{
	const struct loader *loader = loader_get();
	struct named_library named = {.prefix = prefix};
	void *library;

	dl_iterate_phdr(named_library_note, &named);
	library = named.path && loader ? loader->open(named.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	return library ? loader->symbol(library, name) : NULL;
}

static void *versioned_symbol(const struct loader *loader, void *handle, const char *name, const char *version)
{
	return version && loader->versioned ? loader->versioned(handle, name, version) : loader->symbol(handle, name);
}

void *next_versioned(const char *name, const char *version, const void *caller)
{
	const struct loader *loader = loader_get();
	void *symbol, *scope = NULL;
	Dl_info object;

	if (!loader)
		return NULL;
	symbol = versioned_symbol(loader, RTLD_NEXT, name, version);
	if (symbol)
		return definition_of(name, symbol);
	if (loader->address(caller, &object) && object.dli_fname)
		scope = loader->open(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (scope)
		symbol = versioned_symbol(loader, scope, name, version);
	return symbol && !next_in_same_object(symbol, next_table) ? symbol : NULL;
}

void *next_symbol_for(const char *name, const void *caller, const char *prefix)
{
	void *found = next_versioned(name, NULL, caller);

	found = found ? found : next_symbol(name);
	return found ? found : next_symbol_in(prefix, name);
}

bool next_is_of_openmpi(const void *address)
{
	static const char *const parts[] = {"libmpi", "libmca_", "libopen-", "mca_", NULL};
	const struct loader *loader = loader_get();
	Dl_info object;

	return loader && loader->address(address, &object) && object.dli_fname &&
	       begins_so(base_name(object.dli_fname), parts);
}

bool next_defines(const void *function, const char *name)
{
	const struct object_name wanted = object_name(name);
	struct object object;

	return definition_object((uintptr_t)function, &object) && object_find_any(&object, &wanted);
}

bool next_in_same_object(const void *one, const void *other)
{
	struct object first, second;

	return definition_object((uintptr_t)one, &first) && definition_object((uintptr_t)other, &second) &&
	       first.base == second.base;
}

void next_text(const void *function, uintptr_t *ret_start, uintptr_t *ret_size)
{
	definition_text((uintptr_t)function, ret_start, ret_size);
}

bool next_refers(const void *function, const char *name)
{
	struct object object;

	return definition_object((uintptr_t)function, &object) && object_refers(&object, name);
}

/* Returns true if forward.h keeps the function: it belongs to a tool that may bring calls back, or to any for MARK. */
static bool found_guard(size_t row, size_t index, const char *name, void *found)
{
	char profiled[NAME_MAX_BYTES + 8] = "P";
	bool marks = call_kinds[row] == CALL_MARK;

	if (!found || !(marks ? forward_is_tool(found) : forward_may_return(name, found)))
		return false;
	return forward_guard(index, name, found, name[0] == 'P' ? NULL : next_symbol(strcat(profiled, name)));
}

/* Looks up the four functions of a row. One that is missing becomes `missing`, which returns an MPI error code. */
static void row_resolve(size_t row, void *missing)
{
	static const struct {
		const char *prefix, *suffix;
	} names[CALL_NAMES] = {
	        [NAME_MPI] = {"MPI_", ""},
	        [NAME_PMPI] = {"PMPI_", ""},
	        [NAME_MPI_LARGE] = {"MPI_", "_c"},
	        [NAME_PMPI_LARGE] = {"PMPI_", "_c"},
	};

	for (size_t i = 0; i < CALL_NAMES; i++) {
		size_t index = row * CALL_NAMES + i;
		char symbol[NAME_MAX_BYTES + 8];
		void *found;

		strcpy(symbol, names[i].prefix);
		strcat(symbol, call_names[row]);
		strcat(symbol, names[i].suffix);
		found = next_symbol(symbol);
		if (found_guard(row, index, symbol, found))
			continue;
		__atomic_store_n(&next_table[index], found ? found : missing, __ATOMIC_RELAXED);
	}
}

void next_resolve(void)
{
	const struct loader *loader = loader_get();
	Dl_info provider;
	const char *path;
	void *init;

	if (!loader)
		return;
	path = libraries_scan(loader);
	init = next_symbol("PMPI_Init");
	if (!init)
		return;
	if (!path && loader->address(init, &provider) && provider.dli_fname) {
		path = provider.dli_fname;
		mpi.reference = loader->open(path, RTLD_LAZY | RTLD_NOLOAD);
	}
	mpi.family = family_of(path);
	for (size_t row = 0; row < CALL_ROWS; row++)
		row_resolve(row, mpi.family == MPIWAIT_FAMILY_MPICH ? (void *)absent_mpich : (void *)absent);
	__atomic_store_n(&mpi.found, true, __ATOMIC_RELEASE);
}

/* Without an MPI the answer is not kept: one may be loaded later. */
void *next_find(size_t index)
{
	if (!__atomic_load_n(&mpi.found, __ATOMIC_ACQUIRE))
		next_resolve();
	if (next_known(index))
		return next_known(index);
	return forward_tool(index) ? forward_tool(index) : (void *)absent;
}

bool next_is_initialized(void)
{
	const struct loader *loader = loader_get();
	int (*initialized)(int *) = NULL;
	int flag = 0;

	if (!loader)
		return false;
	if (!mpi.reference)
		libraries_scan(loader);
	if (mpi.reference)
		initialized = (int (*)(int *))loader->symbol(mpi.reference, "PMPI_Initialized");
	return initialized && initialized(&flag) == 0 && flag != 0;
}

enum mpiwait_family next_family(void)
{
	return mpi.family;
}

bool next_is_ambiguous(void)
{
	return mpi.ambiguous;
}
