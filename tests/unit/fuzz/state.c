/* A node's notes on a job while it runs: job.json, step.N.json; what is read is written again and must stay the same.
 */
#include "tests/unit/fuzz/fuzz.h"

#include <jansson.h>
#include <math.h>

#include "spank/base/cleanup.h"
#include "spank/node/state.h"

static void job_check(const json_t *json)
{
	cleanup_free struct state_job *job = calloc(1, sizeof(*job)), *again = NULL;
	json_auto_t *first = NULL, *second = NULL;

	FUZZ_CHECK(job);
	if (state_job_from_json(json, job))
		return;
	again = calloc(1, sizeof(*again));
	first = state_job_to_json(job);
	FUZZ_CHECK(again && first && state_job_from_json(first, again) == 0);
	second = state_job_to_json(again);
	FUZZ_CHECK(json_equal(first, second));
}

static void step_check(const json_t *json)
{
	struct energy_window window;
	struct state_step step;

	if (state_step_from_json(json, &step))
		return;
	FUZZ_CHECK(strlen(step.policy.used) < sizeof(step.policy.used));
	if (step.has_energy)
		energy_between(&step.from, &step.to, &window);
}

static void power_check(const json_t *json)
{
	struct power_curve curve = {0};
	struct power_points points;
	struct power_parts parts;
	json_auto_t *again = NULL;

	if (power_from_json(json, &points))
		return;
	again = power_to_json(&points);
	FUZZ_CHECK(json_equal(again, json));
	power_curve_add(&curve, &points);
	FUZZ_CHECK(!power_curve_parts(&curve, &parts) || parts.count <= POWER_PARTS_MAX);
	power_curve_free(&curve);
}

static void saving_check(const json_t *json)
{
	struct saving saving, same, sum = {0};
	struct saving_result result;
	json_auto_t *again = NULL, *third = NULL;

	if (saving_from_json(json, &saving))
		return;
	again = saving_to_json(&saving);
	FUZZ_CHECK(saving_from_json(again, &same) == 0);
	third = saving_to_json(&same);
	FUZZ_CHECK(json_equal(again, third));
	saving_merge(&sum, &saving);
	saving_merge(&sum, &same);
	FUZZ_CHECK(sum.count < SAVING_PAIRS_MAX);
	saving_solve(&sum, &result);
	FUZZ_CHECK(result.why || (isfinite(result.beside_w) && result.look_w > 0 && result.error_w >= 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_auto_t *json = json_loadb((const char *)data, size, 0, NULL);

	if (json) {
		job_check(json);
		step_check(json);
		power_check(json_object_get(json, "power"));
		saving_check(json_object_get(json, "saving"));
	}
	return 0;
}
