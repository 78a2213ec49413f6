/*
 * Computes a ratio with its interval from pairs of watts. The trimmed mean and its error are Tukey and McLaughlin's
 * (1963): the deviation is that of the values with the outer ones set to the outermost kept one.
 */
#include "spank/energy/saving.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "spank/base/json.h"

#define TRIMMED     10   /* 1/TRIMMED of the pairs is trimmed at either end */
#define ROUNDS      50   /* rounds of the iteration; a few suffice */
#define WIDER       1.25 /* the residuals are not normal, and neighbouring looks are not independent */
#define STILL       20   /* at most 1/STILL of the looks may have a counter that stood still */
#define ASLEEP_MOST 0.5  /* beyond this part of the sleep beside looks, no look shows an awake job */
#define ASLEEP_SOME 0.1  /* beyond this part, some saving is in looks too */
#define PAIR_S      0.03
#define WATTS_MAX   1e9
#define SECONDS_MAX 1e15
#define EACH_MAX    (UINT32_C(1) << 18) /* the sum over all steps of a job fits */

static void pair_put(struct saving *saving, struct saving_pair pair)
{
	saving->pair[saving->count++] = pair;
}

static struct saving_pair pair_mean(struct saving_pair a, struct saving_pair b)
{
	return (struct saving_pair){(a.look_w + b.look_w) / 2, (a.beside_w + b.beside_w) / 2};
}

/* Makes one pair of each two. An odd last pair is opened again. */
static void halve(struct saving *saving)
{
	uint32_t count = saving->count / 2;

	if (saving->count % 2 > 0) {
		saving->open.look_w += saving->pair[saving->count - 1].look_w * saving->each;
		saving->open.beside_w += saving->pair[saving->count - 1].beside_w * saving->each;
		saving->begun += saving->each;
	}
	for (uint32_t i = 0; i < count; i++)
		saving->pair[i] = pair_mean(saving->pair[2 * i], saving->pair[2 * i + 1]);
	saving->count = count;
	saving->each *= 2;
}

/* Makes a pair of the open looks, if there are enough of them. Halves the pairs if there is no room for more. */
static void open_close(struct saving *saving)
{
	if (saving->begun < saving->each)
		return;
	pair_put(saving,
	         (struct saving_pair){saving->open.look_w / saving->begun, saving->open.beside_w / saving->begun});
	saving->open = (struct saving_pair){0};
	saving->begun = 0;
	if (saving->count == SAVING_PAIRS_MAX)
		halve(saving);
}

static bool is_watts(double watts)
{
	return watts > 0 && watts < WATTS_MAX;
}

/*
 * Returns how many looks of that length make a pair. A short look contains a few updates of the counter, or one more:
 * its error is asymmetric, while that of several looks together is not.
 */
static uint32_t each_of(double look_s)
{
	uint32_t each = 1;

	while (each * look_s < PAIR_S && each < EACH_MAX / 2)
		each *= 2;
	return each;
}

static double part(double some, double all)
{
	return all > 0 ? some / all : 0;
}

/* Returns true if ranks slept so much in looks, and beside them, that the comparison tells little. */
static bool is_asleep(double slept_s, double awake_s, double asleep_s, double spent_s)
{
	return part(slept_s, awake_s) > ASLEEP_MOST * part(asleep_s, spent_s);
}

static void sleep_add(struct saving *saving, double slept_s, double awake_s, double asleep_s, double spent_s)
{
	saving->slept_s += slept_s;
	saving->awake_s += awake_s;
	saving->asleep_s += asleep_s;
	saving->spent_s += spent_s;
}

void saving_add(struct saving *saving, const struct saving_look *look)
{
	struct saving_pair pair = {look->look_j / look->look_s, look->beside_j / look->beside_s};

	if (look->still) {
		saving->still += saving->still < UINT32_MAX;
		return;
	}
	if (!(look->look_s > 0) || !(look->beside_s > 0) || !is_watts(pair.look_w) || !is_watts(pair.beside_w) ||
	    saving->each == EACH_MAX)
		return;
	if (is_asleep(look->slept_s, look->awake_s, look->asleep_s, look->spent_s)) {
		if (saving->each == 0)
			sleep_add(saving, look->slept_s, look->awake_s, look->asleep_s, look->spent_s);
		return;
	}
	if (saving->each == 0) {
		saving->each = each_of(look->look_s);
		saving->slept_s = saving->awake_s = saving->asleep_s = saving->spent_s = 0;
	}
	sleep_add(saving, look->slept_s, look->awake_s, look->asleep_s, look->spent_s);
	saving->open.look_w += pair.look_w;
	saving->open.beside_w += pair.beside_w;
	saving->begun++;
	open_close(saving);
}

/* Appends the pairs of *more, after both have means of as many looks. Open looks are left out. */
static void pairs_append(struct saving *sum, struct saving *more)
{
	while (sum->each < more->each)
		halve(sum);
	while (more->each < sum->each)
		halve(more);
	while (sum->count + more->count >= SAVING_PAIRS_MAX) {
		halve(sum);
		halve(more);
	}
	for (uint32_t i = 0; i < more->count; i++)
		pair_put(sum, more->pair[i]);
}

void saving_merge(struct saving *sum, const struct saving *step)
{
	struct saving more = *step;

	sum->still += step->still < UINT32_MAX - sum->still ? step->still : UINT32_MAX - sum->still;
	if (sum->each == 0 && step->each != 0)
		sum->slept_s = sum->awake_s = sum->asleep_s = sum->spent_s = 0;
	if (sum->each == 0 || step->each != 0)
		sleep_add(sum, step->slept_s, step->awake_s, step->asleep_s, step->spent_s);
	if (step->each == 0)
		return;
	if (sum->each == 0)
		sum->each = step->each;
	pairs_append(sum, &more);
}

/* Residuals of the pairs at a ratio, in ascending order. The middle ones are kept. */
struct residuals {
	uint32_t count;
	uint32_t cut; /* number that is cut off at either end */
	double watts[SAVING_PAIRS_MAX];
};

static int compare(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* Computes the residuals of all pairs at a ratio, and sorts them. */
static void residuals_make(const struct saving *saving, double ratio, struct residuals *ret_residuals)
{
	ret_residuals->count = saving->count;
	ret_residuals->cut = saving->count / TRIMMED;
	for (uint32_t i = 0; i < saving->count; i++)
		ret_residuals->watts[i] = saving->pair[i].beside_w - ratio * saving->pair[i].look_w;
	qsort(ret_residuals->watts, ret_residuals->count, sizeof(ret_residuals->watts[0]), compare);
}

/* Returns the trimmed mean: the mean of the residuals that are kept. */
static double residuals_mean(const struct residuals *residuals)
{
	double sum = 0;

	for (uint32_t i = residuals->cut; i < residuals->count - residuals->cut; i++)
		sum += residuals->watts[i];
	return sum / (residuals->count - 2 * residuals->cut);
}

/* Returns the standard error of the trimmed mean. */
static double residuals_error(const struct residuals *residuals)
{
	uint32_t first = residuals->cut, last = residuals->count - residuals->cut - 1;
	double sum = 0, squares = 0, count = residuals->count;

	for (uint32_t i = 0; i < residuals->count; i++)
		sum += residuals->watts[i < first ? first : i > last ? last : i];
	for (uint32_t i = 0; i < residuals->count; i++) {
		double off = residuals->watts[i < first ? first : i > last ? last : i] - sum / count;

		squares += off * off;
	}
	return sqrt(squares / (count - 1) / count) / (1 - 2.0 * residuals->cut / count);
}

/* Returns the 97.5 % quantile of Student's t by Cornish and Fisher's expansion, right to 0.1 % from 8 degrees on. */
static double t_quantile(double degrees)
{
	return 1.96 + 2.372 / degrees + 2.82 / (degrees * degrees);
}

/* Finds the ratio at which the trimmed mean is 0, in steps, and sets the powers and the interval by it. */
static void ratio_find(const struct saving *saving, struct saving_result *ret_result)
{
	struct residuals residuals;
	double look_w = 0, beside_w = 0, ratio;

	for (uint32_t i = 0; i < saving->count; i++) {
		look_w += saving->pair[i].look_w / saving->count;
		beside_w += saving->pair[i].beside_w / saving->count;
	}
	ratio = beside_w / look_w;
	residuals_make(saving, ratio, &residuals);
	for (int i = 0; i < ROUNDS && fabs(residuals_mean(&residuals)) > 1e-9 * look_w; i++) {
		ratio += residuals_mean(&residuals) / look_w;
		residuals_make(saving, ratio, &residuals);
	}
	ret_result->look_w = look_w;
	ret_result->beside_w = ratio * look_w;
	ret_result->error_w = WIDER * t_quantile(residuals.count - 2 * residuals.cut - 1) * residuals_error(&residuals);
}

bool saving_seen(const struct saving *saving)
{
	return saving->each > 0 || saving->still > 0 || saving->awake_s > 0;
}

void saving_solve(const struct saving *saving, struct saving_result *ret_result)
{
	double looks = (double)saving->count * saving->each;
	double in_looks = part(saving->slept_s, saving->awake_s), beside = part(saving->asleep_s, saving->spent_s);

	*ret_result = (struct saving_result){.looks = looks, .at_least = in_looks > ASLEEP_SOME * beside};
	if ((double)saving->still * STILL > looks && saving->still >= SAVING_LOOKS_LEAST / 2)
		ret_result->why = SAVING_COARSE;
	else if (is_asleep(saving->slept_s, saving->awake_s, saving->asleep_s, saving->spent_s))
		ret_result->why = SAVING_ASLEEP;
	else if (saving->count < SAVING_LOOKS_LEAST)
		ret_result->why = SAVING_FEW;
	else if (!(beside > 0))
		ret_result->why = SAVING_AWAKE;
	else
		ratio_find(saving, ret_result);
}

static json_t *milliwatts(double watts)
{
	return json_integer((json_int_t)round(watts * 1e3));
}

static json_t *microseconds(double seconds)
{
	return json_integer((json_int_t)round(fmin(seconds, SECONDS_MAX / 1e6) * 1e6));
}

json_t *saving_to_json(const struct saving *saving)
{
	json_t *pairs = json_array();

	for (uint32_t i = 0; i < saving->count; i++)
		json_array_append_new(pairs, json_pack("[o, o]", milliwatts(saving->pair[i].look_w),
		                                       milliwatts(saving->pair[i].beside_w)));
	return json_pack("{s:I, s:I, s:[o, o, o, o], s:o}", "each", (json_int_t)saving->each, "still",
	                 (json_int_t)saving->still, "ranks_us", microseconds(saving->slept_s),
	                 microseconds(saving->awake_s), microseconds(saving->asleep_s), microseconds(saving->spent_s),
	                 "pairs", pairs);
}

/* Reads a whole number of thousandths or millionths, by `scale`. */
static bool scaled_of(const json_t *json, double scale, double most, double *ret_value)
{
	uint64_t whole;

	if (!integer_of(json, (int64_t)(most * scale), &whole))
		return false;
	*ret_value = (double)whole / scale;
	return true;
}

static bool pair_of(const json_t *json, struct saving_pair *ret_pair)
{
	return json_array_size(json) == 2 && scaled_of(json_array_get(json, 0), 1e3, WATTS_MAX, &ret_pair->look_w) &&
	       scaled_of(json_array_get(json, 1), 1e3, WATTS_MAX, &ret_pair->beside_w) && ret_pair->look_w > 0;
}

static bool ranks_of(const json_t *json, struct saving *saving)
{
	double *const seconds[] = {&saving->slept_s, &saving->awake_s, &saving->asleep_s, &saving->spent_s};

	for (size_t i = 0; i < 4; i++)
		if (!scaled_of(json_array_get(json, i), 1e6, SECONDS_MAX / 1e6, seconds[i]))
			return false;
	return json_array_size(json) == 4;
}

int saving_from_json(const json_t *json, struct saving *ret_saving)
{
	const json_t *pairs = json_object_get(json, "pairs");
	struct saving saving = {.count = (uint32_t)json_array_size(pairs)};

	if (!json_is_array(pairs) || json_array_size(pairs) >= SAVING_PAIRS_MAX ||
	    !integer32_get(json, "each", &saving.each) || !integer32_get(json, "still", &saving.still) ||
	    saving.each > EACH_MAX || (saving.each & (saving.each - 1)) != 0 ||
	    (saving.count > 0 && saving.each == 0) || !ranks_of(json_object_get(json, "ranks_us"), &saving))
		return -EINVAL;
	for (uint32_t i = 0; i < saving.count; i++)
		if (!pair_of(json_array_get(pairs, i), &saving.pair[i]))
			return -EINVAL;
	*ret_saving = saving;
	return 0;
}
