/* Cores, tasks and frequency domains: mapped, shared out, claimed. */
#include "spank/cpufreq/allotment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/cpufreq/cpufreq.h"

#define RELATED_MAX 1024 /* CPUs of one domain */

int allotment_init(struct allotment *allotment, const struct topology *topology, uint32_t job_id,
                   const char *step_cores, struct error *error)
{
	int rc;

	allotment->cpu_count = topology_cpu_limit(topology);
	allotment->cpu = calloc(allotment->cpu_count + 1, sizeof(allotment->cpu[0]));
	allotment->step_cpus = hwloc_bitmap_alloc();
	if (!allotment->cpu || !allotment->step_cpus)
		return error_set(error, -ENOMEM, "no grant: no memory");
	rc = neighbours_start(job_id, &allotment->neighbours, error);
	if (rc < 0)
		return rc;
	rc = topology_cpus_of(topology, step_cores, 0, UINT_MAX, allotment->step_cpus, error);
	for (unsigned i = 0; i < allotment->cpu_count; i++)
		allotment->cpu[i] = (struct plan_cpu){
		        .core = hwloc_bitmap_isset(allotment->step_cpus, i) ? topology_core_of(topology, i) : -1,
		        .domain = -1,
		        .task = PLAN_NOBODY,
		};
	return rc < 0 ? rc : 0;
}

void allotment_add_task(struct allotment *allotment, uint32_t local_task, hwloc_const_bitmap_t affinity)
{
	bool loose = !hwloc_bitmap_isincluded(affinity, allotment->step_cpus);

	if (!hwloc_bitmap_intersects(affinity, allotment->step_cpus))
		allotment->is_doubtful = true;
	for (unsigned i = 0; i < allotment->cpu_count; i++) {
		struct plan_cpu *cpu = &allotment->cpu[i];

		if (!hwloc_bitmap_isset(affinity, i))
			continue;
		if (loose)
			cpu->task = PLAN_LOOSE;
		else
			cpu->task = cpu->task == PLAN_NOBODY ? (int32_t)local_task : PLAN_SEVERAL;
	}
}

static void refuse_cores(struct allotment *allotment, const char *why, uint32_t cores)
{
	size_t i = 0;

	while (i < allotment->refusals && strcmp(allotment->refusal[i].why, why) != 0)
		i++;
	if (i == ALLOTMENT_REFUSALS || cores == 0)
		return;
	if (i == allotment->refusals)
		snprintf(allotment->refusal[allotment->refusals++].why, DOMAIN_WHY_MAX, "%s", why);
	allotment->refusal[i].cores += cores;
}

static void read_domains(struct allotment *allotment, int cpus)
{
	int cpu;

	hwloc_bitmap_foreach_begin(cpu, allotment->step_cpus)
	{
		uint32_t related[RELATED_MAX];
		int policy = cpufreq_policy_of(cpus, (uint32_t)cpu), count = -1;
		cleanup_close int directory = policy < 0 ? -1 : cpufreq_open_policy(cpus, (uint32_t)policy);

		if (directory >= 0)
			count = domain_read_cpus(directory, related, RELATED_MAX);
		for (int i = 0; i < count; i++)
			if (related[i] < allotment->cpu_count)
				allotment->cpu[related[i]].domain = policy;
			else
				count = -1; /* a CPU that hwloc does not know */
		if (count < 0)
			allotment->cpu[cpu].domain = -1;
	}
	hwloc_bitmap_foreach_end();
}

static const char *owner_why(int32_t owner)
{
	switch (owner) {
	case PLAN_SEVERAL:
		return "tasks share the core";
	case PLAN_LOOSE:
		return "the task may run outside the step's cores";
	case PLAN_NO_CPUFREQ:
		return "no cpufreq";
	case PLAN_REACHES_OUT:
		return "frequency domain reaches outside the task's cores";
	default:
		return "no task runs there";
	}
}

/* The CPUs of a domain; the owner is the same for all of them. */
static void domain_bitmap(const struct allotment *allotment, int32_t domain, hwloc_bitmap_t ret_cpus)
{
	hwloc_bitmap_zero(ret_cpus);
	for (unsigned i = 0; i < allotment->cpu_count; i++)
		if (allotment->cpu[i].domain == domain)
			hwloc_bitmap_set(ret_cpus, i);
}

static bool domain_is_one_core(const struct allotment *allotment, unsigned cpu)
{
	for (unsigned i = 0; i < allotment->cpu_count; i++)
		if (allotment->cpu[i].domain == allotment->cpu[cpu].domain &&
		    allotment->cpu[i].core != allotment->cpu[cpu].core)
			return false;
	return true;
}

/* A task is told of one pair of limits. */
static bool limits_agree(const struct holdings *holdings, int32_t task, const struct domain_use *use)
{
	for (size_t i = 0; i < holdings->count; i++) {
		const struct holding *holding = &holdings->item[i];

		if (holding->task == (uint32_t)task &&
		    (holding->use.file != use->file || holding->use.low_khz != use->low_khz ||
		     holding->use.high_khz != use->high_khz))
			return false;
	}
	return true;
}

/*
 * What cannot be granted besides; NULL: nothing. Who runs in the rest of a domain, only the broker looks, and it looks
 * at the threads of one process.
 */
static const char *mode_lacks(const struct allotment *allotment, const struct allotment_rules *rules, unsigned cpu,
                              const struct domain_use *use)
{
	bool gives = rules->domain.grant == SITE_GRANT_FILE;

	if (gives && !domain_is_one_core(allotment, cpu))
		return "grant=file is for domains of one core";
	if (gives && !limits_agree(&allotment->holdings, allotment->cpu[cpu].owner, use))
		return "limits differ between the task's cores";
	if (rules->has_launcher && !domain_is_one_core(allotment, cpu))
		return "ranks of one task share the frequency domain";
	return NULL;
}

static int claim(struct allotment *allotment, const struct allotment_rules *rules, int cpus, unsigned first,
                 hwloc_const_bitmap_t domain_cpus, char why[DOMAIN_WHY_MAX], struct error *error)
{
	uint32_t policy = (uint32_t)allotment->cpu[first].domain;
	cleanup_close int directory = cpufreq_open_policy(cpus, policy);
	const struct cpufreq_owner user = {.uid = rules->uid, .gid = rules->gid, .mode = 0644};
	bool gives = rules->domain.grant == SITE_GRANT_FILE;
	struct domain domain;
	struct domain_use use;
	const char *lacks;

	if (directory < 0 || domain_read(directory, &domain) < 0) {
		snprintf(why, DOMAIN_WHY_MAX, "cpufreq files make no sense");
		return -EBADMSG;
	}
	if (domain_decide(&domain, &rules->domain, &use, why) < 0)
		return -EPERM;
	if (neighbours_have(allotment->neighbours, domain_cpus)) {
		snprintf(why, DOMAIN_WHY_MAX, "another job has the core");
		return -EPERM;
	}
	lacks = mode_lacks(allotment, rules, first, &use);
	if (lacks) {
		snprintf(why, DOMAIN_WHY_MAX, "%s", lacks);
		return -EPERM;
	}
	return holdings_claim(&allotment->holdings, policy, (uint32_t)allotment->cpu[first].owner, domain_cpus, &use,
	                      gives ? &user : NULL, why, error);
}

/* Claims every domain that plan_share gave to a task; one that fails takes its reason along. */
static void claim_all(struct allotment *allotment, const struct allotment_rules *rules, int cpus,
                      char (*why)[DOMAIN_WHY_MAX], struct error *error)
{
	hwloc_bitmap_t domain = hwloc_bitmap_alloc();

	for (unsigned i = 0; domain && i < allotment->cpu_count; i++) {
		int rc;

		if (allotment->cpu[i].owner < 0)
			continue;
		domain_bitmap(allotment, allotment->cpu[i].domain, domain);
		if (hwloc_bitmap_first(domain) != (int)i) {
			unsigned first = (unsigned)hwloc_bitmap_first(domain);

			memcpy(why[i], why[first], DOMAIN_WHY_MAX);
			continue;
		}
		rc = claim(allotment, rules, cpus, i, domain, why[i], error);
		if (rc == 0)
			why[i][0] = '\0';
	}
	hwloc_bitmap_free(domain);
}

/* A core counts as granted if all of its CPUs are. */
static void count_cores(struct allotment *allotment, char (*why)[DOMAIN_WHY_MAX])
{
	for (unsigned i = 0; i < allotment->cpu_count; i++) {
		int32_t core = allotment->cpu[i].core;
		const char *reason = "";
		bool is_first = true;

		for (unsigned j = 0; j < allotment->cpu_count && core >= 0; j++) {
			if (allotment->cpu[j].core != core)
				continue;
			is_first &= j >= i;
			if (!reason[0])
				reason = allotment->cpu[j].owner >= 0 ? why[j] : owner_why(allotment->cpu[j].owner);
		}
		if (core < 0 || !is_first)
			continue;
		if (reason[0])
			refuse_cores(allotment, reason, 1);
		else
			allotment->cores++;
	}
}

static void refuse_all(struct allotment *allotment, const char *why)
{
	char(*reasons)[DOMAIN_WHY_MAX] = calloc(allotment->cpu_count + 1, DOMAIN_WHY_MAX);

	for (unsigned i = 0; reasons && i < allotment->cpu_count; i++) {
		allotment->cpu[i].owner = 0;
		snprintf(reasons[i], DOMAIN_WHY_MAX, "%s", why);
	}
	if (reasons)
		count_cores(allotment, reasons);
	free(reasons);
}

static bool domain_is_within_step(const struct allotment *allotment, int32_t domain)
{
	for (unsigned i = 0; i < allotment->cpu_count; i++)
		if (allotment->cpu[i].domain == domain && allotment->cpu[i].core < 0)
			return false;
	return true;
}

int allotment_take(struct allotment *allotment, const struct allotment_rules *rules, struct error *error)
{
	cleanup_close int cpus = cpufreq_open_cpus(CPUFREQ_SYSFS);
	int rc;

	if (cpus < 0)
		return 0;
	rc = journal_open(&rules->place, CPUFREQ_SYSFS, rules->job_id, rules->step_id, &allotment->holdings.journal,
	                  error);
	if (rc < 0)
		return rc;
	read_domains(allotment, cpus);
	for (unsigned i = 0; i < allotment->cpu_count; i++)
		if (allotment->cpu[i].domain >= 0 && domain_is_within_step(allotment, allotment->cpu[i].domain))
			journal_claim(allotment->holdings.journal, (uint32_t)allotment->cpu[i].domain, error);
	return 0;
}

static bool is_held(const struct holdings *holdings, uint32_t policy)
{
	for (size_t i = 0; i < holdings->count; i++)
		if (holdings->item[i].policy == policy)
			return true;
	return false;
}

/* What was taken, and granted to nobody. */
static void give_up_the_rest(struct allotment *allotment, struct error *error)
{
	for (unsigned i = 0; i < allotment->cpu_count; i++) {
		int32_t domain = allotment->cpu[i].domain;

		if (domain >= 0 && domain_is_within_step(allotment, domain) &&
		    !is_held(&allotment->holdings, (uint32_t)domain))
			journal_release(allotment->holdings.journal, (uint32_t)domain, error);
	}
}

int allotment_claim(struct allotment *allotment, const struct allotment_rules *rules, struct error *error)
{
	cleanup_close int cpus = cpufreq_open_cpus(CPUFREQ_SYSFS);
	cleanup_free char(*why)[DOMAIN_WHY_MAX] = calloc(allotment->cpu_count + 1, DOMAIN_WHY_MAX);
	const char *none = NULL;
	int rc;

	allotment->holdings.item = calloc(allotment->cpu_count + 1, sizeof(allotment->holdings.item[0]));
	if (!why || !allotment->holdings.item)
		return error_set(error, -ENOMEM, "no grant: no memory");
	if (cpus < 0)
		none = "no cpufreq";
	else if (!allotment->holdings.journal)
		none = "no journal";
	else if (allotment->is_doubtful)
		none = "Slurm's cores and the tasks' affinity disagree";
	else if (rules->shared)
		none = "Slurm may give the core to two jobs";
	if (none) {
		refuse_all(allotment, none);
		return 0;
	}
	rc = plan_share(allotment->cpu, allotment->cpu_count);
	if (rc < 0)
		return error_set(error, rc, "no grant: no memory");
	neighbours_look(allotment->neighbours);
	claim_all(allotment, rules, cpus, why, error);
	give_up_the_rest(allotment, error);
	count_cores(allotment, why);
	return 0;
}

int32_t allotment_find_core(const struct allotment *allotment, uint32_t cpu, hwloc_bitmap_t ret_core,
                            hwloc_bitmap_t ret_domains)
{
	hwloc_bitmap_zero(ret_core);
	hwloc_bitmap_zero(ret_domains);
	if (cpu >= allotment->cpu_count || allotment->cpu[cpu].owner < 0)
		return -1;
	for (unsigned i = 0; i < allotment->cpu_count; i++)
		if (allotment->cpu[i].core == allotment->cpu[cpu].core)
			hwloc_bitmap_set(ret_core, i);
	for (size_t i = 0; i < allotment->holdings.count; i++)
		if (hwloc_bitmap_intersects(allotment->holdings.item[i].cpus, ret_core))
			hwloc_bitmap_or(ret_domains, ret_domains, allotment->holdings.item[i].cpus);
	return hwloc_bitmap_isincluded(ret_core, ret_domains) ? allotment->cpu[cpu].owner : -1;
}

void allotment_end(struct allotment *allotment, struct error *error)
{
	holdings_end(&allotment->holdings, error);
	neighbours_end(allotment->neighbours);
	hwloc_bitmap_free(allotment->step_cpus);
	free(allotment->cpu);
	*allotment = (struct allotment){.cpu_count = 0};
}
