/*
 * Plays jobs in virtual time. emulate_job.h states the rules.
 */
#include "tests/lib/emulate_job.h"

#include <math.h>
#include <stdlib.h>

#define US              1000.0
#define MESSAGE_NS      1500.0
#define SKEW_NS         200000.0
#define START_NS        1e15           /* start of the job by the nodes' clocks */
#define OWN_NS          3000.0         /* CPU time of a nap */
#define POLL_NS         500            /* shortest time between two polls */
#define GRACE_NS        7000           /* time that a call polls before it is a wait */
#define VAIN_NS         UINT64_C(6400) /* idle calls of a silent runtime before a nap may begin */
#define DEEP_EVERY      16             /* one in so many long sleeps ends later than short ones */
#define HOLD_LONG_EVERY 16             /* one hold-up in so many is HOLD_LONG times as long */
#define HOLD_LONG       20
#define TURN            6.283185307179586
#define MIX             UINT64_C(0x9e3779b97f4a7c15)

const char *const job_way_names[JOB_WAYS] = {"bare", "ladder", "telling", "silent"};
const char *const job_meeting_names[JOB_MEETINGS] = {"max", "tree", "ring"};

static const struct ladder_policy policy = {
        .rungs = 1u << MPIWAIT_RUNG_PAUSE | 1u << MPIWAIT_RUNG_NAP,
        .spin_ns = 20000,
        .relative_ppm = 62500,
        .max_ns = 100000,
};

double job_unit(struct job *job)
{
	job->random_state ^= job->random_state << 13;
	job->random_state ^= job->random_state >> 7;
	job->random_state ^= job->random_state << 17;
	return (double)(job->random_state >> 11) / 9007199254740992.0 + 1e-17;
}

double job_normal(struct job *job)
{
	return sqrt(-2 * log(job_unit(job))) * cos(TURN * job_unit(job));
}

/* Returns a step's seed. Seeds of neighbouring steps have nothing in common, nor have those of two draws. */
static uint64_t step_seed(const struct job *job, int step)
{
	uint64_t hash = ((uint64_t)job->draw << 32 | (uint64_t)(step + 1)) * MIX;

	hash = (hash ^ hash >> 32) * MIX;
	return (hash ^ hash >> 29) | 1;
}

static double slow_work(struct job *job, bool slow)
{
	return (slow ? 1.3 : 1.0) * (1 + 0.005 * job_normal(job));
}

static double work_always(struct job *job, int rank, int step)
{
	(void)step;
	return slow_work(job, rank == job->ranks / 3);
}

/* One rank works; the others wait for it. */
static double work_late(struct job *job, int rank, int step)
{
	(void)step;
	return (rank == 0 ? 1 : 0.02) * (1 + 0.002 * job_normal(job));
}

static double work_rotating(struct job *job, int rank, int step)
{
	return slow_work(job, rank == (int)((long)step * 37 % job->ranks));
}

static double work_wandering(struct job *job, int rank, int step)
{
	return slow_work(job, rank == (int)((step_seed(job, step) >> 32) % (uint64_t)job->ranks));
}

static double work_half(struct job *job, int rank, int step)
{
	(void)step;
	return (rank % 2 ? 1.5 : 1.0) * (1 + 0.02 * job_normal(job));
}

static double work_drifting(struct job *job, int rank, int step)
{
	return (1 + 0.15 * sin(rank * TURN / job->ranks + step / 40.0)) * (1 + 0.01 * job_normal(job));
}

static double work_periodic(struct job *job, int rank, int step)
{
	return (step % 64 == 0 ? 1.3 : 1.0) * (1 + 0.02 * job_normal(job)) + (rank % 2 ? 0.3 : 0.0);
}

static double work_even(struct job *job, int rank, int step)
{
	(void)rank, (void)step;
	return 1 + 0.02 * job_normal(job);
}

static double work_uneven(struct job *job, int rank, int step)
{
	double work = 1 + 0.1 * job_normal(job);

	(void)rank, (void)step;
	return work > 0.3 ? work : 0.3;
}

static double work_heavy(struct job *job, int rank, int step)
{
	double beyond = pow(job_unit(job), -1 / 2.5) - 1;

	(void)rank, (void)step;
	return 1 + 0.02 * (beyond < 30 ? beyond : 30);
}

/* Halfway through the job the steps become five times as long; in work_shrinks a fifth. */
static double work_grows(struct job *job, int rank, int step)
{
	return work_half(job, rank, step) * (step < job->steps / 2 ? 1 : 5);
}

static double work_shrinks(struct job *job, int rank, int step)
{
	return work_half(job, rank, step) * (step < job->steps / 2 ? 5 : 1);
}

const struct job_pattern job_patterns[] = {
        {"always", "one rank always 30 % slow", work_always},
        {"late", "one rank works", work_late},
        {"rotating", "the slow rank rotates", work_rotating},
        {"wandering", "the slow rank is random", work_wandering},
        {"half", "half of the ranks 50 % slower", work_half},
        {"drifting", "drifting", work_drifting},
        {"periodic", "the looks' own period", work_periodic}, /* one step in 64: the distance between looks */
        {"even", "random, 2 %", work_even},
        {"uneven", "random, 10 %", work_uneven},
        {"heavy", "random, heavy tail", work_heavy},
        {"grows", "steps grow from 1 ms to 5", work_grows},
        {"shrinks", "steps shrink from 5 ms to 1", work_shrinks},
};
const size_t job_pattern_count = sizeof(job_patterns) / sizeof(job_patterns[0]);

/* A call of one rank. */
struct call {
	struct job *job;
	struct job_rank *rank;
	uint32_t number;
	bool open;          /* true while it waits */
	uint64_t origin_ns; /* latest sign of progress, or begin of the wait */
	uint64_t last_ns;   /* the last empty poll, or the end of a nap */
	uint64_t quiet_ns;  /* earliest time of the next nap */
};

static uint64_t exit_play(struct job *job, uint64_t ask_ns)
{
	const struct job_exits *exits = &job->exits;
	double sigma = log(exits->most_us / exits->median_us) / 2.326;
	double over_us = exits->median_us * exp(sigma * job_normal(job));

	if (exits->tail > 0 && job_unit(job) < 1 / exits->tail)
		over_us -= exits->tail_us * log(job_unit(job));
	if (exits->deep_us > 0 && ask_ns >= JOB_DEEP_NS && job_unit(job) < 1.0 / DEEP_EVERY)
		over_us -= exits->deep_us * log(job_unit(job));
	return (uint64_t)(over_us * US);
}

static bool is_planned(const struct job *job)
{
	return job->way == JOB_TELLING || job->way == JOB_SILENT;
}

/* Returns how long the ladder would sleep after an empty poll; 0: not at all. */
static uint64_t ladder_choose(const struct call *call, uint64_t now_ns, struct ladder_action *ret_action)
{
	struct job_rank *rank = call->rank;
	struct ladder_moment moment = {.now_ns = now_ns, .waited_ns = now_ns - call->origin_ns, .cap_ns = UINT64_MAX};
	uint64_t exit_ns = rank->ladder.rung[MPIWAIT_RUNG_NAP].exit_ns;

	if (is_planned(call->job) && rank->plan.outlasted_ns > call->origin_ns)
		moment.waited_ns = now_ns - rank->plan.outlasted_ns;
	*ret_action = ladder_next(&rank->ladder, &policy, moment);
	if (ret_action->rung != MPIWAIT_RUNG_NAP)
		return 0;
	if (is_planned(call->job) && plan_room(&rank->plan, now_ns) < ret_action->ask_ns + exit_ns)
		return 0;
	return ret_action->ask_ns;
}

/* Returns how long to sleep after an empty poll; 0: not at all. */
static uint64_t sleep_choose(const struct call *call, uint64_t now_ns, bool *ret_advised,
                             struct ladder_action *ret_action)
{
	struct plan_step step = {.advice = PLAN_LADDER};

	if (is_planned(call->job))
		step = plan_ask(&call->rank->plan, now_ns, 0);
	*ret_advised = step.advice == PLAN_NAP;
	if (*ret_advised)
		return step.ask_ns;
	return step.advice == PLAN_LADDER ? ladder_choose(call, now_ns, ret_action) : 0;
}

static bool is_unpaid(const struct account *account, uint64_t now_ns)
{
	return account->paused || account->spent_ns > account_allowed(account, now_ns) + account->forgiven_ns;
}

/* Sleeps, and learns from it. Returns when the nap has ended. */
static uint64_t nap_play(struct call *call, uint64_t now_ns, uint64_t ask_ns, const struct ladder_action *climbed)
{
	struct job_rank *rank = call->rank;
	uint64_t woke_ns = now_ns + ask_ns + exit_play(call->job, ask_ns);
	struct plan_nap nap = {climbed ? PLAN_BY_LADDER : PLAN_BY_FORECAST, now_ns, ask_ns, woke_ns, false, true};

	if (is_planned(call->job)) {
		call->job->unpaid += is_unpaid(&rank->plan.account, now_ns);
		plan_woke(&rank->plan, nap);
	}
	if (climbed)
		ladder_learn(&rank->ladder, *climbed, woke_ns - now_ns, woke_ns);
	rank->naps++;
	rank->worst_ns = fmax(rank->worst_ns, (double)(woke_ns - now_ns - ask_ns));
	call->last_ns = woke_ns;
	call->quiet_ns = call->job->way == JOB_SILENT ? woke_ns + VAIN_NS : woke_ns;
	return woke_ns;
}

/* Polls and sleeps until an event at end_ns, which is in the future. Returns when the rank notices it. */
static uint64_t wait_play(struct call *call, uint64_t now_ns, uint64_t end_ns)
{
	double *polled_ns = &call->job->polled_ns;

	*polled_ns += (double)(end_ns - now_ns);
	while (now_ns < end_ns) {
		uint64_t step_ns = (now_ns - call->origin_ns) / 64 + POLL_NS, ask_ns = 0, woke_ns;
		struct ladder_action action;
		bool advised = false;

		call->last_ns = now_ns;
		if (now_ns >= call->quiet_ns) {
			plan_quiet(&call->rank->plan);
			ask_ns = sleep_choose(call, now_ns, &advised, &action);
		} else if (now_ns + step_ns > call->quiet_ns) {
			step_ns = call->quiet_ns - now_ns;
		}
		if (ask_ns == 0) {
			now_ns = end_ns - now_ns < step_ns ? end_ns : now_ns + step_ns;
			continue;
		}
		woke_ns = nap_play(call, now_ns, ask_ns, advised ? NULL : &action);
		*polled_ns -= (double)((woke_ns < end_ns ? woke_ns : end_ns) - now_ns) - OWN_NS;
		now_ns = woke_ns;
	}
	if (now_ns == end_ns && call->last_ns + POLL_NS < end_ns)
		call->last_ns = end_ns - POLL_NS;
	return now_ns;
}

static void call_begin(struct call *call)
{
	struct job_rank *rank = call->rank;
	uint64_t began_ns = (uint64_t)rank->now_ns + GRACE_NS;
	unsigned every = (unsigned)call->job->output_every;
	bool is_output = every > 0 && call->number % every == every - 1;

	call->open = true;
	call->last_ns = call->origin_ns = call->quiet_ns = began_ns;
	call->job->polled_ns += GRACE_NS;
	if (is_planned(call->job))
		plan_open(&rank->plan, forecast_call(is_output ? 2 : 1, 1, 1, 1), call->number, true, began_ns,
		          (uint64_t)((double)began_ns + rank->skew_ns));
}

/* Returns true if the rank only polls for that event: it never sleeps, has not joined yet, or finds it with the call's
 * first polls. */
static bool is_polled(const struct call *call, double end_ns)
{
	const struct job_rank *rank = call->rank;

	if (call->job->way == JOB_BARE)
		return true;
	return !call->open && (rank->now_ns < rank->joins_ns || end_ns - rank->now_ns < GRACE_NS);
}

/* Lets the rank wait in that call for an event at end_ns. */
static void call_wait(struct call *call, double end_ns)
{
	struct job_rank *rank = call->rank;
	uint64_t from_ns = (uint64_t)rank->now_ns;

	if (end_ns <= rank->now_ns)
		return;
	call->job->waited_ns += end_ns - rank->now_ns;
	if (is_polled(call, end_ns)) {
		call->job->polled_ns += end_ns - rank->now_ns;
		rank->now_ns = end_ns;
		return;
	}
	if (!call->open) {
		call_begin(call);
		from_ns += GRACE_NS;
	}
	rank->now_ns = (double)wait_play(call, from_ns, (uint64_t)end_ns + 1);
	if (call->job->way == JOB_TELLING) {
		plan_progress(&rank->plan, call->last_ns, (uint64_t)rank->now_ns);
		call->origin_ns = (uint64_t)rank->now_ns;
	}
}

static void meet_max(struct job *job, struct call *calls)
{
	double last_ns = 0;

	for (int i = 0; i < job->ranks; i++)
		last_ns = job->rank[i].now_ns > last_ns ? job->rank[i].now_ns : last_ns;
	for (int i = 0; i < job->ranks; i++)
		call_wait(&calls[i], last_ns + MESSAGE_NS);
}

static void meet_tree(struct job *job, struct call *calls)
{
	for (int i = job->ranks - 1; i >= 0; i--) {
		for (int child = 2 * i + 1; child <= 2 * i + 2 && child < job->ranks; child++)
			call_wait(&calls[i], job->rank[child].ready_ns + MESSAGE_NS);
		job->rank[i].ready_ns = job->rank[i].now_ns;
	}
	for (int i = 1; i < job->ranks; i++)
		call_wait(&calls[i], job->rank[(i - 1) / 2].now_ns + MESSAGE_NS);
}

static void meet_ring(struct job *job, struct call *calls)
{
	for (int i = 0; i < job->ranks; i++)
		job->rank[i].ready_ns = job->rank[i].now_ns;
	for (int i = 0; i < job->ranks; i++) {
		call_wait(&calls[i], job->rank[(i + 1) % job->ranks].ready_ns + MESSAGE_NS);
		call_wait(&calls[i], job->rank[(i + job->ranks - 1) % job->ranks].ready_ns + MESSAGE_NS);
	}
}

static void ranks_start(struct job *job, struct forecast *forecasts, struct mpiwait_lane *lanes,
                        struct mpiwait_header *nodes)
{
	job->random_state = 1234567 + job->draw;
	for (int i = 0; i < job->ranks; i++) {
		struct job_rank *rank = &job->rank[i];

		*rank = (struct job_rank){.forecast = &forecasts[i], .lane = &lanes[i], .node = &nodes[i / JOB_NODE]};
		rank->node->claimed++;
		rank->forecast->ranks = (uint32_t)job->ranks;
		rank->skew_ns = i % JOB_NODE == 0 ? START_NS + SKEW_NS * job_normal(job) : job->rank[i - 1].skew_ns;
		rank->joins_ns = job->joins_ns ? job->joins_ns(job, i) : 0;
		rank->ladder.rung[MPIWAIT_RUNG_NAP] = (struct ladder_latency){.timed = true, .exit_ns = 10000};
		plan_start(&rank->plan, rank->forecast, rank->lane, rank->node, JOB_SEED + job->draw, JOB_SLOWDOWN,
		           (uint64_t)rank->joins_ns);
	}
}

/* Returns how long the machine holds up a rank that works for work_ns. */
static double hold_play(struct job *job, double work_ns)
{
	double gap_ns = 1e9 / job->holds.per_s, held_ns = 0;

	if (job->holds.per_s == 0)
		return 0;
	for (double at_ns = -gap_ns * log(job_unit(job)); at_ns < work_ns; at_ns -= gap_ns * log(job_unit(job))) {
		double mean_ns = job->holds.mean_us * US * (job_unit(job) < 1.0 / HOLD_LONG_EVERY ? HOLD_LONG : 1);

		held_ns -= mean_ns * log(job_unit(job));
	}
	return held_ns;
}

/* Returns by how much longer each rank computes in this step because a rank napped in the step before. */
static double cold_play(struct job *job)
{
	uint64_t naps = 0, before = job->naps;

	for (int i = 0; i < job->ranks; i++)
		naps += job->rank[i].naps;
	job->naps = naps;
	return naps > before ? job->cold_us * US : 0;
}

static void step_play(struct job *job, struct call *calls, int step)
{
	static void (*const meet[JOB_MEETINGS])(struct job *, struct call *) = {meet_max, meet_tree, meet_ring};
	double cold_ns = cold_play(job);
	uint64_t kept = job->random_state;

	job->random_state = step_seed(job, step); /* the same work, whatever the naps drew */
	for (int i = 0; i < job->ranks; i++) {
		double work_ns = JOB_WORK_NS * job->pattern->work(job, i, step);

		job->rank[i].now_ns += work_ns + cold_ns + hold_play(job, work_ns);
	}
	job->random_state = kept;
	for (int i = 0; i < job->ranks; i++)
		calls[i] = (struct call){.job = job, .rank = &job->rank[i], .number = (uint32_t)step};
	meet[job->meeting](job, calls);
	for (int i = 0; i < job->ranks; i++)
		if (calls[i].open && is_planned(job))
			plan_close(&job->rank[i].plan, calls[i].last_ns);
	if (job->watch)
		job->watch(job, step);
}

static void result_sum(struct job *job)
{
	job->lasted_ns = job->more_ns = job->slept_ns = job->error_ns = 0;
	for (int i = 0; i < job->ranks; i++) {
		const struct job_rank *rank = &job->rank[i];

		job->lasted_ns = rank->now_ns > job->lasted_ns ? rank->now_ns : job->lasted_ns;
		job->more_ns += (double)rank->lane->cost_more_ns;
		job->slept_ns += (double)rank->lane->cost_slept_ns;
		job->error_ns += sqrt((double)rank->lane->cost_variance_us) * US / job->ranks;
	}
}

bool job_play(struct job *job)
{
	size_t count = (size_t)job->ranks;
	struct call *calls = calloc(count, sizeof(*calls));
	struct forecast *forecasts = calloc(count, sizeof(*forecasts)); /* little of it is ever touched */
	struct mpiwait_lane *lanes = aligned_alloc(_Alignof(struct mpiwait_lane), count * sizeof(*lanes));
	struct mpiwait_header *nodes = calloc(count / JOB_NODE + 1, sizeof(*nodes));
	bool made;

	job->rank = calloc(count, sizeof(*job->rank));
	made = calls && forecasts && lanes && nodes && job->rank;
	if (made) {
		for (size_t i = 0; i < count; i++)
			lanes[i] = (struct mpiwait_lane){0};
		job->polled_ns = job->waited_ns = 0;
		job->naps = job->unpaid = 0;
		ranks_start(job, forecasts, lanes, nodes);
		job->random_state = JOB_SEED + job->draw;
		for (int step = 0; step < job->steps; step++)
			step_play(job, calls, step);
		result_sum(job);
	}
	free(job->rank);
	job->rank = NULL;
	free(nodes);
	free(lanes);
	free(forecasts);
	free(calls);
	return made;
}

double job_cpu(const struct job *job)
{
	return job->waited_ns > 0 ? job->polled_ns / job->waited_ns : 1;
}

double job_measured(const struct job *job)
{
	return job->slept_ns > 0 ? job->more_ns / job->slept_ns : 0;
}
