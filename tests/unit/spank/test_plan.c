/* Who is injected and bound. */
#include "spank/policy/plan.h"
#include "tests/lib/check.h"

static const struct policy nap = {.name = "nap", .inject = true};
static const struct policy off = {.name = "off"};
static const struct policy pstate = {.name = "pstate", .inject = true, .rungs = 1u << MPIWAIT_RUNG_PSTATE};

static const struct {
	const char *what;
	struct plan_facts facts;
	struct plan plan;
} cases[] = {
        {"off, of which energy is noted: nothing else",
         {STEP_SRUN, &off, SITE_PIN_CORES, false, 2, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {false, false, 0, false, false, 0}},
        {"off, more tasks than cores",
         {STEP_SRUN, &off, SITE_PIN_CORES, false, 4, 1, 2, 2, SITE_GRANT_FILE, false, false},
         {false, false, 0, false, false, 0}},
        {"off, but ranks may choose: loaded, and nothing else",
         {STEP_SRUN, &off, SITE_PIN_CORES, false, 2, 1, 2, 2, SITE_GRANT_LEASE, false, true},
         {true, false, 0, false, false, 0}},
        {"ranks may choose, extern",
         {STEP_EXTERN, &off, SITE_PIN_CORES, false, 0, 0, 2, 2, SITE_GRANT_LEASE, false, true},
         {false, false, 0, false, false, 0}},
        {"one core each",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {true, true, 1, false, false, 0}},
        {"hybrid",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 4, 8, 8, SITE_GRANT_LEASE, false, false},
         {true, true, 4, false, false, 0}},
        {"hybrid, hardware threads",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 8, 8, 16, SITE_GRANT_LEASE, false, false},
         {true, true, 4, false, false, 0}},
        {"a single task keeps all",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 1, 1, 8, 8, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, false, 0}},
        {"cores left over",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 3, 1, 8, 8, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, false, 0}},
        {"the user has bound",
         {STEP_SRUN, &nap, SITE_PIN_CORES, true, 2, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, false, 0}},
        {"pin=none",
         {STEP_SRUN, &nap, SITE_PIN_NONE, false, 2, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, false, 0}},
        {"batch",
         {STEP_BATCH, &nap, SITE_PIN_CORES, false, 2, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, false, 0}},
        {"interactive",
         {STEP_INTERACTIVE, &nap, SITE_PIN_CORES, false, 2, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, false, 0}},
        {"extern: measured only",
         {STEP_EXTERN, &nap, SITE_PIN_CORES, false, 0, 0, 2, 2, SITE_GRANT_LEASE, false, false},
         {false, false, 0, false, false, 0}},
        {"overcommitted",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 4, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {true, false, 0, true, false, 0}},
        {"hardware threads that Slurm counts as cores: the other one may be another job's",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 1, 2, 2, SITE_GRANT_LEASE, true, false},
         {true, false, 0, false, false, 0}},
        {"two ranks a core by threads",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 16, 1, 8, 16, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, false, 0}},
        {"cores not known",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 1, 0, 0, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, false, 0}},
        {"a lease for srun's tasks",
         {STEP_SRUN, &pstate, SITE_PIN_CORES, true, 2, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, true, 0}},
        {"files for srun's tasks",
         {STEP_SRUN, &pstate, SITE_PIN_CORES, true, 2, 1, 2, 2, SITE_GRANT_FILE, false, false},
         {true, false, 0, false, true, 0}},
        {"a lease for a launcher's ranks",
         {STEP_BATCH, &pstate, SITE_PIN_CORES, true, 2, 1, 2, 2, SITE_GRANT_LEASE, false, false},
         {true, false, 0, false, true, 0}},
        {"files for them",
         {STEP_BATCH, &pstate, SITE_PIN_CORES, true, 2, 1, 2, 2, SITE_GRANT_FILE, false, false},
         {true, false, 0, false, true, 0}},
        {"grant=off",
         {STEP_SRUN, &pstate, SITE_PIN_CORES, true, 2, 1, 2, 2, SITE_GRANT_OFF, false, false},
         {true, false, 0, false, false, 0}},
};

#define CPUS 8

/* Two hardware threads a core (0+4, 1+5, ...): who runs where, which CPUs share a frequency, and whose it is. */
static const struct {
	const char *what;
	int32_t task[CPUS];
	int32_t domain[CPUS];
	int32_t owner[CPUS];
} shares[] = {
        {"a core each", {0, 1, 2, 3, 0, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 0, 1, 2, 3}},
        {"Slurm knows one thread of each",
         {0, 1, 2, 3, -1, -1, -1, -1},
         {0, 1, 2, 3, 4, 5, 6, 7},
         {0, 1, 2, 3, 0, 1, 2, 3}},
        {"two tasks a core", {0, 1, 2, 3, 4, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7}, {-2, 1, 2, 3, -2, 1, 2, 3}},
        {"one domain", {0, 1, 2, 3, 0, 1, 2, 3}, {0, 0, 0, 0, 0, 0, 0, 0}, {-4, -4, -4, -4, -4, -4, -4, -4}},
        {"one domain, one task", {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}},
        {"a domain with an idle core",
         {0, -1, 1, 1, 0, -1, 1, 1},
         {0, 0, 2, 2, 0, 0, 2, 2},
         {-4, -1, 1, 1, -4, -1, 1, 1}},
        {"a task that may run elsewhere",
         {0, -5, 2, 3, 0, -5, 2, 3},
         {0, 1, 2, 3, 4, 5, 6, 7},
         {0, -5, 2, 3, 0, -5, 2, 3}},
        {"no cpufreq there", {0, 1, 2, 3, 0, 1, 2, 3}, {-1, 1, 2, 3, 4, 5, 6, 7}, {-3, 1, 2, 3, 0, 1, 2, 3}},
};

static void shares_out(void)
{
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		struct plan_cpu cpus[CPUS];

		for (int32_t cpu = 0; cpu < CPUS; cpu++)
			cpus[cpu] = (struct plan_cpu){.core = cpu % 4,
			                              .domain = shares[i].domain[cpu],
			                              .task = shares[i].task[cpu],
			                              .owner = 77};
		CHECK(plan_owners(cpus, CPUS) == 0);
		for (int32_t cpu = 0; cpu < CPUS; cpu++)
			if (cpus[cpu].owner != shares[i].owner[cpu]) {
				check_failures++;
				fprintf(stderr, "'%s': CPU %d is %d's\n", shares[i].what, cpu, cpus[cpu].owner);
			}
	}
}

/* What the step was not allocated is nobody's, and a domain that reaches there is not granted. */
static void keeps_to_the_step(void)
{
	struct plan_cpu cpus[] = {{0, 0, 0, 77}, {1, 1, 0, 77}, {-1, 1, -1, 77}};

	CHECK(plan_owners(cpus, 3) == 0);
	CHECK(cpus[0].owner == 0 && cpus[1].owner == PLAN_REACHES_OUT && cpus[2].owner == PLAN_NOBODY);
}

/* OpenMP's threads are told in srun's steps alone: a script may say something else of its own later. */
static void tells_threads(void)
{
	static const struct policy told = {.name = "nap", .inject = true, .threads = SITE_THREADS_PASSIVE};
	static const struct policy left = {.name = "off", .threads = SITE_THREADS_PASSIVE};
	struct plan_facts facts = {.kind = STEP_SRUN, .policy = &told, .local_tasks = 1};
	struct plan plan;

	plan_make(&facts, &plan);
	CHECK(plan.threads == SITE_THREADS_PASSIVE);
	for (enum step_kind kind = STEP_BATCH; kind <= STEP_INTERACTIVE; kind++) {
		facts.kind = kind;
		plan_make(&facts, &plan);
		CHECK(plan.threads == SITE_THREADS_UNSAID);
	}
	facts = (struct plan_facts){.kind = STEP_SRUN, .policy = &left, .local_tasks = 1};
	plan_make(&facts, &plan);
	CHECK(plan.threads == SITE_THREADS_UNSAID);
}

int main(void)
{
	tells_threads();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct plan *want = &cases[i].plan;
		struct plan plan;
		int before = check_failures;

		plan_make(&cases[i].facts, &plan);
		CHECK(plan.inject == want->inject);
		CHECK(plan.bind == want->bind);
		CHECK(plan.cores_per_task == want->cores_per_task);
		CHECK(plan.shared == want->shared);
		CHECK(plan.grant == want->grant);
		if (check_failures != before)
			fprintf(stderr, "  in case '%s'\n", cases[i].what);
	}
	shares_out();
	keeps_to_the_step();
	return CHECK_RESULT;
}
