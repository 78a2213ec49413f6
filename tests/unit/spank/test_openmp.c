/* What OpenMP runtimes are told of their waiting threads: by each, whatever else the user has set. */
#include "spank/policy/openmp.h"
#include "tests/lib/check.h"

#define SET(variable) (1u << OPENMP_##variable)

static const struct {
	enum site_threads threads;
	uint32_t set;
	const char *said;
} cases[] = {
        {SITE_THREADS_UNSAID, 0, ""},
        {SITE_THREADS_KEEP, 0, ""},
        {SITE_THREADS_BOUNDED, 0, "GOMP_SPINCOUNT=21000 KMP_BLOCKTIME=1"},
        {SITE_THREADS_PASSIVE, 0, "OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0 KMP_BLOCKTIME=0"},
        {SITE_THREADS_BOUNDED, SET(WAIT_POLICY), ""},
        {SITE_THREADS_PASSIVE, SET(WAIT_POLICY), ""},
        {SITE_THREADS_BOUNDED, SET(GNU_SPINCOUNT), "KMP_BLOCKTIME=1"},
        {SITE_THREADS_PASSIVE, SET(GNU_SPINCOUNT), "KMP_BLOCKTIME=0"},
        {SITE_THREADS_BOUNDED, SET(LLVM_BLOCKTIME), "GOMP_SPINCOUNT=21000"},
        {SITE_THREADS_PASSIVE, SET(LLVM_BLOCKTIME), "GOMP_SPINCOUNT=0"},
        {SITE_THREADS_BOUNDED, SET(LLVM_LIBRARY), "GOMP_SPINCOUNT=21000"},
        {SITE_THREADS_PASSIVE, SET(LLVM_LIBRARY), "GOMP_SPINCOUNT=0"},
        {SITE_THREADS_BOUNDED, SET(GNU_SPINCOUNT) | SET(LLVM_LIBRARY), ""},
        {SITE_THREADS_PASSIVE, SET(GNU_SPINCOUNT) | SET(LLVM_BLOCKTIME), ""},
};

static void chooses(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct openmp_settings settings;

		openmp_choose(cases[i].threads, cases[i].set, 21000, &settings);
		if (strcmp(settings.text, cases[i].said) != 0)
			fprintf(stderr, "case %zu: '%s'\n", i, settings.text);
		CHECK(strcmp(settings.text, cases[i].said) == 0);
	}
}

/* Only a bound is tightened, and only where the task has fewer CPUs than threads. */
static void tightens(void)
{
	CHECK(openmp_waits(SITE_THREADS_BOUNDED, "3", 2) == SITE_THREADS_PASSIVE);
	CHECK(openmp_waits(SITE_THREADS_BOUNDED, " 3,2", 2) == SITE_THREADS_PASSIVE);
	CHECK(openmp_waits(SITE_THREADS_BOUNDED, "2,3", 2) == SITE_THREADS_BOUNDED);
	CHECK(openmp_waits(SITE_THREADS_BOUNDED, "", 2) == SITE_THREADS_BOUNDED);
	CHECK(openmp_waits(SITE_THREADS_BOUNDED, "-3", 2) == SITE_THREADS_BOUNDED);
	CHECK(openmp_waits(SITE_THREADS_BOUNDED, "3", 0) == SITE_THREADS_BOUNDED);
	CHECK(openmp_waits(SITE_THREADS_KEEP, "3", 2) == SITE_THREADS_KEEP);
	CHECK(openmp_waits(SITE_THREADS_UNSAID, "3", 2) == SITE_THREADS_UNSAID);
}

/* What an inner step may take away again: the very value, and nothing that looks like it. */
static void knows_its_own(void)
{
	const char *text = "GOMP_SPINCOUNT=21000 KMP_BLOCKTIME=1";

	CHECK(openmp_is_ours(text, OPENMP_GNU_SPINCOUNT, "21000"));
	CHECK(openmp_is_ours(text, OPENMP_LLVM_BLOCKTIME, "1"));
	CHECK(!openmp_is_ours(text, OPENMP_LLVM_BLOCKTIME, ""));
	CHECK(!openmp_is_ours(text, OPENMP_LLVM_BLOCKTIME, "10"));
	CHECK(!openmp_is_ours(text, OPENMP_GNU_SPINCOUNT, "2100"));
	CHECK(!openmp_is_ours(text, OPENMP_WAIT_POLICY, "passive"));
	CHECK(!openmp_is_ours("XKMP_BLOCKTIME=1", OPENMP_LLVM_BLOCKTIME, "1"));
	CHECK(!openmp_is_ours("", OPENMP_LLVM_BLOCKTIME, "1"));
}

static void knows_daemons(void)
{
	CHECK(openmp_is_daemon("orted") && openmp_is_daemon("/usr/bin/hydra_pmi_proxy"));
	CHECK(!openmp_is_daemon("./orted/a.out") && !openmp_is_daemon("") && !openmp_is_daemon("ported"));
}

/* A millisecond of turns, to two digits, and no more of them than GNU itself makes. */
static void counts_spins(void)
{
	CHECK(openmp_spins_of(200, 9400) == 21000);
	CHECK(openmp_spins_of(200, 4000) == 50000);
	CHECK(openmp_spins_of(200, 200) == 300000);
	CHECK(openmp_spins_of(200, 0) == 300000);
	CHECK(openmp_spins_of(200, 1000000000) == 1000);
	CHECK(openmp_spins_measure() >= 1000 && openmp_spins_measure() <= 300000);
}

int main(void)
{
	chooses();
	tightens();
	knows_its_own();
	knows_daemons();
	counts_spins();
	return CHECK_RESULT;
}
