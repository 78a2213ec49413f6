#include "spank/node/sampler.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/ration.h"
#include "spank/base/thread.h"
#include "spank/energy/power.h"
#include "spank/node/meters_ask.h"
#include "spank/node/saving_feed.h"
#include "spank/node/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#define INTERVAL_NS       (10 * SECOND_NS)
#define INTERVAL_LEAST_NS (SECOND_NS / 10)

struct sampler {
	struct sampler_config config;
	struct state_step step;
	struct rapl *rapl; /* powercap's zones; NULL: none */
	struct energy_memory memory;
	struct power_points power;
	int node_directory;
	int job_directory;
	int segment;
	uint64_t begun_ns;
	struct saving_feed saving;
	struct shared_ration *ration; /* CPU ration of all samplers of the job; NULL: none */
	uint64_t cost_ns;             /* CPU time of the latest tick */
	unsigned failures;            /* ticks that failed, one after another */
	struct error problem;         /* problem of the latest tick, "": none */
	bool counted;                 /* only the step's number is kept */
	pthread_t thread;
	pthread_mutex_t mutex; /* guards `stop` */
	pthread_cond_t changed;
	bool stop;
};

/* Notes the problem of this tick, for problem_say. The first one counts. */
static void problem_note(struct sampler *sampler, const char *what)
{
	error_set(&sampler->problem, 0, "%s", what);
}

/*
 * Logs a problem once while it lasts: at the second tick that has it, or at the first if no tick follows. A single
 * failure may be harmless: while slurmstepd acts as the user, so do its threads, and the next tick makes up for the
 * failed one.
 */
static void problem_say(struct sampler *sampler, bool is_last)
{
	sampler->failures = sampler->problem.text[0] ? sampler->failures + 1 : 0;
	if (sampler->failures == 2 || (sampler->failures == 1 && is_last))
		log_error("job %u: %s; missing from the record", sampler->config.job_id, sampler->problem.text);
	sampler->problem.text[0] = '\0';
}

/* Reads the ranks' slots. NULL: there is nothing to read, or it would not be kept. */
static struct slots *ranks_read(struct sampler *sampler)
{
	struct slots *slots = NULL;
	struct error error = {0};

	if (sampler->segment >= 0 && !sampler->counted &&
	    slots_read(sampler->segment, sampler->begun_ns, clock_monotonic_ns(), &slots, &error))
		problem_note(sampler, error.text);
	return slots;
}

/*
 * Takes an energy sample, also for a step that is only counted: other steps and jobs of the node need the accumulator.
 * One of the node's steps writes it for all. young_ns: the greatest age of another process's sample that will do; 0:
 * the counters are read now.
 */
static void energy_read(struct sampler *sampler, uint64_t young_ns)
{
	struct state_step *step = &sampler->step;
	const struct energy_need need = {.young_ns = young_ns, .exact = !young_ns};
	struct energy_snapshot now;
	struct error error = {0};

	if (!sampler->rapl)
		return;
	if (energy_update(sampler->node_directory, sampler->rapl, &need, &sampler->memory, &now, &error)) {
		problem_note(sampler, error.text);
		return;
	}
	if (step->has_energy && now.at_ns <= step->to.at_ns)
		return; /* this step's own, unwritten sample is the newest */
	step->to = now;
	if (!step->has_energy)
		step->from = step->to;
	step->has_energy = true;
	step->saving = saving_seen(&sampler->saving.sums) ? &sampler->saving.sums : NULL;
	power_add(&sampler->power, &step->to);
	step->power = &sampler->power;
}

/* Takes the counts of missed processes. UNFIT: the library and the plugin were not installed together. */
static void missed_note(struct sampler *sampler)
{
	const struct sampler_config *config = &sampler->config;

	record_missed_take(config->notes, &sampler->step.missed);
	if (sampler->step.missed.processes[MPIWAIT_NOTE_UNFIT])
		error_set(&sampler->problem, 0,
		          "MPI ranks have a libmpiwait.so of another release, which does not know segment version %d",
		          MPIWAIT_VERSION);
}

/* Returns the outcome of csv= by the ranks' claims. A rank that is alive when the step has ended was killed. */
static enum csv_outcome csv_judge(const struct sampler *sampler, const struct slots *slots, bool is_last)
{
	if (!sampler->config.csv || (slots && slots->count == 0))
		return CSV_NONE;
	if (!slots)
		return is_last ? CSV_FAILED : CSV_NONE;
	return csv_outcome_of(slots->alive > 0 ? MPIWAIT_CSV_NONE : slots->csv, is_last);
}

/* Weighs the policy with that number by its ranks. Ranks under "off" leave no figures: any other rank outweighs them.
 */
static uint64_t policy_weight(const struct sampler *sampler, const struct slots *slots, size_t number)
{
	const struct mpiwait_notes *notes = sampler->config.notes;
	uint64_t ranks = 0;

	for (size_t i = 0; slots && i < slots->count; i++)
		ranks += slots->rank[i].program == number;
	if (ranks > 0)
		return UINT32_MAX + ranks;
	return number && notes ? __atomic_load_n(&notes->off[number - 1], __ATOMIC_RELAXED) : 0;
}

/*
 * Finds the policy of the step, if a rank has chosen one: the policy that most ranks have. Where some have another, the
 * reason says so.
 */
static void policy_choose(struct sampler *sampler, const struct slots *slots)
{
	const struct choices *choices = sampler->config.choices;
	size_t policies = choices ? choices->programs.policy_count : 0, most = 0, chosen = 0;
	uint64_t own = policies ? policy_weight(sampler, slots, 0) : 0, heaviest = own;

	for (size_t i = 1; i <= policies; i++) {
		uint64_t weight = policy_weight(sampler, slots, i);

		chosen += weight > 0;
		if (weight > heaviest) {
			heaviest = weight;
			most = i;
		}
	}
	if (chosen == 0)
		return;
	sampler->step.policy = most ? choices->choice[most - 1].use : sampler->config.policy;
	if (chosen > 1 || own > 0)
		strcpy(sampler->step.policy.why, "other programs of the step have other policies");
}

/* Returns true if the step leaves nothing: it is under "off", and so is every rank so far. */
static bool leaves_nothing(const struct sampler *sampler, const struct slots *slots)
{
	return sampler->config.is_unnoted && (!slots || slots->count == 0);
}

/* Takes a sample and writes the step's file. young_ns: as in energy_read. */
static void step_note(struct sampler *sampler, uint64_t young_ns, bool is_last)
{
	const struct sampler_config *config = &sampler->config;
	cleanup_free struct slots *slots = ranks_read(sampler);
	json_auto_t *wait = slots && (slots->count || slots->sum[WAIT_unseen]) ? slots_to_json(slots) : NULL;
	json_auto_t *grant = config->grant_read ? config->grant_read(config->grant_context) : NULL;
	int result;

	energy_read(sampler, young_ns);
	policy_choose(sampler, slots);
	if (sampler->counted || leaves_nothing(sampler, slots))
		return;
	sampler->step.csv = csv_judge(sampler, slots, is_last);
	if (config->notes)
		missed_note(sampler);
	sampler->step.end_s = clock_wall_s();
	result = state_step_write(sampler->job_directory, &sampler->step, state_crowd(sampler->node_directory), wait,
	                          grant);
	if (result)
		error_set(&sampler->problem, 0, "cannot write the step's file: %s", strerror(-result));
}

/* Takes a sample, and books the CPU time that it cost beyond `booked_ns`. young_ns: as in energy_read. */
static void tick(struct sampler *sampler, uint64_t young_ns, uint64_t booked_ns, bool is_last)
{
	uint64_t began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	step_note(sampler, young_ns, is_last);
	if (!sampler->counted)
		saving_feed_find(&sampler->saving);
	problem_say(sampler, is_last);
	sampler->cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	if (sampler->cost_ns > booked_ns)
		shared_ration_book(sampler->ration, SHARED_RATION_SAMPLER, sampler->cost_ns - booked_ns,
		                   clock_monotonic_ns());
}

/* Returns the time between two ticks. Where possible, three ticks come before a counter can wrap. */
static uint64_t interval_ns(const struct sampler *sampler)
{
	uint64_t interval = sampler->config.fast ? SECOND_NS : INTERVAL_NS;

	if (sampler->step.has_energy && sampler->step.to.wrap_ns / 3 < interval)
		interval = sampler->step.to.wrap_ns / 3;
	return interval < INTERVAL_LEAST_NS ? INTERVAL_LEAST_NS : interval;
}

/* Sleeps until the deadline. Returns true if sampler_stop woke it earlier. */
static bool sleep_until(struct sampler *sampler, uint64_t deadline_ns)
{
	const struct timespec deadline = clock_timespec(deadline_ns);
	bool stop;

	pthread_mutex_lock(&sampler->mutex);
	while (!sampler->stop && pthread_cond_timedwait(&sampler->changed, &sampler->mutex, &deadline) == 0)
		;
	stop = sampler->stop;
	pthread_mutex_unlock(&sampler->mutex);
	return stop;
}

/* As sleep_until, and reads the counters around the ranks' looks meanwhile. */
static bool wait_until(struct sampler *sampler, uint64_t deadline_ns)
{
	while (sampler->saving.due_ns < deadline_ns) {
		if (sleep_until(sampler, sampler->saving.due_ns))
			return true;
		saving_feed_step(&sampler->saving);
	}
	return sleep_until(sampler, deadline_ns);
}

/*
 * Waits for the booked turn, and reads the counters meanwhile before one of them can wrap. Returns true if sampler_stop
 * woke it.
 */
static bool wait_for_turn(struct sampler *sampler, uint64_t turn_ns)
{
	while (clock_monotonic_ns() < turn_ns) {
		const struct energy_snapshot *latest = &sampler->step.to;
		uint64_t due_ns = sampler->step.has_energy ? latest->at_ns + latest->wrap_ns / 3 : UINT64_MAX;

		if (wait_until(sampler, due_ns < turn_ns ? due_ns : turn_ns))
			return true;
		if (due_ns < turn_ns)
			energy_read(sampler, 0);
	}
	return false;
}

/*
 * Samples until sampler_stop. A user who fills the segment makes ticks expensive; therefore all ticks of a job's steps
 * share a fiftieth of a CPU. A tick is booked at the price of the one before, and waits for its turn. The last tick,
 * which is booked but does not wait, is made here too: this thread runs on the job's CPUs, slurmstepd's main thread
 * need not.
 */
static void *sampler_main(void *argument)
{
	struct sampler *sampler = argument;
	uint64_t interval = interval_ns(sampler), booked_ns, turn_ns;

	for (interval = interval < SECOND_NS ? interval : SECOND_NS;
	     !wait_until(sampler, clock_monotonic_ns() + interval); interval = interval_ns(sampler)) {
		booked_ns = sampler->cost_ns;
		turn_ns = shared_ration_book(sampler->ration, SHARED_RATION_SAMPLER, booked_ns, clock_monotonic_ns());
		if (wait_for_turn(sampler, turn_ns))
			break;
		tick(sampler, interval, booked_ns, false);
		meters_keep(sampler->node_directory);
	}
	tick(sampler, 0, 0, true);
	return NULL;
}

static void sampler_free(struct sampler *sampler)
{
	cleanup_close_descriptor(&sampler->node_directory);
	cleanup_close_descriptor(&sampler->job_directory);
	cleanup_close_descriptor(&sampler->segment);
	rapl_close(sampler->rapl);
	shared_ration_free(sampler->ration);
	pthread_cond_destroy(&sampler->changed);
	pthread_mutex_destroy(&sampler->mutex);
	free(sampler);
}

/* Opens all that the thread uses, and finds out how much is kept of the step. Returns 0 or -errno. */
static int sampler_open(struct sampler *sampler, struct error *error)
{
	const struct sampler_config *config = &sampler->config;
	int result;

	sampler->node_directory = run_directory_open_node(&config->run_directory);
	sampler->job_directory = run_directory_open_job(&config->run_directory, config->job_id);
	if (sampler->node_directory < 0 || sampler->job_directory < 0)
		return error_set(error, -ENOENT,
		                 "no state of job %u under \"%s/%s\"; the step is missing from the record",
		                 config->job_id, config->run_directory.root, config->run_directory.node);
	if (config->segment >= 0) {
		sampler->segment = fcntl(config->segment, F_DUPFD_CLOEXEC, 3);
		if (sampler->segment < 0)
			return error_set(error, -errno,
			                 "cannot duplicate the stats segment: %s; the step is missing from the record",
			                 strerror(errno));
	}
	rapl_open(&sampler->rapl, NULL);
	sampler->ration = shared_ration_open(sampler->job_directory, SHARED_RATION_FILE);
	sampler->saving.segment = sampler->segment;
	sampler->saving.rapl = sampler->rapl;
	sampler->saving.ration = sampler->ration;
	sampler->saving.due_ns = SAVING_FEED_NEVER;
	sampler->counted = state_step_kind(config->step_id, state_crowd(sampler->node_directory)) == STATE_STEP_COUNTED;
	result = sampler->counted && !config->is_unnoted ? state_step_count(sampler->job_directory) : 0;
	return result ? error_set(error, result, "cannot count the step: %s; it is missing from the record",
	                          strerror(-result))
	              : 0;
}

int sampler_start(const struct sampler_config *config, struct sampler **ret_sampler, struct error *error)
{
	struct sampler *sampler = calloc(1, sizeof(*sampler));
	int result;

	if (!sampler)
		return error_set(error, -ENOMEM, "out of memory");
	sampler->config = *config;
	sampler->segment = -1;
	sampler->begun_ns = clock_monotonic_ns();
	sampler->step.step_id = config->step_id;
	sampler->step.policy = config->policy;
	sampler->step.start_s = clock_wall_s();
	pthread_mutex_init(&sampler->mutex, NULL);
	thread_condition_init(&sampler->changed);
	result = sampler_open(sampler, error);
	if (!result) {
		tick(sampler, 0, 0, false);
		result = thread_start(&sampler->thread, sampler_main, sampler);
	}
	if (result) {
		sampler_free(sampler);
		return error_set(error, result, "cannot start the sampler: %s; the step is missing from the record",
		                 strerror(-result));
	}
	*ret_sampler = sampler;
	return 0;
}

void sampler_stop(struct sampler *sampler)
{
	if (!sampler)
		return;
	pthread_mutex_lock(&sampler->mutex);
	sampler->stop = true;
	pthread_cond_signal(&sampler->changed);
	pthread_mutex_unlock(&sampler->mutex);
	pthread_join(sampler->thread, NULL);
	sampler_free(sampler);
}
