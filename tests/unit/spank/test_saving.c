/*
 * Looks against what is beside them, on made-up counters whose saving is known: the interval holds it, and nothing is
 * said where nothing can be known.
 */
#include <math.h>

#include "spank/base/cleanup.h"
#include "spank/energy/look.h"
#include "tests/lib/check.h"

#define MS   UINT64_C(1000000)
#define RUNS 100

/* A node of two packages and their memory, whose power is told by the time. */
struct node {
	const char *word;
	double saved;      /* of the power, beside looks */
	double waver;      /* of the power, by chance, from one 20 ms to the next */
	double phases_s;   /* the program computes and transfers in turn, for so long each; 0: it only computes */
	double renewal_ms; /* of a counter */
	double look_ms;
	int looks;
	bool frozen;        /* one package's counter stands still */
	uint64_t gap_every; /* a counter begins anew at one look of so many; 0: never */
	double some_ms;     /* before and after a look, some of the ranks look for so long */
};

struct chance {
	uint64_t state;
};

static double chance(struct chance *chance)
{
	chance->state = chance->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(chance->state >> 11) / (double)(UINT64_C(1) << 53);
}

static double normal(struct chance *of)
{
	double radius = sqrt(-2 * log(chance(of) + 1e-300));

	return radius * cos(6.283185307179586 * chance(of));
}

/* The node as it runs: its joules so far, and what its counters show of them. */
struct run {
	const struct node *node;
	struct chance chance;
	double now_ms;
	double joules;
	double shown_j;
	double renewed_ms; /* when the counters were renewed last */
	double phase_ms;
	double waver;
	double waver_ms;
	uint64_t anew_uj;
};

static double power_now(struct run *run, bool looks)
{
	const struct node *node = run->node;
	bool transfers =
	        node->phases_s > 0 && fmod(run->now_ms + run->phase_ms, node->phases_s * 2e3) < node->phases_s * 1e3;

	if (run->now_ms >= run->waver_ms) {
		run->waver = 1 + node->waver * normal(&run->chance);
		run->waver_ms = run->now_ms + 20;
	}
	return (transfers ? 120 : 200) * run->waver * (looks ? 1 : 1 - node->saved);
}

/* Lets time pass in steps of a tenth of a millisecond. */
static void run_until(struct run *run, double until_ms, double from_ms, double end_ms)
{
	while (run->now_ms < until_ms) {
		double step_ms = fmin(0.1, until_ms - run->now_ms);

		run->joules += power_now(run, run->now_ms >= from_ms && run->now_ms < end_ms) * step_ms / 1e3;
		run->now_ms += step_ms;
		if (run->now_ms - run->renewed_ms >= run->node->renewal_ms) {
			run->renewed_ms = run->now_ms;
			run->shown_j = run->joules;
		}
	}
}

static size_t zones_show(const struct run *run, struct rapl_zone zones[4])
{
	static const double part[] = {0.5, 0.4, 0.05, 0.05};
	uint64_t range_uj = UINT64_C(5000000000);

	for (uint32_t i = 0; i < 4; i++)
		zones[i] = (struct rapl_zone){
		        .kind = i < 2 ? RAPL_PACKAGE : RAPL_DRAM,
		        .instance = i % 2,
		        .energy_uj = (uint64_t)(run->shown_j * 1e6 * part[i] + (double)run->anew_uj) % (range_uj + 1),
		        .range_uj = range_uj,
		        .power_max_uw = 300000000,
		};
	if (run->node->frozen)
		zones[1].energy_uj = 7;
	return 4;
}

static void look_play(struct run *run, struct look *look, struct saving *saving, int number)
{
	double from_ms = run->now_ms + 2 * run->node->some_ms + run->node->look_ms * (1 + 2 * chance(&run->chance));
	uint64_t from_ns = (uint64_t)(from_ms * 1e6), length_ns = (uint64_t)(run->node->look_ms * 1e6);
	uint64_t some_ns = (uint64_t)(run->node->some_ms * 1e6); /* in which some ranks look, and draw no less for it */
	struct rapl_zone zones[4];
	struct saving_look seen;

	look_begin(look, (struct look_span){from_ns, from_ns + length_ns},
	           (struct look_span){from_ns - some_ns, from_ns + length_ns + some_ns});
	for (unsigned i = 0; i < LOOK_MOMENTS; i++) {
		double at_ms = (double)look->due_ns[i] / 1e6 + 0.05 + 0.05 * chance(&run->chance);
		size_t count;

		run_until(run, at_ms, from_ms - run->node->some_ms / 2,
		          from_ms + run->node->look_ms + run->node->some_ms / 2);
		if (run->node->gap_every && i == LOOK_END && (uint64_t)number % run->node->gap_every == 0)
			run->anew_uj += UINT64_C(3000000000);
		count = zones_show(run, zones);
		look_read(look, zones, count, (uint64_t)(at_ms * 1e6), (uint64_t)(at_ms * 1e6) + 20000);
	}
	if (!look_end(look, &seen))
		return;
	seen.slept_s = 0.001;
	seen.awake_s = seen.spent_s = seen.look_s * 2;
	seen.asleep_s = seen.look_s;
	saving_add(saving, &seen);
}

static struct saving_result play(const struct node *node, uint64_t seed)
{
	struct run run = {
	        .node = node, .anew_uj = UINT64_C(4999000000), .chance = {seed * UINT64_C(0x9e3779b97f4a7c15)}};
	struct saving saving = {0};
	struct saving_result result;
	static struct look look;

	run.phase_ms = 1e4 * chance(&run.chance);
	for (int i = 0; i < node->looks; i++)
		look_play(&run, &look, &saving, i);
	saving_solve(&saving, &result);
	return result;
}

static const struct node known[] = {
        {"plain", 0.09, 0.01, 0, 1, 33.6, 60, false, 0, 0},
        {"nothing saved", 0, 0.01, 0, 1, 33.6, 60, false, 0, 0},
        {"costs more", -0.03, 0.01, 0, 1, 33.6, 60, false, 0, 0},
        {"short looks", 0.12, 0.01, 0, 1, 4.2, 400, false, 0, 0},
        {"short looks, many", 0.05, 0.02, 0, 1, 4.2, 1500, false, 0, 0},
        {"wavers", 0.05, 0.1, 0, 1, 67.1, 60, false, 0, 0},
        {"two phases", 0.1, 0.01, 0.7, 1, 67.1, 60, false, 0, 0},
        {"phases as long as looks", 0.1, 0.01, 0.05, 1, 67.1, 60, false, 0, 0},
        {"few looks", 0.1, 0.01, 0, 1, 33.6, 20, false, 0, 0},
        {"ranks of two levels", 0.1, 0.01, 0, 1, 16.8, 200, false, 0, 20},
        {"begins anew", 0.1, 0.01, 0, 1, 33.6, 60, false, 7, 0},
};

/* In 19 of 20 runs at least. */
static void test_interval(void)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct node *node = &known[i];
		int holds = 0, runs = node->looks > 1000 ? RUNS / 4 : RUNS;

		for (int run = 1; run <= runs; run++) {
			struct saving_result result = play(node, (uint64_t)run);

			EXPECT(!result.why, "%s: %s", node->word, result.why);
			holds += fabs(1 - result.beside_w / result.look_w - node->saved) <=
			         result.error_w / result.look_w;
		}
		EXPECT(holds * 20 >= runs * 19, "%s: %d of %d", node->word, holds, runs);
	}
}

/* The interval is no idle caution: it shrinks with the root of the looks, and is far below what was saved. */
static void test_width(void)
{
	struct node few = known[0], many = known[0];
	double few_w = 0, many_w = 0;

	many.looks = 16 * few.looks;
	for (uint64_t run = 1; run <= 20; run++) {
		few_w += play(&few, run).error_w / 20;
		many_w += play(&many, run).error_w / 20;
	}
	EXPECT(few_w < 200 * 0.02, "%g W", few_w);
	EXPECT(few_w / many_w > 3 && few_w / many_w < 5.3, "%g W, %g W", few_w, many_w);
}

static const struct {
	struct node node;
	const char *why;
} unknown[] = {
        {{"too few", 0.1, 0.01, 0, 1, 33.6, 19, false, 0, 0}, SAVING_FEW},
        {{"too few short ones", 0.1, 0.01, 0, 1, 4.2, 100, false, 0, 0}, SAVING_FEW},
        {{"none", 0.1, 0.01, 0, 1, 33.6, 0, false, 0, 0}, SAVING_FEW},
        {{"renewed ten times a second", 0.1, 0.01, 0, 100, 33.6, 200, false, 0, 0}, SAVING_COARSE},
        {{"renewed ten times a second, long looks", 0.1, 0.01, 0, 100, 134, 200, false, 0, 0}, SAVING_COARSE},
        {{"frozen", 0.1, 0.01, 0, 1, 33.6, 100, true, 0, 0}, SAVING_COARSE},
        {{"begins anew all the time", 0.1, 0.01, 0, 1, 33.6, 100, false, 1, 0}, SAVING_FEW},
};

static void test_unknown(void)
{
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		struct saving_result result = play(&unknown[i].node, 1);

		EXPECT(result.why && strcmp(result.why, unknown[i].why) == 0, "%s: %s", unknown[i].node.word,
		       result.why ? result.why : "known");
	}
}

/* Adds so many looks at 200 W, with so many watts beside; ranks sleep for those parts of them. */
static void looks_add(struct saving *saving, int count, double beside_w, double in_looks, double beside)
{
	for (int i = 0; i < count; i++) {
		double other_w = i % 2 > 0 ? 1 : -1;
		struct saving_look look = {
		        .look_j = (200 + other_w) / 10,
		        .look_s = 0.1,
		        .beside_j = beside_w / 10,
		        .beside_s = 0.1,
		        .slept_s = in_looks,
		        .awake_s = 1,
		        .asleep_s = beside,
		        .spent_s = 1,
		};

		saving_add(saving, &look);
	}
}

static struct saving looks_of(int count, double beside_w, double in_looks, double beside)
{
	struct saving saving = {0};

	looks_add(&saving, count, beside_w, in_looks, beside);
	return saving;
}

static void test_ranks(void)
{
	static const struct {
		double in_looks, beside;
		const char *why;
		bool at_least;
	} rows[] = {
	        {0, 0.5, NULL, false},           {0.04, 0.5, NULL, false},    {0.1, 0.5, NULL, true},
	        {0.3, 0.5, SAVING_ASLEEP, true}, {0, 0, SAVING_AWAKE, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct saving saving = looks_of(40, 180, rows[i].in_looks, rows[i].beside);
		struct saving_result result;

		saving_solve(&saving, &result);
		EXPECT(result.why == rows[i].why || (result.why && strcmp(result.why, rows[i].why) == 0), "row %zu: %s",
		       i, result.why ? result.why : "known");
		EXPECT(result.at_least == rows[i].at_least, "row %zu", i);
		if (!result.why)
			CHECK(result.looks == 40 && fabs(result.look_w - 200) < 1e-6 &&
			      fabs(result.beside_w - 180) < 1e-3 && result.error_w > 0.1 && result.error_w < 1);
	}
}

static bool is_known(const struct saving *saving)
{
	struct saving_result result;

	saving_solve(saving, &result);
	return !result.why && !result.at_least && result.looks == 40 && fabs(result.look_w - 200) < 1e-6 &&
	       fabs(result.beside_w - 180) < 1e-3;
}

/* A job whose waits are long sleeps in most looks. Those tell nothing, but why: in whatever order steps come. */
static void test_strict_looks(void)
{
	struct saving sum = {0}, asleep = looks_of(120, 180, 0.45, 0.5), strict = looks_of(40, 180, 0, 0.5),
	              mixed = {0};
	struct saving_look looks[2] = {
	        {.look_j = 18.5, .beside_j = 18, .slept_s = 0.45},
	        {.look_j = 20, .beside_j = 18},
	};
	struct saving_result result;

	CHECK(asleep.each == 0 && asleep.count == 0 && saving_seen(&asleep) && !saving_seen(&sum));
	for (int i = 0; i < 160; i++) {
		struct saving_look look = looks[i % 4 == 3];

		look.look_j += i / 4 % 2 > 0 ? 0.1 : -0.1;
		look.look_s = look.beside_s = 0.1;
		look.awake_s = look.spent_s = 1;
		look.asleep_s = 0.5;
		saving_add(&mixed, &look);
	}
	CHECK(is_known(&mixed));
	saving_merge(&sum, &asleep);
	saving_solve(&sum, &result);
	CHECK(result.why && strcmp(result.why, SAVING_ASLEEP) == 0);
	saving_merge(&sum, &strict);
	CHECK(is_known(&sum));
	saving_merge(&sum, &asleep);
	CHECK(is_known(&sum));
	looks_add(&asleep, 40, 180, 0, 0.5);
	CHECK(is_known(&asleep));
}

/* A hundred thousand looks have room, and none of them is lost but for those of one pair. */
static void test_bounded(void)
{
	struct saving saving = looks_of(100000, 180, 0, 0.5), few = looks_of(50, 160, 0, 0.5), sum = {0}, back = {0};
	struct saving_result result;

	CHECK(saving.count >= SAVING_PAIRS_MAX / 2 && saving.count < SAVING_PAIRS_MAX);
	saving_solve(&saving, &result);
	CHECK(!result.why && result.looks <= 100000 && result.looks > 100000 - 2 * saving.each);
	CHECK(fabs(result.beside_w / result.look_w - 0.9) < 1e-6);
	for (int i = 0; i < 10; i++)
		saving_merge(&sum, &few);
	CHECK(sum.count < SAVING_PAIRS_MAX && sum.count >= SAVING_PAIRS_MAX / 4);
	saving_merge(&sum, &saving);
	saving_merge(&back, &saving);
	saving_merge(&back, &few);
	CHECK(sum.each == back.each && sum.count < SAVING_PAIRS_MAX && back.count < SAVING_PAIRS_MAX);
}

static void test_text(void)
{
	struct saving saving = looks_of(77, 180, 0.01, 0.5), back = {.count = 77}, none = {0};
	json_auto_t *json = saving_to_json(&saving), *empty = saving_to_json(&none);
	cleanup_free char *text = json_dumps(json, JSON_COMPACT);
	struct saving_result first, second;

	CHECK(saving_from_json(empty, &back) == 0 && back.count == 0);
	CHECK(saving_from_json(json, &back) == 0 && back.count == 77 && strlen(text) < 4096);
	saving_solve(&saving, &first);
	saving_solve(&back, &second);
	CHECK(!second.why && fabs(first.beside_w - second.beside_w) < 1e-3 && first.looks == second.looks);
}

static void test_damage(void)
{
	static const char *const texts[] = {
	        "7",
	        "{}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0,0]}",
	        "{\"each\":3,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[]}",
	        "{\"each\":0,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[[1,1]]}",
	        "{\"each\":-1,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[]}",
	        "{\"each\":4294967296,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[]}",
	        "{\"each\":1,\"still\":-1,\"ranks_us\":[0,0,0,0],\"pairs\":[]}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0],\"pairs\":[]}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0,-1],\"pairs\":[]}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0,0,0],\"pairs\":[]}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[[1]]}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[[1,2,3]]}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[[0,1]]}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[[1.5,1]]}",
	        "{\"each\":1,\"still\":0,\"ranks_us\":[0,0,0,0],\"pairs\":[[1,1000000000001]]}",
	};
	struct saving saving = {.count = 99};
	json_auto_t *many =
	        json_pack("{s:i, s:i, s:[i, i, i, i], s:[]}", "each", 1, "still", 0, "ranks_us", 0, 0, 0, 0, "pairs");

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_auto_t *json = json_loads(texts[i], JSON_DECODE_ANY, NULL);

		EXPECT(json && saving_from_json(json, &saving) < 0 && saving.count == 99, "%s", texts[i]);
	}
	for (uint32_t i = 0; i < SAVING_PAIRS_MAX; i++)
		json_array_append_new(json_object_get(many, "pairs"), json_pack("[i, i]", 1, 1));
	CHECK(saving_from_json(many, &saving) < 0 && saving_from_json(NULL, &saving) < 0);
}

int main(void)
{
	test_interval();
	test_width();
	test_unknown();
	test_ranks();
	test_strict_looks();
	test_bounded();
	test_text();
	test_damage();
	return CHECK_RESULT;
}
