/* A step's points however long it lasts, and the curve through the points of all steps. */
#include "spank/base/cleanup.h"
#include "spank/record/parts/power.h"
#include "tests/lib/check.h"

#define SECOND UINT64_C(1000000000)

/* A node of one package that has used that many joules; core is a part of it. */
static struct energy_snapshot snapshot_of(double at_s, double joules, uint32_t gaps, enum energy_problem problem)
{
	struct energy_snapshot snapshot = {.at_ns = (uint64_t)(at_s * 1e9), .zone_count = 2};

	snapshot.zone[0] = (struct energy_zone){
	        .kind = RAPL_PACKAGE, .used_uj = (uint64_t)(joules * 1e6), .gaps = gaps, .problem = problem};
	snapshot.zone[1] = (struct energy_zone){.kind = RAPL_CORE, .used_uj = 7, .problem = ENERGY_STOPPED};
	return snapshot;
}

static void sample(struct power_points *points, double at_s, double joules)
{
	struct energy_snapshot snapshot = snapshot_of(at_s, joules, 0, ENERGY_FINE);

	power_add(points, &snapshot);
}

/* Ten hours of every ten seconds, not quite. */
static void test_bounded(void)
{
	struct power_points points = {0}, read = {0};
	json_auto_t *json = NULL;

	for (int i = 0; i <= 3600; i++) {
		sample(&points, 10.0 * i + (i % 3) * 0.01, 100.0 * i);
		CHECK(points.count <= POWER_POINTS_MAX && points.count > 0);
		CHECK(points.point[points.count - 1].used_uj == UINT64_C(100000000) * (uint64_t)i);
	}
	CHECK(points.count >= POWER_POINTS_MAX / 2 && points.point[0].at_ns == 0);
	for (uint32_t i = 2; i + 1 < points.count; i++) {
		uint64_t apart_ns = points.point[i].at_ns - points.point[i - 1].at_ns;

		CHECK(apart_ns > 600 * SECOND && apart_ns < 700 * SECOND);
	}
	json = power_to_json(&points);
	CHECK(power_from_json(json, &read) == 0 && read.count == points.count);
	CHECK(memcmp(&read.point[9], &points.point[9], sizeof(read.point[9])) == 0);
}

static void test_damage(void)
{
	static const char *const texts[] = {"{}",
	                                    "7",
	                                    "[7]",
	                                    "[[1,2,3]]",
	                                    "[[1,2,3,4]]",
	                                    "[[-1,2,3,true]]",
	                                    "[[1,-2,3,true]]",
	                                    "[[1,2,4294967296,true]]",
	                                    "[[1,2,3,true,5]]",
	                                    "[[1.5,2,3,true]]"};
	struct power_points points = {.count = 77};
	json_auto_t *many = json_array();

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_auto_t *json = json_loads(texts[i], 0, NULL);

		CHECK(power_from_json(json, &points) < 0 && points.count == 77);
	}
	for (int i = 0; i <= POWER_POINTS_MAX; i++)
		json_array_append_new(many, json_pack("[i,i,i,b]", i, i, 0, 1));
	CHECK(power_from_json(many, &points) < 0 && power_from_json(NULL, &points) < 0);
}

/* The curve's parts as a text. */
static char *parts(struct power_curve *curve)
{
	json_auto_t *json = record_power_write(curve);

	power_curve_free(curve);
	return json ? json_dumps(json, JSON_COMPACT) : strdup("none");
}

static void check_parts(struct power_curve *curve, const char *expected)
{
	cleanup_free char *text = parts(curve);

	CHECK_CONTAINS(text, expected);
	CHECK(strlen(text) == strlen(expected));
}

/* Two steps at once, a hole after them, and the ends of the job: one curve. */
static void test_steps_are_one_curve(void)
{
	struct power_points first = {0}, second = {0}, ends = {0};
	struct power_curve curve = {0};

	sample(&first, 100, 1000);
	sample(&first, 104, 1400);
	sample(&second, 102, 1100);
	sample(&second, 106, 1800);
	sample(&ends, 100, 1000);
	sample(&ends, 110, 1840);
	power_curve_add(&curve, &second);
	power_curve_add(&curve, &ends);
	power_curve_add(&curve, &first);
	check_parts(&curve, "[50000,150000,200000,10000,10000]");
}

static void test_short(void)
{
	struct power_points points = {0};
	struct power_curve curve = {0};

	check_parts(&curve, "none");
	for (int i = 0; i < 20; i++)
		sample(&points, i / 10.0, i);
	power_curve_add(&curve, &points);
	check_parts(&curve, "none");
	for (int i = 20; i < 36; i++)
		sample(&points, i / 10.0, i);
	power_curve_add(&curve, &points);
	check_parts(&curve, "[10000,10000,10000]");
}

/* What lies beside a lost counter, a gap or a new accumulator is not known. */
static void test_gaps(void)
{
	static const struct {
		double joules;
		uint32_t gaps;
		enum energy_problem problem;
		const char *expected;
	} cases[] = {
	        {200, 0, ENERGY_FINE, "[10000,10000,10000,10000]"},
	        {200, 1, ENERGY_FINE, "[10000,null,null,10000]"},
	        {200, 0, ENERGY_VANISHED, "[10000,null,null,10000]"},
	        {50, 0, ENERGY_FINE, "[10000,null,25000,10000]"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct energy_snapshot odd = snapshot_of(20, cases[i].joules, cases[i].gaps, cases[i].problem);
		struct power_points points = {0};
		struct power_curve curve = {0};

		sample(&points, 0, 0);
		sample(&points, 10, 100);
		power_add(&points, &odd);
		sample(&points, 30, 300);
		sample(&points, 40, 400);
		power_curve_add(&curve, &points);
		check_parts(&curve, cases[i].expected);
	}
}

int main(void)
{
	test_bounded();
	test_damage();
	test_steps_are_one_curve();
	test_short();
	test_gaps();
	return CHECK_RESULT;
}
