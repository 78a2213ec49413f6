#include "spank/node/job.h"

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

/* What slurmd tells a prolog or an epilog of the job. Returns 0 or -EINVAL. */
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
	/* one that is longer does not fit anywhere: "?" is no list, and so nothing counts */
	snprintf(ret_facts->gpu_list, sizeof(ret_facts->gpu_list), "%s",
	         strlen(gpus) < sizeof(ret_facts->gpu_list) ? gpus : "?");
	snprintf(ret_facts->cluster, sizeof(ret_facts->cluster), "%s", environment_text("SLURM_CLUSTER_NAME"));
	return 0;
}

/*
 * Whether there is something to remember: a policy, or that the job refused the site's default (a step whose option
 * was lost on the way would fall back to it).
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
	return words && words[0] && strcmp(site->default_policy, "off") != 0;
}

/*
 * Whether Slurm may give the job's cores to another one too, which it tells from 24.05 on: "YES", and until 25.11 "OK"
 * for every job that asked for neither. From 26.05 on, which tells SLURM_JOB_EXCLUSIVE besides, "OK" is said where the
 * partition may do so.
 */
static bool cores_are_shared(void)
{
	const char *how = environment_text("SLURM_JOB_OVERSUBSCRIBE");

	if (strcmp(how, "OK") == 0)
		return getenv("SLURM_JOB_EXCLUSIVE") != NULL;
	return strcmp(how, "YES") == 0;
}

/* In a PID namespace of its own a slurmstepd must know that the node has processes that it does not see. */
static void note_namespace(const struct state_place *place)
{
	cleanup_close int node = state_open_node(place);

	if (node >= 0)
		neighbours_note_namespace(node);
}

void node_job_prolog(const struct site *site, const char *words)
{
	cleanup_free struct state_job *facts = malloc(sizeof(*facts));
	struct state_place place;
	struct error error = {""};
	bool holds;

	if (!facts || state_place_init(NULL, &place) < 0 || read_environment(site, facts) < 0)
		return;
	/* of an earlier run of the job, whose epilog could not put everything back */
	restore_job(&place, facts->job_id);
	/* From Slurm 24.11 on, and right here; in the epilog of a run that is requeued it is one higher. */
	facts->restart_count = environment_number("SLURM_JOB_RESTART_COUNT", STATE_NONE);
	facts->restart_known = facts->restart_count != STATE_NONE;
	if (!facts->restart_known)
		facts->restart_count = 0;
	facts->shared_cores = site->grant != SITE_GRANT_OFF && cores_are_shared();
	facts->alone = !cores_are_shared() && getenv("SLURM_JOB_EXCLUSIVE") != NULL;
	if (site->grant != SITE_GRANT_OFF)
		note_namespace(&place);
	holds = decide(site, words, facts);
	/* A step may come with a policy of its own, and knows of no other way. */
	if (!holds && facts->shared_cores)
		facts->words[0] = '\0';
	if ((holds || facts->shared_cores) && state_job_begin(&place, facts, true, &error) < 0)
		log_error("job %u: %s", facts->job_id, error.text);
}

/*
 * What only the epilog is told: the job's nodes (a prolog that runs for a step is told that step's), and, where no
 * prolog made the state, cluster and ids. Where there is no state at all, but a policy for the job, it is made now.
 */
static void complete_state(const struct site *site, const struct state_place *place, const char *words,
                           struct error *error)
{
	const char *nodes = environment_text(getenv("SLURM_JOB_NODELIST") ? "SLURM_JOB_NODELIST" : "SLURM_NODELIST");
	cleanup_free struct state_job *facts = malloc(sizeof(*facts));
	cleanup_free struct state_job *state = malloc(sizeof(*state));

	if (!facts || !state || read_environment(site, facts) < 0)
		return;
	if (strlen(nodes) < sizeof(facts->nodes))
		snprintf(facts->nodes, sizeof(facts->nodes), "%s", nodes);
	if (state_job_read(place, facts->job_id, state) < 0) {
		facts->too_late = true;
		facts->restart_count = environment_number("SLURM_JOB_RESTART_COUNT", 0);
		if (!decide(site, words, facts) || !facts->policy.asked[0])
			return;
	}
	state_job_begin(place, facts, false, error);
}

void node_job_revoke(void)
{
	uint32_t job_id = environment_number("SLURM_JOB_ID", 0);
	struct state_place place;

	if (job_id && state_place_init(NULL, &place) == 0)
		restore_job(&place, job_id);
}

void node_job_epilog(const struct site *site, const char *words, int argument_count, char *const arguments[])
{
	uint32_t job_id = environment_number("SLURM_JOB_ID", 0);
	struct state_place place;
	struct error error = {""};

	if (!job_id || state_place_init(NULL, &place) < 0)
		return;
	complete_state(site, &place, words, &error);
	if (site->record == SITE_RECORD_NONE)
		state_job_remove(&place, job_id);
	else if (ending_note(&place, job_id, &error) > 0)
		outbox_writer_start(MPIWAIT_HELPER, argument_count, arguments, &error);
	if (error.text[0])
		log_error("job %u: %s", job_id, error.text);
}
