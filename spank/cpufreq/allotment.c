/* Cores, tasks and frequency domains: mapped, taken, shared out. */
#include "spank/cpufreq/allotment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/cpufreq/cpufreq.h"

#define RELATED_MAX  1024 /* CPUs of one domain */
#define REFUSALS_MAX 8    /* that are told apart */

_Static_assert(REFUSALS_MAX <= RECORD_GRANT_REFUSALS && DOMAIN_WHY_MAX <= RECORD_GRANT_WHY_MAX,
               "a record has room for all refusals");

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
	case PLAN_NOBODY:
		return "no task runs there";
	default:
		return NULL;
	}
}

static bool is_one_core(const struct allotment *allotment, const struct holding *holding)
{
	int32_t core = allotment->cpu[hwloc_bitmap_first(holding->cpus)].core;
	int cpu;

	hwloc_bitmap_foreach_begin(cpu, holding->cpus)
	{
		if (allotment->cpu[cpu].core != core)
			return false;
	}
	hwloc_bitmap_foreach_end();
	return true;
}

/* A task is told of one pair of limits. */
static bool limits_agree(const struct holdings *holdings, int32_t task, const struct domain_use *use)
{
	for (size_t i = 0; i < holdings->count; i++) {
		const struct domain_use *other = &holdings->item[i].loan.hold.change.use;

		if (holdings->item[i].task == task &&
		    (other->file != use->file || other->low_khz != use->low_khz || other->high_khz != use->high_khz))
			return false;
	}
	return true;
}

/* Decides. Returns why not; NULL: it may be granted. Who runs in the rest of a domain, only the broker looks. */
static const char *refusal_of(struct allotment *allotment, const struct allotment_rules *rules,
                              const struct holding *holding, int32_t task, int cpus, struct domain_use *ret_use,
                              char why[DOMAIN_WHY_MAX])
{
	cleanup_close int directory = cpufreq_open_policy(cpus, holding->loan.policy);
	bool gives = rules->domain.grant == SITE_GRANT_FILE;
	struct domain domain;

	if (directory < 0 || domain_read(directory, &domain) < 0)
		return "cpufreq files make no sense";
	if (domain_decide(&domain, &rules->domain, ret_use, why) < 0)
		return why;
	if (neighbours_have(allotment->neighbours, holding->cpus))
		return "another job has the core";
	if (gives && !is_one_core(allotment, holding))
		return "grant=file is for domains of one core";
	if (gives && !limits_agree(&allotment->holdings, task, ret_use))
		return "limits differ between the task's cores";
	/* it looks at the threads of one process */
	if (rules->has_launcher && !is_one_core(allotment, holding))
		return "ranks of one task share the frequency domain";
	return NULL;
}

/* The owner is the same for all CPUs of a domain. */
static void grant_domain(struct allotment *allotment, const struct allotment_rules *rules, struct holding *holding,
                         int cpus, struct error *error)
{
	const struct cpufreq_owner user = {.uid = rules->uid, .gid = rules->gid, .mode = 0644};
	int32_t task = allotment->cpu[hwloc_bitmap_first(holding->cpus)].owner;
	const char *refusal = holding->why[0] ? holding->why : owner_why(task);
	char why[DOMAIN_WHY_MAX] = "";
	struct domain_use use;

	if (!refusal)
		refusal = refusal_of(allotment, rules, holding, task, cpus, &use, why);
	if (refusal)
		holding_refuse(holding, refusal, error);
	else
		holding_grant(holding, task, &use, rules->domain.grant == SITE_GRANT_FILE ? &user : NULL, error);
}

static const char *why_not(const struct allotment *allotment, unsigned cpu)
{
	const char *why = owner_why(allotment->cpu[cpu].owner);

	if (allotment->none)
		return allotment->none;
	if (why)
		return why;
	for (size_t i = 0; i < allotment->holdings.count; i++)
		if (hwloc_bitmap_isset(allotment->holdings.item[i].cpus, cpu))
			return allotment->holdings.item[i].why;
	return "no memory";
}

static void refuse_core(struct record_grant *record, const char *why)
{
	size_t i = 0;

	while (i < record->refusals && strcmp(record->refusal[i].why, why) != 0)
		i++;
	if (i == REFUSALS_MAX)
		return;
	if (i == record->refusals)
		snprintf(record->refusal[record->refusals++].why, DOMAIN_WHY_MAX, "%s", why);
	record->refusal[i].cores++;
}

/* A core counts as granted if all of its CPUs are. */
static void count_cores(struct allotment *allotment)
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
				reason = why_not(allotment, j);
		}
		if (core < 0 || !is_first)
			continue;
		if (reason[0])
			refuse_core(&allotment->record, reason);
		else
			allotment->record.cores++;
	}
}

/* Those of a domain, if they all lie within the step's cores, and cpu is the first of them. */
static bool domain_of(const struct allotment *allotment, unsigned cpu, hwloc_bitmap_t ret_cpus)
{
	hwloc_bitmap_zero(ret_cpus);
	for (unsigned i = 0; i < allotment->cpu_count; i++) {
		if (allotment->cpu[i].domain != allotment->cpu[cpu].domain)
			continue;
		if (i < cpu || allotment->cpu[i].core < 0)
			return false;
		hwloc_bitmap_set(ret_cpus, i);
	}
	return allotment->cpu[cpu].domain >= 0;
}

int allotment_take(struct allotment *allotment, const struct allotment_rules *rules, struct error *error)
{
	cleanup_close int cpus = cpufreq_open_cpus(CPUFREQ_SYSFS);
	cleanup_close int node = cpus < 0 ? cpus : state_open_node(&rules->place);
	cleanup_bitmap hwloc_bitmap_t domain = hwloc_bitmap_alloc();
	struct holder holder;
	int rc = node < 0 ? node : holder_init(rules->job_id, rules->step_id, &holder);

	allotment->holdings.item = calloc(allotment->cpu_count + 1, sizeof(allotment->holdings.item[0]));
	if (!rc && (!domain || !allotment->holdings.item))
		rc = -ENOMEM;
	if (!rc)
		read_domains(allotment, cpus);
	for (unsigned i = 0; i < allotment->cpu_count && !rc; i++)
		if (domain_of(allotment, i, domain))
			rc = holdings_take(&allotment->holdings, node, &holder, (uint32_t)allotment->cpu[i].domain,
			                   domain, error);
	if (cpus < 0)
		allotment->none = "no cpufreq";
	else if (rc)
		allotment->none = rc == -ENOMEM ? "no memory" : "no state directory";
	return cpus < 0 || !rc ? 0 : error_set(error, rc, "no grant: %s", strerror(-rc));
}

int allotment_grant(struct allotment *allotment, const struct allotment_rules *rules, struct error *error)
{
	cleanup_close int cpus = cpufreq_open_cpus(CPUFREQ_SYSFS);
	int rc = 0;

	if (!allotment->none && allotment->is_doubtful)
		allotment->none = "Slurm's cores and the tasks' affinity disagree";
	else if (!allotment->none && rules->shared)
		allotment->none = "Slurm may give the core to two jobs";
	if (!allotment->none) {
		rc = plan_share(allotment->cpu, allotment->cpu_count);
		neighbours_look(allotment->neighbours);
	}
	for (size_t i = 0; i < allotment->holdings.count; i++)
		if (allotment->none || rc < 0)
			holding_refuse(&allotment->holdings.item[i], "", error);
		else
			grant_domain(allotment, rules, &allotment->holdings.item[i], cpus, error);
	if (rc < 0)
		return error_set(error, rc, "no grant: no memory");
	count_cores(allotment);
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
		if (allotment->holdings.item[i].task >= 0 &&
		    hwloc_bitmap_intersects(allotment->holdings.item[i].cpus, ret_core))
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
