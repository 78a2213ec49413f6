/*
 * The law of the account, for whole jobs, in virtual time: whatever a job does, and however late sleeps end, sleeping
 * costs it no more than it may.
 *
 *     joblaw_test [STEPS [some|all [tell]]]      each job has so many steps of about 1 ms; 600 by default
 *
 * Each scene is a pattern of work, or an adversary. Each is played with each kind of exits, by 2, 16 and 64 ranks: with
 * "some" in two of the six pairs of meeting and way by turns, with "all" in all of them. Then the same work is played
 * by a job that polls. With "tell" each job's loss is printed, and no failure ends the test early. With T the time that
 * the job takes:
 *
 *  - after each step, the loss that each rank's account has measured is at most slowdown * T + start + its own error,
 *    but for what is charged at once, by a call that ended, a nap that ended late, or a look that corrects, and for
 *    what other ranks oversleep while this one may lose no more;
 *  - no rank sleeps in a pause of its account, nor while its account has lost more than it may;
 *  - at the end, the loss that the records tell is at most as much, with twice its error;
 *  - the true loss, against the job that polls, is at most twice (slowdown * T + start). Where one sleep in 100 ends 4
 *    ms late, the longest oversleep is added, twice if the job has several nodes: the ranks of a node know of an
 *    oversleep when it is over, and the other nodes' ranks do not. Nothing is added in a job of two ranks, but in the
 *    scenes "rotating", "wandering", "drifting", "periodic", "coin" and "exponential", and where the machine holds up
 *    ranks. In the scene "long in looks" the true loss is told and not judged: the program itself works longer in
 *    looks, which hides what sleeping costs. The law does not cover that;
 *  - a scene that has a `most_cpu` is slept through: without that, a library that never sleeps would pass.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/emulate_job.h"

#define STEPS        600
#define LATER_STEPS  1500 /* at least, of scenes in which something happens later */
#define MANY_STEPS   800
#define MS           1000000.0
#define LATE_JOIN    (1000 * MS)
#define NEVER_JOINS  1e17
#define OUTPUT_EVERY 40
#define OVERSLEEP_US 4000 /* exits that are longer than the law allows at first */

static bool tells;

/* The work of one job, by step and rank. Where it depends on looks, the job that polls has none to look at. */
static float *kept;

static double keep(const struct job *job, int rank, int step, double work)
{
	float *place = &kept[(size_t)step * (size_t)job->ranks + (size_t)rank];

	if (job->way != JOB_BARE)
		*place = (float)work;
	return *place;
}

static bool is_half(int rank)
{
	return rank % 2 != 0;
}

/* Whether the step that begins now ends in a look. */
static bool is_looked_at(const struct job *job, int rank)
{
	const struct job_rank *one = &job->rank[rank];

	return job->way != JOB_BARE && looks_at(&one->plan.looks, (uint64_t)(one->now_ns + JOB_WORK_NS));
}

static double work_short_looks(struct job *job, int rank, int step)
{
	double slow = is_half(rank) ? (is_looked_at(job, rank) ? 1.1 : 1.5) : 1;

	return keep(job, rank, step, slow * (1 + 0.01 * job_normal(job)));
}

static double work_long_looks(struct job *job, int rank, int step)
{
	double slow = is_half(rank) ? (is_looked_at(job, rank) ? 1.5 : 1.1) : 1;

	return keep(job, rank, step, slow * (1 + 0.01 * job_normal(job)));
}

/* As long as a window, once in each period of the windows, by the clock that these follow. */
static double work_windows_period(struct job *job, int rank, int step)
{
	uint64_t period_ns = UINT64_C(1) << LOOKS_PERIOD_SHIFT, window_ns = UINT64_C(1) << LOOKS_WINDOW_SHIFT;
	bool slow = (uint64_t)job->rank[rank].now_ns % period_ns < window_ns;

	return keep(job, rank, step, (is_half(rank) ? (slow ? 1.6 : 1.3) : 1) * (1 + 0.01 * job_normal(job)));
}

static double work_slower(struct job *job, int rank, int step)
{
	return pow(1.3, step / 500) * (is_half(rank) ? 1.4 : 1) * (1 + 0.01 * job_normal(job));
}

/* The machine holds one rank up for 3 ms, in one step of 50. */
static double work_hiccups(struct job *job, int rank, int step)
{
	bool held = job_unit(job) < 1.0 / 50 / job->ranks;

	(void)step;
	return (is_half(rank) ? 1.4 : 1) * (1 + 0.01 * job_normal(job)) + (held ? 3 : 0);
}

/* All wait for rank 0, by chance for a short or for a long time. */
static double work_coin(struct job *job, int rank, int step)
{
	(void)step;
	return rank > 0 ? 0.02 : job_unit(job) < 0.5 ? 0.1 : 1.9;
}

/* All wait for rank 0, for a time that tells nothing of the next one. */
static double work_exponential(struct job *job, int rank, int step)
{
	(void)step;
	return rank > 0 ? 0.02 : fmin(-log(job_unit(job)), 20);
}

/* The same, for up to 20 ms. */
static double work_anything(struct job *job, int rank, int step)
{
	(void)step;
	return rank > 0 ? 0.02 : 20 * job_unit(job);
}

/* Waits worth a nap lie in one step of eight, which is four times as long as the others. */
static double work_seldom(struct job *job, int rank, int step)
{
	return (step % 8 != 0 ? 1 : rank > 0 ? 0.02 : 4) * (1 + 0.005 * job_normal(job));
}

/* All wait for rank 0; twice the waits become ten times as long. */
static double work_leaps(struct job *job, int rank, int step)
{
	return rank > 0 ? 0.02 : 0.3 * pow(10, 3 * step / job->steps) * (1 + 0.002 * job_normal(job));
}

/* All wait for rank 0, whose work becomes a little shorter, and shorter again: less than what a period is cut at. */
static double work_eases(struct job *job, int rank, int step)
{
	return rank > 0 ? 0.02 : 20 * pow(0.85, 3 * step / job->steps) * (1 + 0.002 * job_normal(job));
}

static double joins_never(const struct job *job, int rank)
{
	(void)job;
	return rank == 1 ? NEVER_JOINS : 0;
}

/* The steps' length swings by 3 per cent in two thirds of a second. One in OUTPUT_EVERY writes output, and is longer.
 */
static double work_output(struct job *job, int rank, int step)
{
	double swing = 1 + 0.03 * sin(step / 70.0), output = step % OUTPUT_EVERY == OUTPUT_EVERY - 1 ? 3 : 1;

	return swing * output * (is_half(rank) ? 1.5 : 1) * (1 + 0.01 * job_normal(job));
}

static double joins_late(const struct job *job, int rank)
{
	return rank >= job->ranks / 2 ? LATE_JOIN : 0;
}

/* A pattern of emulate_job.h, by its word, or one of this file. */
struct scene {
	const char *word;
	double (*work)(struct job *job, int rank, int step);
	double (*joins_ns)(const struct job *job, int rank);
	double most_cpu; /* of the waits, by 16 ranks and more that meet in a tree, with the shortest exits; 0: any */
	int least_steps;
	int output_every;
	double cold_us; /* what naps make the next step longer by (emulate_job.h) */
	struct job_holds holds;
};

static const struct scene scenes[] = {
        {.word = "grows", .most_cpu = 0.3},
        {.word = "shrinks", .most_cpu = 0.3},
        {.word = "short in looks", .work = work_short_looks},
        {.word = "always", .most_cpu = 0.5},
        {.word = "rotating", .most_cpu = 0.5},
        {.word = "wandering", .most_cpu = 0.5},
        {.word = "half", .most_cpu = 0.5},
        {.word = "drifting", .most_cpu = 0.7},
        {.word = "periodic", .most_cpu = 0.6},
        {.word = "even"},
        {.word = "uneven"},
        {.word = "heavy"},
        {.word = "long in looks", .work = work_long_looks},
        {.word = "the windows' period", .work = work_windows_period, .most_cpu = 0.8},
        {.word = "slower and slower", .work = work_slower, .most_cpu = 0.6, .least_steps = LATER_STEPS},
        {.word = "hiccups", .work = work_hiccups, .most_cpu = 0.7, .least_steps = LATER_STEPS},
        {.word = "late", .most_cpu = 0.4, .least_steps = LATER_STEPS, .cold_us = 10},
        {.word = "half", .most_cpu = 0.9, .least_steps = LATER_STEPS, .cold_us = 30},
        {.word = "half", .most_cpu = 0.8, .least_steps = LATER_STEPS, .holds = {250, 80}},
        {.word = "half", .joins_ns = joins_never},
        {.word = "half", .joins_ns = joins_late, .most_cpu = 0.9, .least_steps = LATER_STEPS},
        {.word = "coin", .work = work_coin},
        {.word = "exponential", .work = work_exponential},
        {.word = "leaps", .work = work_leaps},
        {.word = "eases", .work = work_eases},
        {.word = "anything", .work = work_anything},
        {.word = "seldom", .work = work_seldom},
        {.word = "output",
         .work = work_output,
         .most_cpu = 0.6,
         .output_every = OUTPUT_EVERY,
         .least_steps = LATER_STEPS},
};
#define SCENES (int)(sizeof(scenes) / sizeof(scenes[0]))

static const struct job_exits exits[] = {
        {5, 12, 0, 0, 0},      {16, 36, 0, 0, 0},     {42, 118, 0, 0, 0},
        {5, 12, 1000, 200, 0}, {5, 12, 100, 4000, 0}, {6, 14, 0, 0, 150},
};
#define EXITS (int)(sizeof(exits) / sizeof(exits[0]))

/* What may be lost in so long, without errors. */
static double allowed_ns(double lasted_ns)
{
	return ALLOWANCE_START_NS + lasted_ns * JOB_SLOWDOWN * 1e-6;
}

static void job_tell(const struct job *job, const char *what, double value, double most)
{
	fprintf(stderr,
	        "%s, %s, %s, %d ranks, exits %.0f/%.0f, 1 in %.0f by %.0f us: %s %.2f, at most %.2f; CPU %.0f %%\n",
	        job->pattern->name, job_meeting_names[job->meeting], job_way_names[job->way], job->ranks,
	        job->exits.median_us, job->exits.most_us, job->exits.tail, job->exits.tail_us, what, value, most,
	        100 * job_cpu(job));
}

static void within(const struct job *job, const char *what, double value, double most)
{
	if (value <= most)
		return;
	check_failures++;
	job_tell(job, what, value, most);
}

/* What is known of a rank after a step. */
struct known {
	bool spent;        /* its account has lost more than it may */
	uint64_t told_ns;  /* what its node has overslept ... */
	double charged_ns; /* ... and what was charged for it since the account may lose no more */
	double slept;      /* the most calls that were charged between two looks ... */
	double usual_ns;   /* ... and the longest period that they were compared with */
};

/* What was found in one job. */
static struct {
	struct known *known; /* by rank */
	double charge_ns;    /* the most that may be charged at once */
	double beyond_ns;    /* the most that an account was beyond the law, with what may be charged at once */
	double overslept_ns; /* the greatest delay of a nap */
} found;

/*
 * Returns the most that an account may be charged at once: a call's period, cut at a quarter beside the usual one; what
 * the ranks of its node have overslept since the account had something left, once for each node; up to 0.1 ms by which
 * the rank's own nap ended late, of which no rank is told; and, by a look that differs from the one before, as much as
 * the cut for each call between them.
 */
static double charge_ns(const struct job *job, const struct job_rank *rank, struct known *known)
{
	const struct forecast_entry *entry = rank->forecast->entry;
	double told_ns = (double)(rank->plan.overslept_ns - known->told_ns) * job->ranks / rank->node->claimed;
	double most_ns;

	known->told_ns = rank->plan.overslept_ns;
	known->charged_ns = told_ns + (known->spent ? known->charged_ns : 0);
	most_ns = known->charged_ns + fmin(rank->worst_ns, FORECAST_SHORT_NS);
	if (!entry)
		return most_ns;
	known->slept = fmax(known->slept, entry->periods.slept + 1);
	known->usual_ns = fmax(known->usual_ns, entry->periods.usual_ns);
	return most_ns + (1 + known->slept) * known->usual_ns / ACCOUNT_CUT;
}

static void account_check(const struct job *job, const struct job_rank *rank, struct known *known)
{
	const struct account *account = &rank->plan.account;
	uint64_t now_ns = (uint64_t)rank->now_ns;
	double most_ns, at_once_ns = charge_ns(job, rank, known), allowed_most_ns = account_allowed(account, now_ns);

	if (rank->now_ns < rank->joins_ns)
		return;
	found.charge_ns = fmax(found.charge_ns, at_once_ns);
	found.overslept_ns = fmax(found.overslept_ns, rank->worst_ns);
	most_ns = allowed_most_ns + sqrt(account->variance) + at_once_ns;
	found.beyond_ns = fmax(found.beyond_ns, account->spent_ns - most_ns);
	known->spent = account->spent_ns > allowed_most_ns + account->forgiven_ns;
}

static void accounts_watch(struct job *job, int step)
{
	(void)step;
	for (int i = 0; i < job->ranks; i++)
		account_check(job, &job->rank[i], &found.known[i]);
}

static bool is_judged(const struct job *job)
{
	return job->pattern->work != work_long_looks;
}

/* Whether an oversleep alone may be longer than what the job may lose (the head of this file). */
static bool may_oversleep(const struct job *job)
{
	static const char *const changing_scenes[] = {"rotating", "wandering", "drifting",
	                                              "periodic", "coin",      "exponential"};
	bool changing = job->holds.per_s > 0;

	for (size_t i = 0; i < sizeof(changing_scenes) / sizeof(changing_scenes[0]); i++)
		changing |= strcmp(job->pattern->word, changing_scenes[i]) == 0;
	return job->exits.tail_us >= OVERSLEEP_US && (job->ranks > 2 || changing);
}

/* Returns the most that the job may lose. An oversleep of some milliseconds is charged once it is over. */
static double true_most_ns(const struct job *job)
{
	double first_ns = (job->ranks > JOB_NODE ? 2 : 1) * found.overslept_ns;

	return 2 * allowed_ns(job->lasted_ns) + (may_oversleep(job) ? first_ns : 0);
}

/* The law of one job that was played, against the same that polls. */
static void job_check(const struct job *job, double bare_ns, double most_cpu)
{
	double most_ns = allowed_ns(job->lasted_ns), loss_ns = job->lasted_ns - bare_ns;
	double told_ns = job->more_ns / job->ranks;

	within(job, "an account beyond the law, ms", found.beyond_ns / MS, 0);
	within(job, "naps in pauses, and while nothing is left", (double)job->unpaid, 0);
	within(job, "measured loss, ms", told_ns / MS, (most_ns + 2 * job->error_ns + found.charge_ns) / MS);
	if (is_judged(job))
		within(job, "true loss, ms", loss_ns / MS, true_most_ns(job) / MS);
	if (most_cpu > 0)
		within(job, "CPU of the waits, %", 100 * job_cpu(job), 100 * most_cpu);
	if (!tells)
		return;
	job_tell(job, is_judged(job) ? "true loss, ms" : "true loss, not judged, ms", loss_ns / MS,
	         true_most_ns(job) / MS);
	job_tell(job, "measured loss, ms", told_ns / MS, (most_ns + 2 * job->error_ns + found.charge_ns) / MS);
}

static void pattern_find(const struct scene *scene, struct job_pattern *ret_pattern)
{
	*ret_pattern = (struct job_pattern){scene->word, scene->word, scene->work};
	for (size_t i = 0; !scene->work && i < job_pattern_count; i++)
		if (strcmp(job_patterns[i].word, scene->word) == 0)
			*ret_pattern = job_patterns[i];
}

static void job_try(const struct scene *scene, int place, struct job job)
{
	bool judged = job.ranks >= 16 && job.meeting == JOB_TREE && place == 0;
	struct job_pattern pattern;
	struct job bare;

	pattern_find(scene, &pattern);
	job.pattern = &pattern;
	job.joins_ns = scene->joins_ns;
	job.steps = job.steps > scene->least_steps ? job.steps : scene->least_steps;
	job.exits = exits[place];
	job.cold_us = scene->cold_us;
	job.output_every = scene->output_every;
	job.holds = scene->holds;
	bare = job;
	bare.way = JOB_BARE;
	job.watch = accounts_watch;
	kept = calloc((size_t)job.ranks * (size_t)job.steps, sizeof(*kept));
	found.known = calloc((size_t)job.ranks, sizeof(*found.known));
	found.beyond_ns = -INFINITY;
	found.charge_ns = 0;
	found.overslept_ns = 0;
	CHECK(kept && found.known && job_play(&job) && job_play(&bare));
	job_check(&job, bare.lasted_ns, judged ? scene->most_cpu : 0);
	free(found.known);
	free(kept);
}

/* In two of the six pairs of meeting and way, by turns, or in all of them. */
static void scene_try(const struct scene *scene, int place, struct job job, int turn, bool all)
{
	for (int pair = 0; pair < 2 * JOB_MEETINGS; pair++) {
		job.meeting = (enum job_meeting)(pair / 2);
		job.way = pair % 2 ? JOB_SILENT : JOB_TELLING;
		if (all || pair % 3 == turn % 3)
			job_try(scene, place, job);
	}
}

/* By 256 ranks, which nearly always wait for one that overslept, or for the slowest. */
static void many_try(int steps)
{
	struct scene late = {.word = "rotating", .least_steps = MANY_STEPS};
	struct scene uneven = {.word = "uneven", .least_steps = MANY_STEPS};
	struct job job = {.ranks = 256, .steps = steps, .meeting = JOB_TREE, .way = JOB_TELLING};

	job_try(&late, 3, job);
	job_try(&uneven, 0, job);
}

int main(int argc, char **argv)
{
	static const int sizes[] = {2, 16, 64};
	int steps = argc > 1 ? atoi(argv[1]) : STEPS;
	bool all = argc > 2 && strcmp(argv[2], "all") == 0;

	tells = argc > 3;
	many_try(steps);
	for (int i = 0; i < SCENES; i++)
		for (int place = 0; place < EXITS; place++)
			for (int size = 0; size < 3 && (tells || CHECK_HOLDING); size++)
				if (all || sizes[size] < 64 || scenes[i].least_steps <= steps)
					scene_try(&scenes[i], place, (struct job){.ranks = sizes[size], .steps = steps},
					          i + place + size, all);
	return CHECK_RESULT;
}
