/*
 * The resolver. Invariant: RTLD_NEXT has the first word, because another PMPI tool or an ABI translator may stand
 * between us and the MPI; only an MPI that was dlopened with RTLD_LOCAL is looked for by its file name.
 *
 * glibc 2.34 moved the dl* functions into libc under a new version. The old versions are still there, and a library
 * that names them loads into containers with an older glibc too. There they live in libdl, which every MPI needs but
 * tee does not: hence weak.
 */
#include "preload/mpi/next.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#define ERR_OTHER       16 /* MPI_ERR_OTHER of Open MPI and of the standard ABI */
#define ERR_OTHER_MPICH 15
#define LIBRARIES       8
#define NAME_MAX_BYTES  32

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__) || defined(__powerpc64__)
#define OLDEST "GLIBC_2.17"
#endif

#ifdef OLDEST
__asm__(".symver loader_sym, dlsym@" OLDEST);
__asm__(".symver loader_open, dlopen@" OLDEST);
__asm__(".symver loader_addr, dladdr@" OLDEST);
#else
#define loader_sym  dlsym
#define loader_open dlopen
#define loader_addr dladdr
#endif

extern void *loader_sym(void *, const char *) __attribute__((weak));
extern void *loader_open(const char *, int) __attribute__((weak));
extern int loader_addr(const void *, Dl_info *) __attribute__((weak));

void *next_table[CALL_ROWS * CALL_NAMES];

/* An array of arrays: pointers would be relocated in every process that the library is preloaded into. */
static const char call_names[CALL_ROWS][NAME_MAX_BYTES] = {
#define CALL(name, ...) #name,
#include "preload/mpi/mpi_calls.def"
#undef CALL
};

static const char *const prefixes[] = {
        "libmpi.so",    "libmpich.so", "libmpi_abi.so", "libmpi_cray", "libmpi_gnu",
        "libmpi_intel", "libmpi-",     "libmpich-",     "libmpi_abi-", NULL,
};

/* Libraries that stand between one ABI and another: MPItrampoline, Wi4MPI, Mukautuva. There are two MPIs then. */
static const char *const translators[] = {"libmpitrampoline", "libmpiwrapper", "libwi4mpi", "libmuk.", NULL};

static struct {
	void *reference; /* on the MPI, and the scope of one that is RTLD_LOCAL */
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

/* Only notes the names: the loader must not be asked to open anything from inside its own iteration. */
static int library_note(struct dl_phdr_info *info, size_t size, void *context)
{
	struct libraries *libraries = context;

	const char *name = info->dlpi_name ? base_name(info->dlpi_name) : "";

	(void)size;
	libraries->translated |= begins_so(name, translators);
	if (libraries->count < LIBRARIES && begins_so(name, prefixes))
		libraries->path[libraries->count++] = info->dlpi_name;
	return 0;
}

/* Takes a reference on every MPI library that is loaded, keeps the first, and notices a second one. */
static const char *libraries_scan(void)
{
	struct libraries libraries = {.count = 0};
	const char *first = NULL;
	void *provider = NULL;

	dl_iterate_phdr(library_note, &libraries);
	mpi.ambiguous |= libraries.translated;
	for (int i = 0; i < libraries.count; i++) {
		void *library = loader_open(libraries.path[i], RTLD_LAZY | RTLD_NOLOAD);
		void *init = library ? loader_sym(library, "PMPI_Init") : NULL;

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
	void *library = __atomic_load_n(&mpi.reference, __ATOMIC_ACQUIRE);
	void *variable = loader_sym ? loader_sym(RTLD_DEFAULT, name) : NULL;

	return !variable && library ? loader_sym(library, name) : variable;
}

static enum mpiwait_family family_of(const char *path)
{
	if (next_variable("ompi_mpi_comm_world"))
		return MPIWAIT_FAMILY_OPENMPI;
	if (!path)
		return MPIWAIT_FAMILY_UNKNOWN;
	return strncmp(base_name(path), "libmpi_abi", 10) == 0 ? MPIWAIT_FAMILY_ABI : MPIWAIT_FAMILY_MPICH;
}

void *next_symbol(const char *name)
{
	void *library = __atomic_load_n(&mpi.reference, __ATOMIC_ACQUIRE);
	void *symbol;

	if (!loader_sym)
		return NULL;
	symbol = loader_sym(RTLD_NEXT, name);
	return !symbol && library ? loader_sym(library, name) : symbol;
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
	struct named_library named = {.prefix = prefix};
	void *library;

	dl_iterate_phdr(named_library_note, &named);
	library = named.path && loader_open && loader_sym ? loader_open(named.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	return library ? loader_sym(library, name) : NULL;
}

struct text {
	uintptr_t inside, start, size;
};

static int text_note(struct dl_phdr_info *info, size_t size, void *context)
{
	struct text *text = context;

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type != PT_LOAD || text->inside - start >= info->dlpi_phdr[i].p_memsz)
			continue;
		text->start = start;
		text->size = info->dlpi_phdr[i].p_memsz;
		return 1;
	}
	return 0;
}

void next_text(uintptr_t *ret_start, uintptr_t *ret_size)
{
	struct text text = {.inside = (uintptr_t)next_symbol("PMPI_Init")};

	if (!text.inside || !dl_iterate_phdr(text_note, &text))
		return;
	*ret_start = text.start;
	*ret_size = text.size;
}

static void *name_find(const char *prefix, const char *name, const char *suffix)
{
	char symbol[NAME_MAX_BYTES + 8];

	strcpy(symbol, prefix);
	strcat(symbol, name);
	strcat(symbol, suffix);
	return next_symbol(symbol);
}

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
		void *found = name_find(names[i].prefix, call_names[row], names[i].suffix);

		__atomic_store_n(&next_table[row * CALL_NAMES + i], found ? found : missing, __ATOMIC_RELAXED);
	}
}

void next_resolve(void)
{
	Dl_info provider;
	const char *path;
	void *init;

	if (!loader_sym || !loader_open || !loader_addr)
		return;
	path = libraries_scan();
	init = next_symbol("PMPI_Init");
	if (!init)
		return;
	if (!path && loader_addr(init, &provider) && provider.dli_fname) {
		path = provider.dli_fname;
		mpi.reference = loader_open(path, RTLD_LAZY | RTLD_NOLOAD);
	}
	mpi.family = family_of(path);
	for (size_t row = 0; row < CALL_ROWS; row++)
		row_resolve(row, mpi.family == MPIWAIT_FAMILY_MPICH ? (void *)absent_mpich : (void *)absent);
	__atomic_store_n(&mpi.found, true, __ATOMIC_RELEASE);
}

/* With no MPI in sight the answer is not kept: one may be loaded later. */
void *next_find(size_t index)
{
	if (!__atomic_load_n(&mpi.found, __ATOMIC_ACQUIRE))
		next_resolve();
	return next_table[index] ? next_table[index] : (void *)absent;
}

bool next_is_initialized(void)
{
	int (*initialized)(int *) = NULL;
	int flag = 0;

	if (!loader_sym || !loader_open)
		return false;
	if (!mpi.reference)
		libraries_scan();
	if (mpi.reference)
		initialized = (int (*)(int *))loader_sym(mpi.reference, "PMPI_Initialized");
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
