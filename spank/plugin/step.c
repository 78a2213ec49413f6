#include "spank/plugin/step.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/base/thread.h"
#include "spank/cpufreq/grant.h"
#include "spank/machine/reserved.h"
#include "spank/machine/topology.h"
#include "spank/node/sampler.h"
#include "spank/node/state.h"
#include "spank/plugin/client.h"
#include "spank/plugin/inject.h"
#include "spank/plugin/job.h"
#include "spank/plugin/notice.h"
#include "spank/plugin/numbering.h"
#include "spank/plugin/segment.h"
#include "spank/plugin/stack.h"
#include "spank/policy/decision.h"
#include "spank/policy/openmp.h"
#include "spank/policy/plan.h"

struct step {
	struct run_directory run_directory;
	struct job job;
	bool shared_cores; /* Slurm may give the job's cores to another job too, or that cannot be told */
	bool alone;        /* Slurm says that no other job gets the job's cores */
	struct decision decision;
	struct plan plan;
	struct topology *topology; /* topology of the node, NULL: could not be read */
	struct injection given;    /* things that the tasks are given */
	struct sampler *sampler;   /* thread that keeps the node state, NULL: none runs */
};

/* Logs the error and clears it, so that it is logged once. */
static void log_problem(const struct step *step, struct error *error)
{
	if (error->text[0])
		log_error("job %u step %s: %s", step->job.job_id, step->job.step_name, error->text);
	error->text[0] = '\0';
}

/*
 * Reads what the prolog noted for the whole job. words becomes "" if it noted nothing: then there is no state, since a
 * prolog that learns that cores are shared notes it. A state that cannot be read may say so.
 */
static void read_job(struct step *step, char words[OPTIONS_TEXT_MAX])
{
	cleanup_free struct state_job *state = malloc(sizeof(*state));
	int result = state ? state_job_read(&step->run_directory, step->job.job_id, state) : -ENOMEM;

	words[0] = '\0';
	step->shared_cores = result < 0 && result != -ENOENT;
	if (result < 0)
		return;
	step->shared_cores = state->shared_cores;
	step->alone = state->alone;
	snprintf(words, OPTIONS_TEXT_MAX, "%s", state->words);
}

static bool decide(spank_t spank, const struct site *site, const char *option, struct step *step)
{
	char environment[OPTIONS_TEXT_MAX] = "", words[OPTIONS_TEXT_MAX];
	struct decision_sources sources = {.option = option,
	                                   .environment = environment,
	                                   .job = words,
	                                   .by_program = step->job.facts.kind != STEP_EXTERN,
	                                   .word_count = step->job.word_count,
	                                   .words = step->job.words};
	const struct policy_use *use = &step->decision.use;
	struct error error = {""};
	bool holds;

	if (spank_getenv(spank, CLIENT_VARIABLE, environment, sizeof(environment)) != ESPANK_SUCCESS)
		environment[0] = '\0';
	read_job(step, words);
	holds = decision_make(site, &sources, &step->decision, &error) > 0;
	log_problem(step, &error);
	if (holds && use->why[0])
		log_info("job %u: policy '%s' was asked for, '%s' is used: %s", step->job.job_id, use->asked, use->used,
		         use->why);
	return holds;
}

static void load_topology(struct step *step, struct error *error)
{
	char cache[PATH_MAX] = "";
	int directory = run_directory_open_node(&step->run_directory);

	if (directory >= 0) {
		close(directory);
		if (snprintf(cache, sizeof(cache), "%s/%s", step->run_directory.root, step->run_directory.node) >=
		    (int)sizeof(cache))
			cache[0] = '\0';
	}
	if (topology_load(cache, &step->topology, error) == 0)
		numbering_ask(step->topology, cache, error);
}

/* Returns the number of cores in a list and writes their hardware threads; 0 if the list is doubtful. */
static uint32_t count_cores(const struct step *step, const char *core_list, hwloc_bitmap_t ret_cpus)
{
	int cores = 0;

	if (ret_cpus && step->topology && core_list[0])
		cores = topology_cpus_of(step->topology, core_list, 0, UINT_MAX, ret_cpus, NULL);
	return cores > 0 ? (uint32_t)cores : 0;
}

/* Returns true if every call is timed and the sampler reads each second. */
static bool is_profiled(const struct step *step)
{
	return options_profile(&step->decision.options, &step->decision.policy);
}

static void make_plan(const struct site *site, struct step *step)
{
	const struct decision *decision = &step->decision;
	struct plan_facts *facts = &step->job.facts;
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	facts->policy = &decision->policy;
	facts->ranks_choose = decision->choices != NULL;
	facts->pin = decision->options.pin ? decision->options.pin : site->pin;
	facts->grant = site->grant;
	facts->step_cores = count_cores(step, step->job.step_cores, cpus);
	facts->step_cpus = facts->step_cores > 0 ? (uint32_t)hwloc_bitmap_weight(cpus) : 0;
	facts->threads_are_cores = step->topology && !topology_is_numbered_by_cores(step->topology);
	plan_make(facts, &step->plan);
}

/* Makes what the tasks are given, except the grant: prepare_grant comes last. */
static void make_injection(struct step *step, struct error *error)
{
	struct injection *given = &step->given;

	given->segment = given->library = given->notes.id = -1;
	if (policy_flatten(&step->decision.policy, &step->decision.cpu, step->plan.shared, is_profiled(step),
	                   given->flat, sizeof(given->flat)) < 0)
		step->plan.inject = false;
	if (!step->plan.inject)
		return;
	if (step->decision.choices) {
		given->programs = &step->decision.choices->programs;
		given->choices = choices_flatten(step->decision.choices, &step->decision.cpu, step->plan.shared);
		given->is_named = strcmp(step->decision.use.by, "program") == 0;
	}
	given->acts = step->decision.policy.inject;
	given->segment = segment_create(step->job.uid, step->job.gid, error);
	notes_begin(step->job.uid, step->job.gid, &given->notes, error);
	given->library = inject_library_open(MPIWAIT_LIBRARY);
	given->near = is_profiled(step);
	given->may_move = stack_has_task_init_behind();
	given->threads = step->plan.threads;
	if (given->threads == SITE_THREADS_BOUNDED)
		given->spins = openmp_spins_measure();
	if (given->segment >= 0 && step->decision.options.csv[0]) {
		given->csv_directory = step->decision.options.csv;
		snprintf(given->csv_suffix, sizeof(given->csv_suffix), "%u.%s.%s", step->job.job_id,
		         step->job.step_name, step->run_directory.node);
	}
}

/* Writes the set as a list, "" if it does not fit. */
static void print_cpus(hwloc_const_bitmap_t cpus, char list[PROCESSORS_TEXT_MAX])
{
	int length = hwloc_bitmap_list_snprintf(list, PROCESSORS_TEXT_MAX, cpus);

	if (length < 0 || length >= PROCESSORS_TEXT_MAX)
		list[0] = '\0';
}

/*
 * Counts the cores that jobs can have here: the cores that Slurm counts, less those that slurm.conf keeps from all
 * jobs.
 */
static void count_usable(const struct step *step, struct state_job *facts)
{
	unsigned cores = step->topology ? topology_numbered(step->topology) : 0;
	cleanup_bitmap hwloc_bitmap_t kept = hwloc_bitmap_alloc(), usable = hwloc_bitmap_alloc();
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	struct reserved reserved;
	char list[JOB_CORES_MAX];
	int length;

	facts->cores_total = cores;
	if (!kept || !usable || !cpus || cores == 0)
		return;
	if (reserved_read(numbering_configuration(), step->run_directory.node, &reserved))
		reserved_cores(&reserved, cores, kept);
	hwloc_bitmap_set_range(usable, 0, (int)cores - 1);
	hwloc_bitmap_andnot(usable, usable, kept);
	length = hwloc_bitmap_list_snprintf(list, sizeof(list), usable);
	if (length <= 0 || (size_t)length >= sizeof(list))
		return;
	facts->cores_total = count_cores(step, list, cpus);
	print_cpus(cpus, facts->usable);
}

static void begin_job(const struct site *site, const struct step *step, struct error *error)
{
	cleanup_free struct state_job *facts = malloc(sizeof(*facts));
	const char *cluster = getenv("SLURM_CLUSTER_NAME");
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	if (!facts) {
		error_set(error, -ENOMEM, "no memory for the node state");
		return;
	}
	state_job_init(step->job.job_id, facts);
	if (step->job.array_job) {
		facts->array_job_id = step->job.array_job;
		facts->array_task_id = step->job.array_task;
	}
	facts->uid = step->job.uid;
	facts->gid = step->job.gid;
	/* a state that could not be read is made anew, and the job's next step reads that one */
	facts->shared_cores = step->shared_cores;
	facts->cores = count_cores(step, step->job.job_cores, cpus);
	if (facts->cores > 0)
		print_cpus(cpus, facts->cpus);
	count_usable(step, facts);
	if (step->job.gpu_shards)
		strcpy(facts->gpu_list, RECORD_GPUS_PARTS);
	snprintf(facts->sources, sizeof(facts->sources), "%s", site->energy);
	snprintf(facts->cluster, sizeof(facts->cluster), "%s", cluster ? cluster : "");
	/* The site's default holds for the whole job, also if no prolog noted it. */
	if (strcmp(step->decision.use.by, "site") == 0 && !step->decision.is_unnoted)
		facts->policy = step->decision.use;
	state_job_begin(&step->run_directory, facts, false, error);
}

/* Prepares the grant before the tasks are forked, because they inherit a part of it. Changes no frequency yet. */
static void prepare_grant(const struct site *site, struct step *step)
{
	const struct job *job = &step->job;
	struct grant_config config = {
	        .local_tasks = job->facts.local_tasks,
	        .segment = step->given.segment,
	        .topology = step->topology,
	        .step_cores = job->step_cores,
	        .rules = {.run_directory = step->run_directory,
	                  .job_id = job->job_id,
	                  .step_id = job->step_id,
	                  .uid = job->uid,
	                  .gid = job->gid,
	                  .domain = {site->grant, site->min_khz},
	                  .shared = step->shared_cores,
	                  .alone = step->alone,
	                  .has_launcher = job->facts.kind != STEP_SRUN},
	};
	struct error error = {""};

	if (step->plan.grant && grant_prepare(&config, &step->given.grant, &error) < 0)
		log_problem(step, &error);
}

static json_t *read_grant(void *context)
{
	return grant_to_json(context);
}

/* Starts the thread that keeps the node state; begin_job has begun that state. */
static void begin_measuring(struct step *step, struct error *error)
{
	struct sampler_config config = {
	        .run_directory = step->run_directory,
	        .job_id = step->job.job_id,
	        .step_id = step->job.step_id,
	        .policy = step->decision.use,
	        .choices = step->decision.choices,
	        .is_unnoted = step->decision.is_unnoted,
	        .segment = step->given.segment,
	        .fast = is_profiled(step),
	        .grant_read = step->given.grant ? read_grant : NULL,
	        .grant_context = step->given.grant,
	        .csv = step->given.csv_directory != NULL,
	        .notes = step->given.notes.page,
	};

	sampler_start(&config, &step->sampler, error);
}

/*
 * Confines our threads to the job's CPUs, so that they cost no other job anything. If these CPUs are not known, the
 * threads may run anywhere.
 */
static void confine_threads(const struct step *step)
{
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	unsigned long mask[TOPOLOGY_MASK_LONGS];

	if (count_cores(step, step->job.job_cores, cpus) > 0 && topology_mask(cpus, mask) == 0)
		thread_confine(mask, sizeof(mask));
}

struct step *step_begin(spank_t spank, const struct site *site, const char *option)
{
	cleanup_free struct step *step = calloc(1, sizeof(*step));
	struct error error = {""};

	if (!step || job_read(spank, &step->job, &error) < 0 || run_directory_init(NULL, &step->run_directory) < 0 ||
	    !decide(spank, site, option, step)) {
		if (error.text[0])
			log_error("%s", error.text);
		return NULL;
	}
	load_topology(step, &error);
	log_problem(step, &error);
	confine_threads(step);
	make_plan(site, step);
	make_injection(step, &error);
	log_problem(step, &error);
	begin_job(site, step, &error);
	log_problem(step, &error);
	prepare_grant(site, step);
	begin_measuring(step, &error);
	log_problem(step, &error);
	return take_pointer(step);
}

/*
 * Binds a task, blocked before its exec, to its part of the step's cores, unless it is bound already. The CPUs are
 * those that the plan gives it and that it may use now: never more than Slurm gave.
 */
static void bind_task(const struct step *step, uint32_t task, pid_t pid, struct error *error)
{
	cleanup_bitmap hwloc_bitmap_t now = hwloc_bitmap_alloc(), all = hwloc_bitmap_alloc(),
	                              own = hwloc_bitmap_alloc();
	const char *core_list = step->job.step_cores;
	uint32_t cores = step->plan.cores_per_task;
	int rc;

	if (!now || !all || !own)
		return;
	rc = topology_get_affinity(pid, now);
	if (rc < 0) {
		error_set(error, rc, "cannot read the affinity of task %u: %s; it stays unbound", task, strerror(-rc));
		return;
	}
	/* A task that may not use all the step's cores was bound by somebody else. A task's cores may all be offline.
	 */
	if (topology_cpus_of(step->topology, core_list, 0, UINT_MAX, all, error) < 0 ||
	    topology_cpus_of(step->topology, core_list, task * cores, cores, own, error) != (int)cores ||
	    !hwloc_bitmap_isincluded(all, now) || hwloc_bitmap_iszero(own))
		return;
	rc = topology_set_affinity(pid, own);
	if (rc < 0)
		error_set(error, rc, "cannot bind task %u: %s; it stays unbound", task, strerror(-rc));
}

void step_bind_task(struct step *step, spank_t spank)
{
	int task = job_task(spank);
	struct error error = {""};
	pid_t pid = 0;

	if (!step || !step->topology || task < 0 || spank_get_item(spank, S_TASK_PID, &pid) != ESPANK_SUCCESS ||
	    pid <= 0)
		return;
	if (step->plan.bind)
		bind_task(step, (uint32_t)task, pid, &error);
	log_problem(step, &error);
	if (step->given.grant)
		grant_task(step->given.grant, (uint32_t)task, pid, &error);
	log_problem(step, &error);
}

/* Returns true for the first task of all nodes. */
static bool is_first_task(spank_t spank)
{
	uint32_t task;

	return spank_get_item(spank, S_TASK_GLOBAL_ID, &task) == ESPANK_SUCCESS && task == 0;
}

void step_inject_task(const struct step *step, spank_t spank)
{
	struct error error = {""};
	enum inject_hindrance hindrance =
	        inject_task(spank, step ? &step->job : NULL, step && step->plan.inject ? &step->given : NULL, &error);

	if (error.text[0])
		log_error("%s", error.text);
	if (step && step->job.facts.kind == STEP_SRUN && is_first_task(spank))
		notice_give(&step->decision.use, hindrance);
}

void step_end_task(struct step *step, spank_t spank)
{
	int task = job_task(spank);

	if (step && step->given.grant && task >= 0)
		grant_end_task(step->given.grant, (uint32_t)task);
}

void step_end(struct step *step)
{
	if (!step)
		return;
	sampler_stop(step->sampler);
	grant_end(step->given.grant);
	notes_end(&step->given.notes);
	if (step->given.segment >= 0)
		close(step->given.segment);
	if (step->given.library >= 0)
		close(step->given.library);
	topology_free(step->topology);
	free(step->given.choices);
	free(step->decision.choices);
	free(step);
}
