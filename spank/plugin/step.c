#include "spank/plugin/step.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/cpufreq/grant.h"
#include "spank/machine/topology.h"
#include "spank/node/sampler.h"
#include "spank/node/state.h"
#include "spank/plugin/bind.h"
#include "spank/plugin/client.h"
#include "spank/plugin/csv_files.h"
#include "spank/plugin/inject.h"
#include "spank/plugin/job.h"
#include "spank/plugin/preload_path.h"
#include "spank/plugin/segment.h"
#include "spank/policy/decision.h"
#include "spank/policy/openmp.h"
#include "spank/policy/plan.h"

struct step {
	struct job job;
	bool shared_cores; /* Slurm may give the job's cores to another one too, or that cannot be told */
	struct decision decision;
	struct plan plan;
	struct topology *topology; /* NULL: could not be read */
	struct segment segment;    /* descriptor -1: none */
	int library;               /* open for tasks in containers, -1: not */
	struct sampler *sampler;   /* NULL: not measured */
	struct grant *grant;       /* NULL: none */
	char flat[POLICY_FLAT_MAX];
	uint64_t spins; /* of a bounded OpenMP thread */
	struct csv_files csv;
};

static void log_problem(const struct job *job, const struct error *error)
{
	char name[16];

	state_step_name(job->step_id, name);
	if (error->text[0])
		log_error("job %u step %s: %s", job->job_id, name, error->text);
}

/* What held for the whole job, as the prolog found it; words "" for nothing. */
static void read_job(const struct state_place *place, struct step *step, char words[OPTIONS_TEXT_MAX])
{
	cleanup_free struct state_job *state = malloc(sizeof(*state));

	words[0] = '\0';
	step->shared_cores = !state;
	if (!state || state_job_read(place, step->job.job_id, state) < 0)
		return;
	step->shared_cores = state->shared_cores;
	snprintf(words, OPTIONS_TEXT_MAX, "%s", state->words);
}

static bool decide(spank_t spank, const struct site *site, const struct state_place *place, const char *option,
                   struct step *step)
{
	char environment[OPTIONS_TEXT_MAX] = "", words[OPTIONS_TEXT_MAX];
	struct decision_sources sources = {option, environment, words};
	struct error error = {""};
	bool holds;

	if (spank_getenv(spank, CLIENT_VARIABLE, environment, sizeof(environment)) != ESPANK_SUCCESS)
		environment[0] = '\0';
	read_job(place, step, words);
	holds = decision_make(site, &sources, &step->decision, &error) > 0;
	log_problem(&step->job, &error);
	if (holds && step->decision.use.why[0])
		log_info("job %u: policy '%s' was asked for, '%s' is used: %s", step->job.job_id,
		         step->decision.use.asked, step->decision.use.used, step->decision.use.why);
	return holds;
}

static void load_topology(const struct state_place *place, struct step *step)
{
	char cache[PATH_MAX] = "";
	struct error error = {""};
	int directory = state_open_node(place);

	if (directory >= 0) {
		close(directory);
		if (snprintf(cache, sizeof(cache), "%s/%s", place->root, place->node) >= (int)sizeof(cache))
			cache[0] = '\0';
	}
	if (topology_load(cache, &step->topology, &error) < 0)
		log_problem(&step->job, &error);
}

/* Cores of a list, and their hardware threads; 0 when the list is doubtful. */
static uint32_t count_cores(const struct step *step, const char *core_list, hwloc_bitmap_t ret_cpus)
{
	int cores = 0;

	if (ret_cpus && step->topology && core_list[0])
		cores = topology_cpus_of(step->topology, core_list, 0, UINT_MAX, ret_cpus, NULL);
	return cores > 0 ? (uint32_t)cores : 0;
}

/* Whether every call is timed, and the sampler looks each second. */
static bool is_profiled(const struct step *step)
{
	return step->decision.options.profile || strcmp(step->decision.policy.name, "profile") == 0;
}

static void make_plan(const struct site *site, struct step *step)
{
	struct plan_facts facts = {
	        .kind = step->job.kind,
	        .policy = &step->decision.policy,
	        .pin = step->decision.options.has_pin ? step->decision.options.pin : site->pin,
	        .grant = site->grant,
	        .user_bound = step->job.user_bound,
	        .local_tasks = step->job.local_tasks,
	        .cpus_per_task = step->job.cpus_per_task,
	};
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

	facts.step_cores = count_cores(step, step->job.step_cores, cpus);
	facts.step_cpus = facts.step_cores > 0 ? (uint32_t)hwloc_bitmap_weight(cpus) : 0;
	plan_make(&facts, &step->plan);
	if (policy_flatten(&step->decision.policy, &step->decision.cpu, step->plan.shared, is_profiled(step),
	                   step->flat, sizeof(step->flat)) < 0)
		step->plan.inject = false;
}

static void make_segment(struct step *step)
{
	struct error error = {""};

	if (step->plan.inject && segment_create(step->job.uid, step->job.gid, &step->segment, &error) < 0)
		log_problem(&step->job, &error);
}

static int begin_job(const struct state_place *place, const struct step *step, struct error *error)
{
	cleanup_free struct state_job *facts = malloc(sizeof(*facts));
	const char *cluster = getenv("SLURM_CLUSTER_NAME");
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	int length = -1;

	if (!facts)
		return error_set(error, -ENOMEM, "no memory for the node state");
	state_job_init(step->job.job_id, facts);
	if (step->job.array_job) {
		facts->array_job_id = step->job.array_job;
		facts->array_task_id = step->job.array_task;
	}
	facts->uid = step->job.uid;
	facts->gid = step->job.gid;
	facts->cores = count_cores(step, step->job.job_cores, cpus);
	if (facts->cores > 0)
		length = hwloc_bitmap_list_snprintf(facts->cpus, sizeof(facts->cpus), cpus);
	if (length < 0 || (size_t)length >= sizeof(facts->cpus))
		facts->cpus[0] = '\0';
	facts->cores_total = step->topology ? topology_cores(step->topology) : 0;
	snprintf(facts->cluster, sizeof(facts->cluster), "%s", cluster ? cluster : "");
	/* The site's default is the whole job's, also where no prolog could say so. */
	if (strcmp(step->decision.use.by, "site") == 0)
		facts->policy = step->decision.use;
	return state_job_begin(place, facts, false, error);
}

static void begin_job_state(const struct state_place *place, const struct step *step)
{
	struct error error = {""};

	if (step->plan.measure && begin_job(place, step, &error) < 0)
		log_problem(&step->job, &error);
}

static json_t *read_grant(void *context)
{
	return grant_to_json(context);
}

/* The thread that keeps the node state, which has begun. */
static void begin_measuring(const struct state_place *place, struct step *step)
{
	struct sampler_config config = {
	        .place = *place,
	        .job_id = step->job.job_id,
	        .step_id = step->job.step_id,
	        .policy = step->decision.use,
	        .segment = step->segment.descriptor,
	        .fast = is_profiled(step),
	        .grant_read = step->grant ? read_grant : NULL,
	        .grant_context = step->grant,
	        .csv = &step->csv.outcome,
	};
	struct error error = {""};

	if (step->plan.measure && sampler_start(&config, &step->sampler, &error) < 0)
		log_problem(&step->job, &error);
}

/* Before the tasks are forked, which inherit a part of it; nothing is changed yet. */
static void prepare_grant(const struct site *site, const struct state_place *place, struct step *step)
{
	struct grant_config config = {
	        .local_tasks = step->job.local_tasks,
	        .segment = step->segment.descriptor,
	        .topology = step->topology,
	        .step_cores = step->job.step_cores,
	        .rules = {.place = *place,
	                  .job_id = step->job.job_id,
	                  .step_id = step->job.step_id,
	                  .uid = step->job.uid,
	                  .gid = step->job.gid,
	                  .domain = {site->grant, site->governor, site->min_khz, step->job.user_frequency},
	                  .shared = step->shared_cores,
	                  .has_launcher = step->job.kind != STEP_SRUN},
	};
	struct error error = {""};

	if (step->plan.grant && grant_prepare(&config, &step->grant, &error) < 0)
		log_problem(&step->job, &error);
}

struct step *step_begin(spank_t spank, const struct site *site, const char *option)
{
	struct step *step = calloc(1, sizeof(*step));
	cleanup_free struct state_place *place = malloc(sizeof(*place));
	struct error error = {""};

	if (!step || !place || job_read(spank, &step->job, &error) < 0 || state_place_init(NULL, place) < 0 ||
	    !decide(spank, site, place, option, step)) {
		if (error.text[0])
			log_error("%s", error.text);
		free(step);
		return NULL;
	}
	step->segment.descriptor = -1;
	load_topology(place, step);
	make_plan(site, step);
	make_segment(step);
	if (step->plan.threads == SITE_THREADS_BOUNDED)
		step->spins = openmp_spins_measure();
	step->library = step->plan.inject ? preload_path_open(MPIWAIT_LIBRARY) : -1;
	begin_job_state(place, step);
	csv_files_init(&step->csv, step->plan.inject ? step->decision.options.csv : "");
	prepare_grant(site, place, step);
	begin_measuring(place, step);
	return step;
}

void step_bind_task(struct step *step, spank_t spank)
{
	struct error error = {""};
	pid_t pid = 0;
	int task = -1;

	if (!step->topology || spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || task < 0 ||
	    spank_get_item(spank, S_TASK_PID, &pid) != ESPANK_SUCCESS || pid <= 0)
		return;
	if (step->plan.bind &&
	    bind_task(step->topology, &step->plan, step->job.step_cores, (uint32_t)task, pid, &error) < 0)
		log_problem(&step->job, &error);
	error.text[0] = '\0';
	if (step->grant)
		grant_task(step->grant, (uint32_t)task, pid, &error);
	log_problem(&step->job, &error);
}

void step_open_for_task(struct step *step)
{
	if (step)
		view_show(step->csv.view);
}

void step_end_task(struct step *step, spank_t spank)
{
	int task = -1;

	if (!step || spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || task < 0)
		return;
	if (step->grant)
		grant_end_task(step->grant, (uint32_t)task);
	csv_files_task_ended(&step->csv, &step->job, step->segment.descriptor);
}

void step_inject_task(const struct step *step, spank_t spank)
{
	struct error error = {""};
	char added[GRANT_TEXT_MAX + JOB_NEAR_MAX] = "", name[64];
	char **words = NULL;
	int task = -1, count = 0;

	if (step)
		view_note_directory(step->csv.view);
	if (inject_clean(spank, &error) == 0 && step && step->plan.inject) {
		const char *library;

		if (spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS)
			count = 0;
		library = preload_path_name(MPIWAIT_LIBRARY, step->library, count > 0 ? words[0] : NULL, name,
		                            sizeof(name));
		if (step->grant && spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && task >= 0)
			grant_describe(step->grant, (uint32_t)task, added);
		if (is_profiled(step))
			job_near(spank, &step->job, added + strlen(added));
		if (inject_task(spank, library, step->flat, added, &step->segment, &error) == 0)
			inject_threads(spank, step->plan.threads, step->spins, count > 0 ? words[0] : "");
	}
	if (error.text[0])
		log_error("%s", error.text);
}

void step_note_user(struct step *step, spank_t spank)
{
	csv_files_note_user(&step->csv, spank);
}

void step_end(struct step *step)
{
	if (!step)
		return;
	csv_files_step_ended(&step->csv, &step->job, step->segment.descriptor);
	sampler_stop(step->sampler);
	grant_end(step->grant);
	csv_files_free(&step->csv);
	if (step->segment.descriptor >= 0)
		close(step->segment.descriptor);
	if (step->library >= 0)
		close(step->library);
	topology_free(step->topology);
	free(step);
}
