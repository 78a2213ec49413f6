/*
 * By how much is a job longer, not a rank? An emulation of bulk-synchronous jobs: in each step every rank computes,
 * then all meet in a collective; the real predictor, account and ladder sleep in the waits, and what wakes late starts
 * its next step late. Times are virtual: the machine that it runs on does not matter.
 *
 *     job RANKS STEPS [EXIT_US]
 *
 * Patterns: who is slow, and by how much the work varies (of 1 ms). Collectives: "max" ends for all when the last rank
 * has come; "tree" reduces and broadcasts along a binary tree, in which each rank passes on what it noticed; "ring"
 * waits for two neighbours. A message takes 2 us. A sleep ends later than asked by a lognormal time around EXIT_US, and
 * one time in a hundred by four times as much.
 *
 * Each is played with a runtime that says when it has made progress, and with a silent one (preload/foresight.h): there
 * a collective is one wait, whatever it has to pass on in between; the job looks at the beginning of each half second.
 *
 * Prints per pattern and collective, for the ladder without an account, for forecasts with one of 1 %, and for these
 * with a silent runtime: how much longer the job is than one that polls (%), the CPU time of the waits (% of what
 * polling takes), and how many naps ended too late, per 10000 waits.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/budget/account.h"
#include "preload/budget/ladder.h"
#include "preload/budget/predictor.h"
#include "preload/wait/foresight.h"

#define US         1000.0
#define WORK_NS    1000000.0
#define MESSAGE_NS 2000.0
#define OWN_NS     3000.0 /* CPU time of a nap */
#define GRACE_NS   10000  /* polls before the first look at the clock */
#define SLOWDOWN   10000
#define VAIN_NS    (FORESIGHT_VAIN * UINT64_C(400)) /* of a silent runtime's idle calls, until a nap may begin */

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
	struct predictor *predictor;
	struct account account;
	struct ladder ladder;
	double now_ns;   /* where it is */
	double ready_ns; /* in a tree: when it passed on what it had */
	uint32_t fresh;  /* its own looks, less the waits that were forecast */
};

static struct rank *ranks;
static int rank_count;
static enum way way;
static double exit_ns, polled_ns, waited_ns, late, waits;
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
	double tail = pow(random_unit(), -1 / 2.5) - 1;

	(void)rank, (void)step;
	return 1 + 0.02 * (tail < 30 ? tail : 30);
}

static const struct pattern {
	const char *name;
	double (*work)(int rank, int step);
} patterns[] = {
        {"one rank always 30 % slow", work_persistent},
        {"the slow rank rotates", work_rotating},
        {"the slow rank is random", work_random_slow},
        {"half of the ranks 50 % slower", work_halves},
        {"random, 2 %", work_even},
        {"random, 10 %", work_uneven},
        {"random, heavy tail", work_heavy},
};

/* A call of one rank: since when it has waited, and whether the predictor knows of it. */
struct call {
	struct rank *rank;
	uint64_t began_ns;  /* to wait */
	uint64_t origin_ns; /* of w: the latest sign of progress */
	uint64_t look_ns;   /* with a silent runtime: the job looks until then, or the rank */
	uint64_t job_ns;    /* the job does */
	uint64_t slept_ns;  /* by forecast, and not charged */
	uint64_t empty_ns;  /* the poll before the latest nap */
	struct account_nap nap;
	bool advised; /* a forecast's */
	bool open;
};

struct sleep {
	bool advised;
	uint64_t ask_ns, cost_ns, exit_ns;
	struct ladder_action action;
};

static bool sleep_choose(const struct call *call, uint64_t now_ns, struct sleep *ret_sleep)
{
	struct rank *rank = call->rank;
	uint64_t origin_ns = call->origin_ns;
	struct predictor_nap nap;

	*ret_sleep = (struct sleep){.advised = false};
	if (way != LADDER && now_ns < call->look_ns)
		return false;
	if (way != LADDER) {
		uint64_t room_ns = account_room(&rank->account, ACCOUNT_WHOLE, now_ns);
		enum predictor_advice advice;

		rank->predictor->rich = account_is_rich(&rank->account, room_ns);
		advice = predictor_advise(rank->predictor, now_ns, room_ns, 0, &nap);

		if (advice == PREDICTOR_NAP) {
			*ret_sleep = (struct sleep){true, nap.ask_ns, nap.ask_ns + nap.exit_ns, nap.exit_ns, {0}};
			return true;
		}
		if (advice == PREDICTOR_LANDED)
			return false;
		if (advice == PREDICTOR_OUTLASTED)
			origin_ns = rank->predictor->landed_ns;
	}
	ret_sleep->action = ladder_next(
	        &rank->ladder, &policy,
	        (struct ladder_moment){.now_ns = now_ns, .waited_ns = now_ns - origin_ns, .cap_ns = UINT64_MAX});
	ret_sleep->ask_ns = ret_sleep->action.ask_ns;
	ret_sleep->cost_ns = ret_sleep->ask_ns + rank->ladder.rung[MPIWAIT_RUNG_NAP].exit_ns;
	return ret_sleep->action.rung == MPIWAIT_RUNG_NAP;
}

static uint64_t sleep_play(struct call *call, const struct sleep *sleep, uint64_t now_ns)
{
	double over_ns = exit_ns * exp(0.25 * random_normal()) * (random_unit() < 0.01 ? 4 : 1);
	uint64_t actual_ns = sleep->ask_ns + (uint64_t)over_ns;

	if (way != LADDER)
		predictor_woke(call->rank->predictor, sleep->ask_ns, actual_ns);
	if (!sleep->advised)
		ladder_learn(&call->rank->ladder, sleep->action, actual_ns, now_ns + actual_ns);
	return now_ns + actual_ns;
}

/* The latest nap of the call is over: whether something came in it that showed. */
static void nap_end(struct call *call, bool arrived)
{
	if (!call->nap.open)
		return;
	if (call->advised && !arrived)
		call->slept_ns += call->nap.woke_ns - call->nap.began_ns;
	account_end(&call->rank->account, &call->nap, arrived);
}

static bool nap_begin(struct call *call, const struct sleep *sleep, uint64_t now_ns)
{
	enum account_purse purse = sleep->advised ? ACCOUNT_WHOLE : ACCOUNT_LADDER;

	if (way != LADDER && !account_begin(&call->rank->account, &call->nap, purse, now_ns, sleep->cost_ns))
		return false;
	call->advised = sleep->advised;
	call->empty_ns = now_ns;
	return true;
}

/* What the wait of that call until end_ns, which is in the future, becomes. Returns when its end is noticed. */
static uint64_t wait_play(struct call *call, uint64_t now_ns, uint64_t end_ns)
{
	uint64_t from_ns = now_ns, vain_ns = way == SILENT ? now_ns + VAIN_NS : 0;
	bool slept = false;
	struct sleep sleep;

	while (now_ns < end_ns) {
		uint64_t step_ns = (now_ns - call->origin_ns) / 64 + 500;

		slept = false;
		if (now_ns >= vain_ns) {
			nap_end(call, false);
			slept = sleep_choose(call, now_ns, &sleep) && nap_begin(call, &sleep, now_ns);
		}
		if (!slept) {
			if (now_ns < vain_ns && vain_ns < now_ns + step_ns)
				step_ns = vain_ns - now_ns;
			now_ns = end_ns - now_ns < step_ns ? end_ns : now_ns + step_ns;
			continue;
		}
		now_ns = sleep_play(call, &sleep, now_ns);
		vain_ns = way == SILENT ? now_ns + VAIN_NS : 0;
		account_woke(&call->nap, now_ns);
		polled_ns -= (double)(now_ns < end_ns ? now_ns - call->empty_ns : end_ns - call->empty_ns) - OWN_NS;
	}
	polled_ns += (double)(end_ns - from_ns);
	late += slept;
	if (way == FORESIGHT) {
		nap_end(call, slept);
		call->rank->fresh -= call->rank->predictor->foreseen && call->rank->fresh > 0;
		predictor_progress(call->rank->predictor, slept ? call->empty_ns : end_ns,
		                   slept && call->advised ? PREDICTOR_LATE : PREDICTOR_EXACT);
	}
	return now_ns;
}

/* As wait.c has it. */
static bool looks_itself(void)
{
	return way == SILENT || (way == FORESIGHT && foresight_looks_itself(rank_count));
}

/* The rank waits in that call for what comes then. */
static void call_wait(struct call *call, double end_ns)
{
	struct rank *rank = call->rank;

	if (end_ns <= rank->now_ns)
		return;
	waited_ns += end_ns - rank->now_ns;
	waits++;
	if (way == BARE || end_ns - rank->now_ns < GRACE_NS) {
		polled_ns += end_ns - rank->now_ns;
		rank->now_ns = end_ns;
		return;
	}
	polled_ns += GRACE_NS;
	if (!call->open) {
		call->open = true;
		call->began_ns = (uint64_t)rank->now_ns + GRACE_NS;
		call->job_ns = call->look_ns =
		        call->began_ns + (way == SILENT ? foresight_look_left(call->began_ns, call->began_ns) : 0);
		if (way != LADDER)
			predictor_open(rank->predictor, predictor_site(1, 1, 1, 1), call->began_ns);
		if (looks_itself() && predictor_wants_look(rank->predictor) && rank->fresh < FORESIGHT_NEW_MOST) {
			call->look_ns = call->began_ns + foresight_look_own(rank->predictor);
			rank->fresh++;
		}
	}
	call->origin_ns = (uint64_t)rank->now_ns + GRACE_NS;
	rank->now_ns = (double)wait_play(call, (uint64_t)rank->now_ns + GRACE_NS, (uint64_t)end_ns + 1);
}

/* A silent runtime: as foresight.c has it. */
static void call_end_silent(struct call *call)
{
	struct rank *rank = call->rank;
	uint64_t now_ns = (uint64_t)rank->now_ns, latest_ns = predictor_latest(rank->predictor), doubt_ns;
	uint64_t forgiven_ns;
	bool looked = call->look_ns > call->began_ns && now_ns < call->look_ns;
	bool late_nap = call->nap.open && now_ns < call->nap.woke_ns + VAIN_NS;
	enum predictor_end end = PREDICTOR_DOUBTED;

	if (looked) {
		end = predictor_looked(rank->predictor, now_ns, now_ns < call->job_ns, &forgiven_ns);
		account_forgive(&rank->account, forgiven_ns);
	}
	nap_end(call, late_nap);
	rank->fresh -= rank->predictor->foreseen && rank->fresh > 0;
	doubt_ns = now_ns > latest_ns ? now_ns - latest_ns : 0;
	if (doubt_ns > call->slept_ns)
		doubt_ns = call->slept_ns;
	if (doubt_ns > 0 && !looked) {
		account_doubt(&rank->account, doubt_ns, now_ns);
		predictor_delay(rank->predictor, doubt_ns);
		end = PREDICTOR_DELAYED;
	} else if (late_nap && call->advised) {
		end = call->empty_ns < latest_ns ? PREDICTOR_LATE : PREDICTOR_DELAYED;
	}
	predictor_close(rank->predictor, late_nap ? call->empty_ns : now_ns, end);
}

/* With a runtime that tells nothing is learned at a call's end: its last sign of progress was its end. */
static void call_end(struct call *call)
{
	if (call->open && way == FORESIGHT) {
		predictor_drop(call->rank->predictor);
		predictor_close(call->rank->predictor, (uint64_t)call->rank->now_ns, PREDICTOR_EXACT);
	} else if (call->open && way == SILENT) {
		call_end_silent(call);
	}
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
	for (int i = 0; i < rank_count; i++) {
		struct predictor *predictor = ranks[i].predictor;

		memset(predictor, 0, sizeof(*predictor));
		predictor->ranks = (uint32_t)rank_count;
		predictor->silent = way == SILENT;
		ranks[i] = (struct rank){.predictor = predictor};
		ranks[i].ladder.rung[MPIWAIT_RUNG_NAP] = (struct ladder_latency){.timed = true, .exit_ns = 10000};
		account_open(&ranks[i].account, 0, SLOWDOWN, (uint32_t)rank_count);
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
	polled_ns = waited_ns = late = waits = 0;
	for (int step = 0; step < steps; step++) {
		uint64_t kept = random_state;

		random_state = 88172645463325252u + (uint64_t)step * 7919; /* the same work, whatever the naps drew */
		for (int i = 0; i < rank_count; i++)
			ranks[i].now_ns += WORK_NS * pattern->work(i, step);
		random_state = step ? kept : 4711;
		for (int i = 0; i < rank_count; i++)
			calls[i] = (struct call){.rank = &ranks[i]};
		meet[meeting](calls);
		for (int i = 0; i < rank_count; i++)
			call_end(&calls[i]);
	}
	for (int i = 0; i < rank_count; i++)
		last_ns = ranks[i].now_ns > last_ns ? ranks[i].now_ns : last_ns;
	free(calls);
	return last_ns;
}

static void pattern_play(const struct pattern *pattern, enum meeting meeting, int steps)
{
	double bare_ns = 0;

	printf("%-30s %-5s", pattern->name, meeting_names[meeting]);
	for (way = BARE; way < WAYS; way++) {
		double job_ns = job_play(pattern, meeting, steps);

		if (way == BARE)
			bare_ns = job_ns;
		else
			printf("  %+6.2f %5.0f %7.1f", 100 * (job_ns / bare_ns - 1), 100 * polled_ns / waited_ns,
			       1e4 * late / waits);
	}
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int steps = argc > 2 ? atoi(argv[2]) : 400;

	rank_count = argc > 1 ? atoi(argv[1]) : 1000;
	exit_ns = (argc > 3 ? atof(argv[3]) : 5) * US;
	ranks = calloc((size_t)rank_count, sizeof(*ranks));
	for (int i = 0; ranks && i < rank_count; i++)
		if (!(ranks[i].predictor = calloc(1, sizeof(struct predictor))))
			return 1;
	if (!ranks)
		return 1;
	printf("%d ranks, %d steps of 1 ms, sleeps end %.0f us late: job longer by %%, CPU of waits in %%, late per "
	       "10000\n",
	       rank_count, steps, exit_ns / US);
	printf("%-36s  %-21s  %-21s  %s\n", "", "ladder", "forecasts, 1 %", "silent");
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		for (int meeting = 0; meeting < MEETINGS; meeting++)
			pattern_play(&patterns[i], (enum meeting)meeting, steps);
	return 0;
}
