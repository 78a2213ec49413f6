/*
 * By how much is a job longer, not a rank? An emulation of bulk-synchronous jobs: in each step every rank computes,
 * then all meet in a collective; the real forecast, account and ladder sleep in the waits, and what wakes late starts
 * its next step late. Times are virtual: the machine that it runs on does not matter.
 *
 *     job RANKS STEPS [EXIT_US [EXIT99_US [TAIL]]]
 *
 * Patterns: who is slow, and by how much the work varies (of 1 ms). Collectives: "max" ends for all when the last rank
 * has come; "tree" reduces and broadcasts along a binary tree, in which each rank passes on what it noticed; "ring"
 * waits for two neighbours. A message takes 1.5 us. The nodes' clocks differ by 200 us. A sleep ends later than asked
 * by a lognormal time with the median EXIT_US and the 99th percentile EXIT99_US; with TAIL, one in so many ends 200 us
 * later than that in the mean.
 *
 * Each is played with a runtime that says when it has made progress, and with a silent one: there a collective is one
 * wait, whatever it has to pass on in between.
 *
 * Prints per pattern and collective, for the ladder without an account, for forecasts with one of 1 %, and for these
 * with a silent runtime: how much longer the job is than one that polls (%), the CPU time of the waits (% of what
 * polling takes), and what the job's account has measured (%).
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/budget/ladder.h"
#include "preload/budget/plan.h"

#define US         1000.0
#define WORK_NS    1000000.0
#define MESSAGE_NS 1500.0
#define SKEW_NS    200000.0
#define START_NS   1e15 /* by the nodes' clocks */
#define TAIL_NS    200000.0
#define OWN_NS     3000.0 /* CPU time of a nap */
#define GRACE_NS   10000  /* polls before the first look at the clock */
#define SLOWDOWN   10000
#define VAIN_NS    UINT64_C(6400) /* of a silent runtime's idle calls, until a nap may begin */

enum way { BARE, LADDER, FORESIGHT, SILENT, WAYS };
enum meeting { MAX, TREE, RING, MEETINGS };

static const char *const meeting_names[MEETINGS] = {"max", "tree", "ring"};
static const struct ladder_policy policy = {
        .rungs = 1u << MPIWAIT_RUNG_PAUSE | 1u << MPIWAIT_RUNG_NAP,
        .spin_ns = 20000,
        .relative_ppm = 62500,
        .max_ns = 100000,
};

struct rank {
	struct forecast *forecast;
	struct plan plan;
	struct mpiwait_lane *lane;
	struct ladder ladder;
	double now_ns;   /* where it is */
	double ready_ns; /* in a tree: when it passed on what it had */
	double skew_ns;  /* of its node's clock */
};

static struct rank *ranks;
static int rank_count;
static enum way way;
static double exit_ns, exit_99_ns, tail, polled_ns, waited_ns;
static uint64_t random_state;

static double random_unit(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)(random_state >> 11) / 9007199254740992.0 + 1e-17;
}

static double random_normal(void)
{
	return sqrt(-2 * log(random_unit())) * cos(6.283185307179586 * random_unit());
}

static double clamp(double value)
{
	return value > 0.3 ? value : 0.3;
}

static double work_persistent(int rank, int step)
{
	(void)step;
	return (rank == rank_count / 3 ? 1.3 : 1.0) * (1 + 0.005 * random_normal());
}

static double work_rotating(int rank, int step)
{
	return (rank == (int)((long)step * 37 % rank_count) ? 1.3 : 1.0) * (1 + 0.005 * random_normal());
}

static double work_random_slow(int rank, int step)
{
	static int slow, of_step = -1;

	if (of_step != step)
		slow = (int)(random_unit() * rank_count);
	of_step = step;
	return (rank == slow ? 1.3 : 1.0) * (1 + 0.005 * random_normal());
}

static double work_halves(int rank, int step)
{
	(void)step;
	return (rank % 2 ? 1.5 : 1.0) * (1 + 0.02 * random_normal());
}

static double work_even(int rank, int step)
{
	(void)rank, (void)step;
	return 1 + 0.02 * random_normal();
}

static double work_uneven(int rank, int step)
{
	(void)rank, (void)step;
	return clamp(1 + 0.1 * random_normal());
}

static double work_heavy(int rank, int step)
{
	double beyond = pow(random_unit(), -1 / 2.5) - 1;

	(void)rank, (void)step;
	return 1 + 0.02 * (beyond < 30 ? beyond : 30);
}

static double work_drifting(int rank, int step)
{
	return (1 + 0.15 * sin(rank * 6.283185307179586 / rank_count + step / 40.0)) * (1 + 0.01 * random_normal());
}

/* One step in 64, which is how far looks lie apart, is longer. */
static double work_periodic(int rank, int step)
{
	return (step % 64 == 0 ? 1.3 : 1.0) * (1 + 0.02 * random_normal()) + (rank % 2 ? 0.3 : 0.0);
}

static const struct pattern {
	const char *name;
	double (*work)(int rank, int step);
} patterns[] = {
        {"one rank always 30 % slow", work_persistent},
        {"the slow rank rotates", work_rotating},
        {"the slow rank is random", work_random_slow},
        {"half of the ranks 50 % slower", work_halves},
        {"drifting", work_drifting},
        {"the looks' own period", work_periodic},
        {"random, 2 %", work_even},
        {"random, 10 %", work_uneven},
        {"random, heavy tail", work_heavy},
};

/* A call of one rank. */
struct call {
	struct rank *rank;
	uint32_t number;
	bool open;          /* it waits */
	uint64_t origin_ns; /* of w: the latest sign of progress */
	uint64_t last_ns;   /* the last empty poll, or the end of a nap */
	uint64_t quiet_ns;  /* no nap begins before */
};

static uint64_t exit_play(void)
{
	double sigma = log(exit_99_ns / exit_ns) / 2.326, over_ns = exit_ns * exp(sigma * random_normal());

	if (tail > 0 && random_unit() < 1 / tail)
		over_ns -= TAIL_NS * log(random_unit());
	return (uint64_t)over_ns;
}

/* What to sleep after an empty poll. Returns 0 where nothing is slept. */
static uint64_t sleep_choose(const struct call *call, uint64_t now_ns, bool *ret_advised,
                             struct ladder_action *ret_action)
{
	struct rank *rank = call->rank;
	struct plan_step step = {.advice = PLAN_LADDER};
	uint64_t origin_ns;
	struct ladder_moment moment = {.now_ns = now_ns, .waited_ns = now_ns - call->origin_ns, .cap_ns = UINT64_MAX};

	*ret_advised = false;
	if (way != LADDER)
		step = plan_ask(&rank->plan, now_ns, 0);
	if (step.advice == PLAN_LOOK || step.advice == PLAN_LANDED)
		return 0;
	*ret_advised = step.advice == PLAN_NAP;
	if (*ret_advised)
		return step.ask_ns;
	origin_ns = rank->plan.outlasted_ns;
	if (way != LADDER && origin_ns > call->origin_ns)
		moment.waited_ns = now_ns - origin_ns;
	*ret_action = ladder_next(&rank->ladder, &policy, moment);
	if (ret_action->rung != MPIWAIT_RUNG_NAP)
		return 0;
	if (way != LADDER &&
	    !plan_may(&rank->plan, now_ns, ret_action->ask_ns + rank->ladder.rung[MPIWAIT_RUNG_NAP].exit_ns))
		return 0;
	return ret_action->ask_ns;
}

/* Polls and sleeps until something comes at end_ns, which is in the future. Returns when it is noticed. */
static uint64_t wait_play(struct call *call, uint64_t now_ns, uint64_t end_ns)
{
	struct rank *rank = call->rank;
	uint64_t from_ns = now_ns;

	while (now_ns < end_ns) {
		uint64_t step_ns = (now_ns - call->origin_ns) / 64 + 500, ask_ns = 0, woke_ns;
		struct ladder_action action;
		bool advised;

		call->last_ns = now_ns;
		if (now_ns >= call->quiet_ns) {
			plan_quiet(&rank->plan);
			ask_ns = sleep_choose(call, now_ns, &advised, &action);
		} else if (now_ns + step_ns > call->quiet_ns) {
			step_ns = call->quiet_ns - now_ns;
		}
		if (ask_ns == 0) {
			now_ns = end_ns - now_ns < step_ns ? end_ns : now_ns + step_ns;
			continue;
		}
		woke_ns = now_ns + ask_ns + exit_play();
		if (way != LADDER)
			plan_woke(&rank->plan, (struct plan_nap){advised ? PLAN_BY_FORECAST : PLAN_BY_LADDER, now_ns,
			                                         ask_ns, woke_ns, false, true});
		if (!advised)
			ladder_learn(&rank->ladder, action, woke_ns - now_ns, woke_ns);
		polled_ns -= (double)((woke_ns < end_ns ? woke_ns : end_ns) - now_ns) - OWN_NS;
		now_ns = call->last_ns = woke_ns;
		call->quiet_ns = way == SILENT ? now_ns + VAIN_NS : now_ns;
	}
	polled_ns += (double)(end_ns - from_ns);
	return now_ns;
}

static void call_begin(struct call *call)
{
	struct rank *rank = call->rank;
	uint64_t began_ns = (uint64_t)rank->now_ns + GRACE_NS;

	call->open = true;
	call->last_ns = call->origin_ns = call->quiet_ns = began_ns;
	if (way != LADDER)
		plan_open(&rank->plan, forecast_site(1, 1, 1, 1), call->number, true, began_ns,
		          (uint64_t)((double)began_ns + rank->skew_ns));
}

/* The rank waits in that call for what comes then. Only the first polls of a call are not looked at. */
static void call_wait(struct call *call, double end_ns)
{
	struct rank *rank = call->rank;
	uint64_t from_ns;

	if (end_ns <= rank->now_ns)
		return;
	waited_ns += end_ns - rank->now_ns;
	if (way == BARE || (!call->open && end_ns - rank->now_ns < GRACE_NS)) {
		polled_ns += end_ns - rank->now_ns;
		rank->now_ns = end_ns;
		return;
	}
	from_ns = (uint64_t)rank->now_ns;
	if (!call->open) {
		polled_ns += GRACE_NS;
		call_begin(call);
		from_ns += GRACE_NS;
	}
	rank->now_ns = (double)wait_play(call, from_ns, (uint64_t)end_ns + 1);
	if (way == FORESIGHT) {
		plan_progress(&rank->plan, call->last_ns, (uint64_t)rank->now_ns);
		call->origin_ns = (uint64_t)rank->now_ns;
	}
}

static void call_end(struct call *call)
{
	if (call->open && way != LADDER)
		plan_close(&call->rank->plan, call->last_ns);
}

static void meet_max(struct call *calls)
{
	double last_ns = 0;

	for (int i = 0; i < rank_count; i++)
		last_ns = ranks[i].now_ns > last_ns ? ranks[i].now_ns : last_ns;
	for (int i = 0; i < rank_count; i++)
		call_wait(&calls[i], last_ns + MESSAGE_NS);
}

static void meet_tree(struct call *calls)
{
	for (int i = rank_count - 1; i >= 0; i--) {
		for (int child = 2 * i + 1; child <= 2 * i + 2 && child < rank_count; child++)
			call_wait(&calls[i], ranks[child].ready_ns + MESSAGE_NS);
		ranks[i].ready_ns = ranks[i].now_ns;
	}
	for (int i = 1; i < rank_count; i++)
		call_wait(&calls[i], ranks[(i - 1) / 2].now_ns + MESSAGE_NS);
}

static void meet_ring(struct call *calls)
{
	for (int i = 0; i < rank_count; i++)
		ranks[i].ready_ns = ranks[i].now_ns;
	for (int i = 0; i < rank_count; i++) {
		call_wait(&calls[i], ranks[(i + 1) % rank_count].ready_ns + MESSAGE_NS);
		call_wait(&calls[i], ranks[(i + rank_count - 1) % rank_count].ready_ns + MESSAGE_NS);
	}
}

static void ranks_reset(void)
{
	random_state = 1234567;
	for (int i = 0; i < rank_count; i++) {
		struct rank *rank = &ranks[i];

		memset(rank->forecast, 0, sizeof(*rank->forecast));
		memset(rank->lane, 0, sizeof(*rank->lane));
		rank->forecast->ranks = (uint32_t)rank_count;
		rank->now_ns = 0;
		rank->skew_ns = START_NS + SKEW_NS * random_normal();
		rank->ladder = (struct ladder){0};
		rank->ladder.rung[MPIWAIT_RUNG_NAP] = (struct ladder_latency){.timed = true, .exit_ns = 10000};
		plan_start(&rank->plan, rank->forecast, rank->lane, 4711, SLOWDOWN, 0);
	}
}

/* Returns how long the job takes. */
static double job_play(const struct pattern *pattern, enum meeting meeting, int steps)
{
	static void (*const meet[MEETINGS])(struct call *) = {meet_max, meet_tree, meet_ring};
	struct call *calls = calloc((size_t)rank_count, sizeof(*calls));
	double last_ns = 0;

	if (!calls)
		exit(1);
	ranks_reset();
	random_state = 4711;
	polled_ns = waited_ns = 0;
	for (int step = 0; step < steps; step++) {
		uint64_t kept = random_state;

		random_state = 88172645463325252u + (uint64_t)step * 7919; /* the same work, whatever the naps drew */
		for (int i = 0; i < rank_count; i++)
			ranks[i].now_ns += WORK_NS * pattern->work(i, step);
		random_state = step ? kept : 4711;
		for (int i = 0; i < rank_count; i++)
			calls[i] = (struct call){.rank = &ranks[i], .number = (uint32_t)step};
		meet[meeting](calls);
		for (int i = 0; i < rank_count; i++)
			call_end(&calls[i]);
	}
	for (int i = 0; i < rank_count; i++)
		last_ns = ranks[i].now_ns > last_ns ? ranks[i].now_ns : last_ns;
	free(calls);
	return last_ns;
}

/* What the ranks' accounts have measured, in %. */
static double measured(void)
{
	double more_ns = 0, slept_ns = 0;

	for (int i = 0; i < rank_count; i++) {
		more_ns += (double)ranks[i].lane->cost_more_ns;
		slept_ns += (double)ranks[i].lane->cost_slept_ns;
	}
	return slept_ns > 0 ? 100 * more_ns / slept_ns : 0;
}

static void pattern_play(const struct pattern *pattern, enum meeting meeting, int steps)
{
	double bare_ns = 0;

	printf("%-30s %-5s", pattern->name, meeting_names[meeting]);
	for (way = BARE; way < WAYS; way++) {
		if (way == LADDER && rank_count > 100 && getenv("NOLADDER"))
			continue;
		double job_ns = job_play(pattern, meeting, steps);

		if (way == BARE)
			bare_ns = job_ns;
		else
			printf("  %+6.2f %5.0f %+7.2f", 100 * (job_ns / bare_ns - 1), 100 * polled_ns / waited_ns,
			       measured());
	}
	printf("\n");
	fflush(stdout);
}

static bool ranks_make(void)
{
	ranks = calloc((size_t)rank_count, sizeof(*ranks));
	for (int i = 0; ranks && i < rank_count; i++) {
		ranks[i].forecast = calloc(1, sizeof(struct forecast));
		ranks[i].lane = calloc(1, sizeof(struct mpiwait_lane));
		if (!ranks[i].forecast || !ranks[i].lane)
			return false;
	}
	return ranks;
}

static double argument(int argc, char **argv, int at, double otherwise)
{
	return argc > at ? atof(argv[at]) : otherwise;
}

int main(int argc, char **argv)
{
	int steps = (int)argument(argc, argv, 2, 400);
	int only = (int)argument(argc, argv, 6, -1);

	rank_count = (int)argument(argc, argv, 1, 1000);
	exit_ns = argument(argc, argv, 3, 5) * US;
	exit_99_ns = argument(argc, argv, 4, 12) * US;
	tail = argument(argc, argv, 5, 0);
	if (!ranks_make())
		return 1;
	printf("%d ranks, %d steps of 1 ms, sleeps end %.0f us late: job longer by %%, CPU of waits in %%, measured by "
	       "%%\n",
	       rank_count, steps, exit_ns / US);
	printf("%-36s  %-21s  %-21s  %s\n", "", "ladder", "forecasts, 1 %", "silent");
	for (size_t i = (size_t)argument(argc, argv, 7, 0);
	     i < (argc > 8 ? (size_t)atoi(argv[8]) : sizeof(patterns) / sizeof(patterns[0])); i++)
		for (int meeting = 0; meeting < MEETINGS; meeting++)
			if (only < 0 || only == meeting)
				pattern_play(&patterns[i], (enum meeting)meeting, steps);
	return 0;
}
