#include "spank/policy/openmp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/files.h"
#include "spank/base/text.h"

#define BOUND_NS   UINT64_C(1000000) /* how long idle threads spin: waking one, 40 to 120 us, is then a small part */
#define SPINS_MOST UINT64_C(300000)  /* libgomp's default */
#define SPINS_MIN  UINT64_C(1000)
#define TURNS      200u /* turns of the loop in one piece of a measurement */
#define PIECES     10u  /* pieces of which the fastest is taken */

#define BIT(variable) (1u << OPENMP_##variable)

static const struct {
	const char *name;
	uint32_t reads; /* variables that its runtimes read: if the user set one of them, it is not set */
	const char *passive, *bounded; /* values for threads=passive and =bounded; NULL: not set; "": the spins */
} variables[OPENMP_VARIABLES] = {
        [OPENMP_WAIT_POLICY] = {"OMP_WAIT_POLICY",
                                BIT(WAIT_POLICY) | BIT(GNU_SPINCOUNT) | BIT(LLVM_BLOCKTIME) | BIT(LLVM_LIBRARY),
                                "passive", NULL},
        [OPENMP_GNU_SPINCOUNT] = {"GOMP_SPINCOUNT", BIT(WAIT_POLICY) | BIT(GNU_SPINCOUNT), "0", ""},
        [OPENMP_LLVM_BLOCKTIME] = {"KMP_BLOCKTIME", BIT(WAIT_POLICY) | BIT(LLVM_BLOCKTIME) | BIT(LLVM_LIBRARY), "0",
                                   "1"},
        [OPENMP_LLVM_LIBRARY] = {"KMP_LIBRARY", 0, NULL, NULL},
};

const char *openmp_name(enum openmp_variable variable)
{
	return variables[variable].name;
}

enum site_threads openmp_waits(enum site_threads threads, const char *count, uint32_t cpus)
{
	bool crowded = cpus > 0 && strtol(count, NULL, 10) > (long)cpus;

	return threads == SITE_THREADS_BOUNDED && crowded ? SITE_THREADS_PASSIVE : threads;
}

void openmp_choose(enum site_threads threads, uint32_t set, uint64_t spins, struct openmp_settings *ret_settings)
{
	struct openmp_settings settings = {.text = ""};

	for (unsigned i = 0; i < OPENMP_VARIABLES; i++) {
		const char *value = threads == SITE_THREADS_PASSIVE   ? variables[i].passive
		                    : threads == SITE_THREADS_BOUNDED ? variables[i].bounded
		                                                      : NULL;

		if (!value || set & variables[i].reads)
			continue;
		if (value[0])
			strcpy(settings.value[i], value);
		else
			snprintf(settings.value[i], OPENMP_VALUE_MAX, "%llu", (unsigned long long)spins);
		text_add(settings.text, sizeof(settings.text), "%s%s=%s", settings.text[0] ? " " : "",
		         variables[i].name, settings.value[i]);
	}
	*ret_settings = settings;
}

bool openmp_is_ours(const char *text, enum openmp_variable variable, const char *value)
{
	char ours[OPENMP_TEXT_MAX];

	snprintf(ours, sizeof(ours), "%s=%s", variables[variable].name, value);
	return text_find(text, ' ', ours) >= 0;
}

bool openmp_is_daemon(const char *program)
{
	return text_find("orted prted hydra_pmi_proxy hydra_bstrap_proxy", ' ', basename(program)) >= 0;
}

uint64_t openmp_spins_of(uint64_t turns, uint64_t took_ns)
{
	uint64_t spins = took_ns > 0 ? turns * BOUND_NS / took_ns : SPINS_MOST, unit = 1;

	spins = spins > SPINS_MOST ? SPINS_MOST : spins < SPINS_MIN ? SPINS_MIN : spins;
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

/* Measures the loop in which libgomp waits: a load and a pause. The fastest piece is the least disturbed one. */
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
