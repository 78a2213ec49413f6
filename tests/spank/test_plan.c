/* Who is measured, injected and bound. */
#include "spank/plan.h"
#include "tests/spank/check.h"

static const struct policy nap = {.name = "nap", .inject = true};
static const struct policy off = {.name = "off"};

static const struct {
	const char *what;
	struct plan_facts facts;
	struct plan plan;
} cases[] = {
        {"no policy", {STEP_SRUN, NULL, SITE_PIN_CORES, false, 2, 1, 2, 2}, {false, false, false, 0, false}},
        {"off", {STEP_SRUN, &off, SITE_PIN_CORES, false, 2, 1, 2, 2}, {false, false, false, 0, false}},
        {"one core each", {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 1, 2, 2}, {true, true, true, 1, false}},
        {"hybrid", {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 4, 8, 8}, {true, true, true, 4, false}},
        {"hybrid, hardware threads",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 8, 8, 16},
         {true, true, true, 4, false}},
        {"a single task keeps all",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 1, 1, 8, 8},
         {true, true, false, 0, false}},
        {"cores left over", {STEP_SRUN, &nap, SITE_PIN_CORES, false, 3, 1, 8, 8}, {true, true, false, 0, false}},
        {"the user has bound", {STEP_SRUN, &nap, SITE_PIN_CORES, true, 2, 1, 2, 2}, {true, true, false, 0, false}},
        {"pin=none", {STEP_SRUN, &nap, SITE_PIN_NONE, false, 2, 1, 2, 2}, {true, true, false, 0, false}},
        {"batch", {STEP_BATCH, &nap, SITE_PIN_CORES, false, 2, 1, 2, 2}, {true, true, false, 0, false}},
        {"interactive", {STEP_INTERACTIVE, &nap, SITE_PIN_CORES, false, 2, 1, 2, 2}, {true, true, false, 0, false}},
        {"extern: measured only",
         {STEP_EXTERN, &nap, SITE_PIN_CORES, false, 0, 0, 2, 2},
         {true, false, false, 0, false}},
        {"overcommitted", {STEP_SRUN, &nap, SITE_PIN_CORES, false, 4, 1, 2, 2}, {true, true, false, 0, true}},
        {"two ranks a core by threads",
         {STEP_SRUN, &nap, SITE_PIN_CORES, false, 16, 1, 8, 16},
         {true, true, false, 0, false}},
        {"cores not known", {STEP_SRUN, &nap, SITE_PIN_CORES, false, 2, 1, 0, 0}, {true, true, false, 0, false}},
};

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct plan *want = &cases[i].plan;
		struct plan plan;
		int before = check_failures;

		plan_make(&cases[i].facts, &plan);
		CHECK(plan.measure == want->measure);
		CHECK(plan.inject == want->inject);
		CHECK(plan.bind == want->bind);
		CHECK(plan.cores_per_task == want->cores_per_task);
		CHECK(plan.shared == want->shared);
		if (check_failures != before)
			fprintf(stderr, "  in case '%s'\n", cases[i].what);
	}
	return CHECK_RESULT;
}
