#include "spank/policy/openmp.h"

#include <stdio.h>
#include <string.h>

#include "spank/base/files.h"

#define BOUND_NS   UINT64_C(1000000) /* waking a worker takes 40 to 120 us: beyond this, that is little */
#define SPINS_MOST UINT64_C(300000)  /* GNU's own default */
#define SPINS_MIN  UINT64_C(1000)
#define TURNS      200u
#define PIECES     10u

static const char *const names[OPENMP_VARIABLES] = {
        [OPENMP_WAIT_POLICY] = "OMP_WAIT_POLICY",
        [OPENMP_GNU_SPINCOUNT] = "GOMP_SPINCOUNT",
        [OPENMP_LLVM_BLOCKTIME] = "KMP_BLOCKTIME",
        [OPENMP_LLVM_LIBRARY] = "KMP_LIBRARY",
};

#define BIT(variable) (1u << OPENMP_##variable)

struct runtime {
	enum openmp_variable variable;
	uint32_t reads;
	const char *passive, *bounded; /* NULL: it cannot be told that; "": by the number of spins */
};

static const struct runtime runtimes[] = {
        {OPENMP_WAIT_POLICY, BIT(WAIT_POLICY) | BIT(GNU_SPINCOUNT) | BIT(LLVM_BLOCKTIME) | BIT(LLVM_LIBRARY), "passive",
         NULL},
        {OPENMP_GNU_SPINCOUNT, BIT(WAIT_POLICY) | BIT(GNU_SPINCOUNT), "0", ""},
        {OPENMP_LLVM_BLOCKTIME, BIT(WAIT_POLICY) | BIT(LLVM_BLOCKTIME) | BIT(LLVM_LIBRARY), "0", "1"},
};

const char *openmp_name(enum openmp_variable variable)
{
	return names[variable];
}

size_t openmp_choose(enum site_threads threads, uint32_t set, uint64_t spins, struct openmp_setting ret_settings[])
{
	size_t count = 0;

	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++) {
		const struct runtime *runtime = &runtimes[i];
		const char *value = threads == SITE_THREADS_PASSIVE   ? runtime->passive
		                    : threads == SITE_THREADS_BOUNDED ? runtime->bounded
		                                                      : NULL;
		struct openmp_setting *setting = &ret_settings[count];

		if (!value || set & runtime->reads)
			continue;
		setting->variable = runtime->variable;
		if (value[0])
			snprintf(setting->value, sizeof(setting->value), "%s", value);
		else
			snprintf(setting->value, sizeof(setting->value), "%llu", (unsigned long long)spins);
		count++;
	}
	return count;
}

void openmp_print(const struct openmp_setting settings[], size_t count, char ret_text[OPENMP_TEXT_MAX])
{
	size_t used = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < count && used < OPENMP_TEXT_MAX; i++)
		used += (size_t)snprintf(ret_text + used, OPENMP_TEXT_MAX - used, "%s%s=%s", used ? " " : "",
		                         names[settings[i].variable], settings[i].value);
}

bool openmp_is_ours(const char *text, enum openmp_variable variable, const char *value)
{
	size_t name_length = strlen(names[variable]), value_length = strlen(value);

	for (const char *word = text; *word; word += strcspn(word, " "), word += strspn(word, " "))
		if (strcspn(word, " ") == name_length + 1 + value_length &&
		    strncmp(word, names[variable], name_length) == 0 && word[name_length] == '=' &&
		    strncmp(word + name_length + 1, value, value_length) == 0)
			return true;
	return false;
}

bool openmp_is_daemon(const char *program)
{
	static const char *const daemons[] = {"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy"};
	const char *slash = strrchr(program, '/');
	const char *name = slash ? slash + 1 : program;

	for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++)
		if (strcmp(daemons[i], name) == 0)
			return true;
	return false;
}

uint64_t openmp_spins_of(uint64_t turns, uint64_t took_ns)
{
	uint64_t spins = took_ns > 0 ? turns * BOUND_NS / took_ns : SPINS_MOST, unit = 1;

	if (spins > SPINS_MOST)
		spins = SPINS_MOST;
	if (spins < SPINS_MIN)
		spins = SPINS_MIN;
	while (spins / unit >= 100)
		unit *= 10;
	return spins / unit * unit;
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* As libgomp waits: a load and a pause. The quickest piece is the one that nothing disturbed. */
uint64_t openmp_spins_measure(void)
{
	uint64_t least_ns = UINT64_MAX;
	int word = 0;

	for (unsigned piece = 0; piece < PIECES; piece++) {
		uint64_t began_ns = clock_monotonic_ns(), took_ns;

		for (unsigned i = 0; i < TURNS && __atomic_load_n(&word, __ATOMIC_RELAXED) == 0; i++)
			relax();
		took_ns = clock_monotonic_ns() - began_ns;
		if (took_ns < least_ns)
			least_ns = took_ns;
	}
	return openmp_spins_of(TURNS, least_ns);
}
