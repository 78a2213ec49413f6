#include "spank/node/prolog_epilog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/base/text.h"
#include "spank/cpufreq/cpufreq.h"
#include "spank/cpufreq/restore.h"
#include "spank/machine/neighbours.h"
#include "spank/node/ending.h"
#include "spank/node/state.h"
#include "spank/policy/decision.h"
#include "spank/store/outbox.h"

static uint32_t environment_number(const char *name, uint32_t missing)
{
	const char *text = getenv(name);
	uint64_t number = missing;

	return text && text_number(text, UINT32_MAX, &number) ? (uint32_t)number : missing;
}

static const char *environment_text(const char *name)
{
	const char *text = getenv(name);

	return text ? text : "";
}

/* Reads the facts that slurmd tells the job's prolog and epilog. Returns 0 or -EINVAL. */
static int read_environment(const struct site *site, struct state_job *ret_facts)
{
	const char *gpus = environment_text("SLURM_JOB_GPUS");
	uint32_t job_id = environment_number("SLURM_JOB_ID", 0);

	if (!job_id)
		return -EINVAL;
	state_job_init(job_id, ret_facts);
	ret_facts->uid = environment_number("SLURM_JOB_UID", ret_facts->uid);
	ret_facts->gid = environment_number("SLURM_JOB_GID", ret_facts->gid);
	ret_facts->het_job_id = environment_number("SLURM_HET_JOB_ID", STATE_NONE);
	ret_facts->het_offset = environment_number("SLURM_HET_JOB_OFFSET", 0);
	snprintf(ret_facts->sources, sizeof(ret_facts->sources), "%s", site->energy);
	ret_facts->gpus = gpus[0] != '\0';
	/* a list that does not fit becomes "?": it names no device, so that none counts */
	snprintf(ret_facts->gpu_list, sizeof(ret_facts->gpu_list), "%s",
	         strlen(gpus) < sizeof(ret_facts->gpu_list) ? gpus : "?");
	/* by gres/mps: slurmd's, since a user's variables come with a prefix */
	if (gpus[0] && getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"))
		strcpy(ret_facts->gpu_list, RECORD_GPUS_PARTS);
	snprintf(ret_facts->cluster, sizeof(ret_facts->cluster), "%s", environment_text("SLURM_CLUSTER_NAME"));
	return 0;
}

/*
 * Decides which policy holds for the job. Returns true if the node must remember the decision: a policy, or a job's
 * "off" against the site's default or its policies by program, to which a step that lost its option would return.
 */
static bool decide(const struct site *site, const char *words, struct state_job *facts)
{
	struct decision_sources sources = {.job = words};
	struct decision decision = {.text = ""};
	struct error error = {""};
	bool holds = decision_make(site, &sources, &decision, &error) > 0;

	if (error.text[0])
		log_error("job %u: %s", facts->job_id, error.text);
	if (holds) {
		facts->policy = decision.use;
		snprintf(facts->words, sizeof(facts->words), "%s", words ? decision.text : "");
		return true;
	}
	snprintf(facts->words, sizeof(facts->words), "off");
	return words && words[0] && (strcmp(site->default_policy, "off") != 0 || site->programs[0]);
}

/*
 * Returns true if Slurm may give the job's cores to another job too. Slurm tells it from 24.05 on by "YES". Until 25.11
 * "OK" means only that the job asked neither to share nor to have them alone. From 26.05 on, which also sets
 * SLURM_JOB_EXCLUSIVE, "OK" means that the partition may share cores.
 */
static bool cores_are_shared(void)
{
	const char *how = environment_text("SLURM_JOB_OVERSUBSCRIBE");

	if (strcmp(how, "OK") == 0)
		return getenv("SLURM_JOB_EXCLUSIVE") != NULL;
	return strcmp(how, "YES") == 0;
}

/*
 * Notes the prolog's PID namespace: a slurmstepd in another one must know that it does not see all processes of the
 * node.
 */
static void note_namespace(const struct run_directory *run_directory)
{
	cleanup_close int node = run_directory_open_node(run_directory);

	if (node >= 0)
		neighbours_note_namespace(node);
}

void node_job_prolog(const struct site *site, const char *words)
{
	cleanup_free struct state_job *facts = malloc(sizeof(*facts));
	struct run_directory run_directory;
	struct error error = {""};
	bool holds;

	if (!facts || run_directory_init(NULL, &run_directory) < 0 || read_environment(site, facts) < 0)
		return;
	/* the epilog of an earlier run of the job may have failed to restore everything */
	restore_job(&run_directory, facts->job_id);
	/* Slurm sets it from 24.11 on. It is right here; in the epilog of a requeued run it is one too high. */
	facts->restart_count = environment_number("SLURM_JOB_RESTART_COUNT", STATE_NONE);
	facts->restart_known = facts->restart_count != STATE_NONE;
	if (!facts->restart_known)
		facts->restart_count = 0;
	facts->alone = !cores_are_shared() && getenv("SLURM_JOB_EXCLUSIVE") != NULL;
	if (site->grant != SITE_GRANT_OFF)
		note_namespace(&run_directory);
	holds = decide(site, words, facts);
	/* the lease asks, and the saving, which is no job's own there */
	facts->shared_cores = (holds || site->grant != SITE_GRANT_OFF) && cores_are_shared();
	/* A step may have a policy of its own, and learns only from this state that cores are shared. */
	if (!holds && facts->shared_cores)
		facts->words[0] = '\0';
	if ((holds || facts->shared_cores) && state_job_begin(&run_directory, facts, true, &error) < 0)
		log_error("job %u: %s", facts->job_id, error.text);
}

/*
 * Adds what only the epilog learns: the job's nodes (a prolog that runs for a step sees that step's), and cluster and
 * ids if no prolog made the state. Makes the state now if there is none and a policy holds for the job, unless an
 * epilog that ran before has had one.
 */
static void complete_state(const struct site *site, const struct run_directory *run_directory, const char *words,
                           struct error *error)
{
	const char *nodes = environment_text(getenv("SLURM_JOB_NODELIST") ? "SLURM_JOB_NODELIST" : "SLURM_NODELIST");
	cleanup_free struct state_job *facts = malloc(sizeof(*facts));
	cleanup_free struct state_job *state = malloc(sizeof(*state));

	if (!facts || !state || read_environment(site, facts) < 0)
		return;
	if (strlen(nodes) < sizeof(facts->nodes))
		snprintf(facts->nodes, sizeof(facts->nodes), "%s", nodes);
	if (state_job_read(run_directory, facts->job_id, state) < 0) {
		/* a second epilog of one run: a state of now would replace the run's record by an empty one */
		if (ending_is_noted(run_directory, facts->job_id))
			return;
		facts->too_late = true;
		facts->restart_count = environment_number("SLURM_JOB_RESTART_COUNT", 0);
		if (!decide(site, words, facts) || !facts->policy.asked[0])
			return;
	}
	state_job_begin(run_directory, facts, false, error);
}

void node_job_revoke(void)
{
	uint32_t job_id = environment_number("SLURM_JOB_ID", 0);
	struct run_directory run_directory;

	if (job_id && run_directory_init(NULL, &run_directory) == 0)
		restore_job(&run_directory, job_id);
}

void node_job_epilog(const struct site *site, const char *words, int argument_count, char *const arguments[])
{
	uint32_t job_id = environment_number("SLURM_JOB_ID", 0);
	struct run_directory run_directory;
	struct error error = {""};

	if (!job_id || run_directory_init(NULL, &run_directory) < 0)
		return;
	complete_state(site, &run_directory, words, &error);
	if (site->record == SITE_RECORD_NONE)
		state_job_remove(&run_directory, job_id);
	else if (ending_note(&run_directory, job_id, &error) > 0)
		outbox_writer_start(MPIWAIT_HELPER, argument_count, arguments, &error);
	if (error.text[0])
		log_error("job %u: %s", job_id, error.text);
}
