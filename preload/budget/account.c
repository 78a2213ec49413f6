/*
 * The account measures what sleeping costs the job. The law stands in account.h. Variances are never negative. A square
 * root is one instruction: libm is not linked.
 */
#include "preload/budget/account.h"

#include "preload/contract/looks.h"

#define CHANGED    9.0      /* squared number of standard errors by which a look must differ to begin anew */
#define MEMORY     32.0     /* periods that the mean remembers; looks over which the error fades */
#define TRY_NS     400000.0 /* loss that a try may make, beside its share */
#define TRY_SHARE  0.6      /* part of what slowdown allows in the time of the try */
#define PAUSE_MOST 4096u

/* Returns the value, or the nearest one in [-most, most]. */
static double limit(double value, double most)
{
	return value > most ? most : value < -most ? -most : value;
}

void account_open(struct account *account, uint64_t now_ns, uint64_t ppm, uint32_t ranks)
{
	*account = (struct account){.opened_ns = now_ns, .resumed_ns = now_ns, .slowdown_ppm = ppm, .ranks = ranks};
}

double account_allowed(const struct account *account, uint64_t now_ns)
{
	return allowance_ns(now_ns - account->opened_ns, account->slowdown_ppm);
}

/* Returns how much slowdown allows in the time from since_ns to now_ns. */
static double share(const struct account *account, uint64_t since_ns, uint64_t now_ns)
{
	return (double)(now_ns - since_ns) * (double)account->slowdown_ppm * 1e-6;
}

/* Returns how much this try may still lose. */
static double try_room(const struct account *account, uint64_t now_ns)
{
	double try_ns = account->cut_ns > TRY_NS ? account->cut_ns : TRY_NS;

	return try_ns + TRY_SHARE * share(account, account->resumed_ns, now_ns) + account->forgiven_ns -
	       (account->spent_ns - account->tried_ns);
}

uint64_t account_room(const struct account *account, uint64_t now_ns)
{
	double allowed_ns = account_allowed(account, now_ns), left_ns = allowed_ns - account->spent_ns;
	double error_ns = account->ranks > 2 ? 2 * __builtin_sqrt(account->variance) : 0;
	double try_ns = try_room(account, now_ns);

	left_ns = (left_ns < ACCOUNT_KEPT_NS ? left_ns : ACCOUNT_KEPT_NS) + account->forgiven_ns;
	left_ns -= error_ns > allowed_ns ? error_ns - allowed_ns : 0;
	left_ns = left_ns < try_ns ? left_ns : try_ns;
	return !account->paused && left_ns > 0 ? (uint64_t)left_ns : 0;
}

uint64_t account_room_unmeasured(const struct account *account, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t room_ns = account_room(account, now_ns);
	double own_ns = (double)room_ns / account->ranks + share(account, since_ns, now_ns);
	bool measured = 2 * account->covered_ns > (double)(now_ns - account->since_ns);

	return measured || own_ns > (double)room_ns ? room_ns : (uint64_t)own_ns;
}

/*
 * Returns how many kinds of calls are charged at the same time, at least 1: the charged periods' sum by the time in
 * which they lay, so not always a whole number.
 */
static double kinds_at_once(const struct account *account, uint64_t now_ns)
{
	double many = account->covered_ns / (double)(now_ns - account->since_ns + 1);

	return many > 1 ? many : 1;
}

/*
 * Returns how many times as long as before the pause after a failed try is: 4 if the try lost more than twice what
 * slowdown allows in its time, 2 if it lost more than TRY_SHARE of what slowdown allows since the pause before it
 * began.
 */
static uint32_t pause_growth(const struct account *account, uint64_t now_ns)
{
	double lost_ns = account->spent_ns - account->tried_ns;

	if (lost_ns > 2 * share(account, account->resumed_ns, now_ns))
		return 4;
	return lost_ns > TRY_SHARE * share(account, account->paused_ns, now_ns) ? 2 : 1;
}

/*
 * Begins a pause if the try has lost more than it may, or if so many periods in a row were cut that the program may
 * have changed.
 */
static void check(struct account *account, const struct account_periods *periods, uint64_t now_ns)
{
	bool failed = try_room(account, now_ns) <= 0;

	if (account->paused || !(failed || account_strayed(account, periods)))
		return;
	if (failed && account->pause < PAUSE_MOST)
		account->pause *= pause_growth(account, now_ns);
	account->pause += account->pause == 0;
	account->paused = true;
	account->paused_ns = now_ns;
}

/*
 * Returns the mean of the samples, each cut at a quarter beside middle_ns. Writes the variance of one of them. There a
 * short sample counts in full: no hold-up of the machine shortens a period, so the periods vary by themselves.
 */
static double look_mean(const struct account_periods *periods, double middle_ns, double *ret_variance)
{
	double sum = 0, square = 0, n = periods->count;

	for (uint32_t i = 0; i < periods->count; i++) {
		double more_ns = periods->sample[i] - middle_ns, beside_ns = limit(more_ns, middle_ns / ACCOUNT_CUT);

		sum += beside_ns;
		square += more_ns < beside_ns ? more_ns * more_ns : beside_ns * beside_ns;
	}
	*ret_variance = n > 1 ? __builtin_fabs(square - sum * sum / n) / (n - 1) : 0;
	return middle_ns + sum / n;
}

/* Returns true if the look's periods, which are longer by more_ns in the mean, differ from those before it. */
static bool is_changed(const struct account_periods *periods, double more_ns)
{
	double least_ns = periods->usual_ns / 64;
	double square = periods->variance * (1 / (double)periods->count + 1 / (double)periods->weight);

	return periods->count >= ACCOUNT_KNOWN && more_ns * more_ns > CHANGED * square + least_ns * least_ns;
}

/* Takes the look's periods as the usual ones and forgets those before. */
static void begin_anew(struct account_periods *periods)
{
	double variance, mean_ns = look_mean(periods, periods->sample[periods->count / 2], &variance);

	periods->usual_ns = mean_ns;
	periods->variance = variance > periods->variance ? variance : periods->variance;
	periods->weight = (float)periods->count;
}

/*
 * Takes shift_ns back from the account, and begins to count charges and samples anew. many: as in look_learn. What was
 * charged before a pause is no loss, and no gain, of the try after it.
 */
static void correct(struct account *account, struct account_periods *periods, double shift_ns, double many)
{
	account->spent_ns -= shift_ns / many;
	account->tried_ns -= periods->window == UINT64_MAX ? shift_ns / many : 0;
	account->more_ns -= shift_ns;
	periods->looked = periods->count;
	periods->charged_ns = periods->slept = periods->count = 0;
	periods->strayed = 0;
}

/*
 * Learns the usual period from the samples of one look, and corrects what was charged since the look before. many:
 * kinds of calls that share the loss. Empties the samples.
 */
static void look_learn(struct account *account, struct account_periods *periods, double many)
{
	double before_ns = periods->usual_ns, count = periods->count, weight = periods->weight, variance, shift_ns;
	/* The samples are cut as charges are: skewed periods would else seem longer. */
	double mean_ns = look_mean(periods, before_ns, &variance);

	if (weight == 0 || is_changed(periods, mean_ns - before_ns)) {
		begin_anew(periods);
	} else {
		weight = weight + count < MEMORY ? weight + count : MEMORY;
		periods->usual_ns += (mean_ns - before_ns) * count / weight;
		periods->variance += (variance - periods->variance) * (count - 1) / weight;
		periods->weight = (float)weight;
	}
	shift_ns = limit((periods->usual_ns - before_ns) / 2 * periods->slept, __builtin_fabs(periods->charged_ns));
	account->windows += account->latest != periods->window;
	account->latest = periods->window;
	correct(account, periods, shift_ns, many);
}

/*
 * Learns from the samples, if there are any, and empties them: their look is over. Samples of a pause that a streak
 * began are dropped if the streak is still in doubt: then the pause ended before ACCOUNT_KNOWN of them had come.
 */
static void samples_learn(struct account *account, struct account_periods *periods, uint64_t now_ns)
{
	if (periods->window == UINT64_MAX && account_strayed(account, periods))
		periods->count = 0;
	if (periods->count > 0)
		look_learn(account, periods, kinds_at_once(account, now_ns));
}

void account_looked(struct account *account, struct account_periods *periods, uint64_t window, uint64_t period_ns,
                    uint64_t now_ns)
{
	uint32_t i;

	if (periods->window != window)
		samples_learn(account, periods, now_ns);
	periods->window = window;
	if (periods->count == ACCOUNT_SAMPLES)
		return;
	for (i = periods->count++; i > 0 && periods->sample[i - 1] > (float)period_ns; i--)
		periods->sample[i] = periods->sample[i - 1];
	periods->sample[i] = (float)period_ns;
}

/* Ends the pause, and begins the next try. */
static void resume(struct account *account, uint64_t now_ns)
{
	account->paused = false;
	account->since_ns += now_ns - account->paused_ns;
	account->tried_ns = account->spent_ns;
	account->resumed_ns = now_ns;
}

bool account_relearned(struct account *account, struct account_periods *periods, uint64_t period_ns, uint64_t now_ns)
{
	double cut_ns = periods->usual_ns / ACCOUNT_CUT, more_ns, variance;
	bool changed = false;

	account_looked(account, periods, UINT64_MAX, period_ns, now_ns);
	more_ns = look_mean(periods, periods->usual_ns, &variance) - periods->usual_ns;
	if (account_strayed(account, periods) && periods->count >= ACCOUNT_SAMPLES / 2) {
		changed = more_ns * more_ns >= 0.99 * cut_ns * cut_ns; /* all are cut to one side */
		periods->strayed = 0;
		if (changed) {
			begin_anew(periods);
			correct(account, periods, periods->streak_ns, kinds_at_once(account, now_ns));
		} else if (account->ranks > 2)
			periods->count = 0;
	} else if (periods->slept > 0 && periods->count == ACCOUNT_SAMPLES) {
		changed = 2 * more_ns * periods->slept >= periods->charged_ns; /* half of it is the program's */
	}
	if (changed) {
		account->pause /= 4;
		resume(account, now_ns);
	}
	return changed;
}

void account_change(struct account *account, uint64_t now_ns)
{
	account->changes++;
	account->pause /= 4;
	if (account->paused)
		resume(account, now_ns);
}

void account_renew(struct account *account, struct account_periods *periods, uint64_t now_ns)
{
	if (periods->changes == account->changes)
		return;
	correct(account, periods, periods->strayed > 0 ? periods->streak_ns : 0, kinds_at_once(account, now_ns));
	*periods = (struct account_periods){.changes = account->changes};
}

void account_slept(struct account *account, struct account_periods *periods, uint64_t passed_ns, uint32_t many,
                   uint64_t window_ns, uint64_t now_ns)
{
	double usual_ns, cut_ns, beyond_ns, more_ns, variance, shared;
	bool awake = account->paused || account_room(account, now_ns) == 0, streak;
	int32_t side;

	if (!account->paused)
		samples_learn(account, periods, now_ns);
	if (!account_knows(periods))
		return;
	usual_ns = periods->usual_ns * many;
	cut_ns = (account->ranks <= 2 ? periods->usual_ns : usual_ns) / ACCOUNT_CUT;
	beyond_ns = (double)passed_ns - usual_ns;
	more_ns = limit(beyond_ns, cut_ns) * looks_seen_part((double)passed_ns, usual_ns, (double)window_ns);
	side = (beyond_ns > cut_ns) - (beyond_ns < -cut_ns);
	streak = periods->strayed * side > 0;
	periods->strayed = streak ? periods->strayed + side : side;
	periods->streak_ns = (streak ? periods->streak_ns : 0) + (awake ? 0 : more_ns);
	if (awake)
		return;
	account->since_ns = account->since_ns != 0 ? account->since_ns : now_ns - passed_ns;
	account->covered_ns += (double)passed_ns;
	shared = kinds_at_once(account, now_ns);
	/* In the sum, n periods less n times the mean of `looked` others: so many variances are n + n * n / looked. */
	variance = periods->variance * many * (1 + 2.0 * periods->slept / periods->looked);
	periods->slept += many;
	periods->charged_ns += more_ns;
	account->spent_ns += more_ns / shared;
	account->cut_ns = cut_ns / shared;
	account->variance += variance / shared;
	account->slept_ns += usual_ns;
	account->more_ns += more_ns;
	account->variance_sum += variance * shared;
	check(account, periods, now_ns);
}

void account_charge(struct account *account, double nap_ns)
{
	account->spent_ns += nap_ns;
	account->tried_ns += nap_ns;
}

void account_overslept(struct account *account, int64_t over_ns, uint32_t here, uint64_t now_ns)
{
	double many = (double)account->ranks / (here > 0 ? here : 1), cost_ns = (double)over_ns * (many > 1 ? many : 1);

	account_charge(account, cost_ns);
	account->more_ns += cost_ns * kinds_at_once(account, now_ns);
}

/* The fading sums end at 0: a program may trap an underflow, or print it at its end (gfortran). */
void account_settle(struct account *account, uint64_t now_ns)
{
	double beyond_ns = account_allowed(account, now_ns) - ACCOUNT_KEPT_NS - account->spent_ns;

	account_charge(account, beyond_ns > 0 ? beyond_ns : 0);
	account->variance = account->variance > 1 ? account->variance - account->variance / MEMORY : 0;
	account->forgiven_ns = limit(__builtin_sqrt(account->variance), TRY_NS);
	if (account->paused)
		return;
	account->pause /= 2;
	account->since_ns += account->since_ns != 0 ? (now_ns - account->since_ns) / 2 : 0;
	account->covered_ns = account->covered_ns > 1 ? account->covered_ns / 2 : 0;
}

void account_resume(struct account *account, uint64_t turn_ns, uint64_t now_ns, uint64_t real_ns)
{
	uint64_t began_ns = real_ns - (now_ns - account->paused_ns), length_ns = turn_ns * account->pause;

	if (account->paused && real_ns / length_ns != began_ns / length_ns)
		resume(account, now_ns);
}
