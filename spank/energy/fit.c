#include "spank/energy/fit.h"

#include <math.h>
#include <string.h>

#define N FIT_STATE_COUNT

#define FREEDOM_MIN  10    /* samples beyond the coefficients */
#define OCCUPIED_MIN 0.001 /* of all rank-time: a state below has no coefficient */
#define PIVOT_MIN    1e-9  /* relative: less is a matrix that cannot be inverted */
#define INTERVAL_Z   2.394 /* normal quantile of 1 - 0.05 / 3 / 2 */
#define DIFFERENCE_Z 3.090 /* of 1 - 0.001 */

_Static_assert(sizeof(struct fit_sums) == FIT_NUMBERS * sizeof(double), "sums are doubles alone");

/* The inverse of the normal matrix, and what follows from it; without those states that did not occur, it is zeros. */
struct system {
	int count; /* of states that occurred */
	bool occurred[N];
	double inverse[N][N];
	double watts[N];
	double variance;
};

void fit_add(struct fit_sums *sums, double seconds, double joules, const double rank_s[N])
{
	sums->samples++;
	sums->yy += joules * joules / seconds;
	for (int i = 0; i < N; i++) {
		sums->rank_s[i] += rank_s[i];
		sums->xy[i] += rank_s[i] * joules / seconds;
		for (int j = 0; j < N; j++)
			sums->xx[i][j] += rank_s[i] * rank_s[j] / seconds;
	}
}

void fit_merge(struct fit_sums *sums, const struct fit_sums *other)
{
	double *sum = (double *)sums;
	const double *more = (const double *)other;

	for (int i = 0; i < FIT_NUMBERS; i++)
		sum[i] += more[i];
}

/* Student's t quantile from the normal one, by Cornish and Fisher; with ten degrees of freedom good to 0.1 %. */
static double t_quantile(double z, double freedom)
{
	double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;

	return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
	       (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

/* F quantile of that normal quantile, by Paulson's cube root. */
static double f_quantile(double z, double upper, double lower)
{
	double a = 2 / (9 * upper), b = 2 / (9 * lower);
	double root = (1 - b) * (1 - b) - z * z * b;

	if (root <= 0)
		return INFINITY;
	return pow(((1 - b) * (1 - a) + z * sqrt((1 - b) * (1 - b) * a + (1 - a) * (1 - a) * b - z * z * a * b)) / root,
	           3);
}

/* Gauss and Jordan with the matrix scaled to a unit diagonal; false where it is as good as singular. */
static bool invert(struct system *system, const struct fit_sums *sums)
{
	double left[N][N], scale[N];

	for (int i = 0; i < N; i++)
		scale[i] = system->occurred[i] ? sqrt(sums->xx[i][i]) : INFINITY;
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			left[i][j] = i == j ? 1 : sums->xx[i][j] / (scale[i] * scale[j]);
			system->inverse[i][j] = i == j;
		}
	for (int pivot = 0; pivot < N; pivot++) {
		double divisor = left[pivot][pivot];

		if (!(divisor > PIVOT_MIN))
			return false;
		for (int j = 0; j < N; j++) {
			left[pivot][j] /= divisor;
			system->inverse[pivot][j] /= divisor;
		}
		for (int i = 0; i < N; i++) {
			double factor = left[i][pivot];

			for (int j = 0; i != pivot && j < N; j++) {
				left[i][j] -= factor * left[pivot][j];
				system->inverse[i][j] -= factor * system->inverse[pivot][j];
			}
		}
	}
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			system->inverse[i][j] /= scale[i] * scale[j];
	return true;
}

/* The residual of the model in which all states cost the same. */
static double residual_alike(const struct system *system, const struct fit_sums *sums)
{
	double xx = 0, xy = 0;

	for (int i = 0; i < N; i++) {
		xy += system->occurred[i] ? sums->xy[i] : 0;
		for (int j = 0; j < N; j++)
			xx += system->occurred[i] && system->occurred[j] ? sums->xx[i][j] : 0;
	}
	return sums->yy - xy * xy / xx;
}

static double residual_of(struct system *system, const struct fit_sums *sums)
{
	double residual = sums->yy;

	for (int i = 0; i < N; i++) {
		for (int j = 0; j < N; j++)
			system->watts[i] += system->inverse[i][j] * sums->xy[j];
		residual -= system->watts[i] * sums->xy[i];
	}
	return fmax(residual, 1e-12 * sums->yy); /* rounding of the sums: a perfect fit is none */
}

/* Returns why nothing is known, NULL where the states differ. */
static const char *solve(const struct fit_sums *sums, struct system *system)
{
	double all_s = 0, freedom, residual, difference;

	for (int i = 0; i < N; i++)
		all_s += sums->rank_s[i];
	for (int i = 0; i < N; i++) {
		system->occurred[i] = sums->rank_s[i] > OCCUPIED_MIN * all_s && sums->xx[i][i] > 0;
		system->count += system->occurred[i];
	}
	freedom = sums->samples - system->count;
	if (freedom < FREEDOM_MIN)
		return "too few samples";
	if (system->count < 2 || !invert(system, sums))
		return "the ranks' states did not vary";
	residual = residual_of(system, sums);
	system->variance = residual / freedom;
	difference = (residual_alike(system, sums) - residual) / (system->count - 1);
	if (!(difference > system->variance * f_quantile(DIFFERENCE_Z, system->count - 1, freedom)))
		return "not significant";
	return NULL;
}

/* The sum of the states' watts, each times its factor, and the interval of that sum. */
static struct fit_value combine(const struct system *system, double samples, const double factor[N])
{
	struct fit_value value = {.known = true};
	double variance = 0;

	for (int i = 0; i < N; i++) {
		value.value += factor[i] * system->watts[i];
		for (int j = 0; j < N; j++)
			variance += factor[i] * system->inverse[i][j] * factor[j];
	}
	value.plus_minus = t_quantile(INTERVAL_Z, samples - system->count) * sqrt(fmax(variance, 0) * system->variance);
	return value;
}

void fit_solve(const struct fit_sums *sums, struct fit *ret_fit)
{
	struct system system = {0};
	const double asleep_s = sums->rank_s[FIT_ASLEEP], spinning_s = sums->rank_s[FIT_SPINNING];
	bool slept, spun;

	memset(ret_fit, 0, sizeof(*ret_fit));
	ret_fit->why = solve(sums, &system);
	ret_fit->known = !ret_fit->why;
	if (!ret_fit->known)
		return;
	slept = system.occurred[FIT_ASLEEP];
	spun = system.occurred[FIT_SPINNING];
	for (int i = 0; i < N; i++) {
		double one[N] = {0};

		one[i] = 1;
		if (system.occurred[i])
			ret_fit->watts[i] = combine(&system, sums->samples, one);
	}
	if (slept || spun)
		ret_fit->waiting_j = combine(&system, sums->samples, (double[N]){asleep_s, spinning_s, 0});
	if (slept && spun) {
		ret_fit->saved_j = combine(&system, sums->samples, (double[N]){-asleep_s, asleep_s, 0});
		ret_fit->could_save_j = combine(&system, sums->samples, (double[N]){-spinning_s, spinning_s, 0});
	}
}
