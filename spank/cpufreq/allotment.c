#include "spank/cpufreq/allotment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/proc.h"
#include "spank/cpufreq/cpufreq.h"

_Static_assert(DOMAIN_WHY_MAX <= RECORD_GRANT_WHY_MAX, "a record has room for a reason");

int allotment_init(struct allotment *allotment, const struct allotment_rules *rules, const struct topology *topology,
                   const char *step_cores, struct error *error)
{
	cleanup_close int node = -1;
	int rc;

	allotment->rules = rules;
	allotment->core_count = topology_cores(topology);
	allotment->cpu_count = topology_cpu_limit(topology);
	allotment->cpu = calloc(allotment->cpu_count + 1, sizeof(allotment->cpu[0]));
	allotment->portion = calloc(allotment->cpu_count + 1, sizeof(allotment->portion[0]));
	allotment->step_cpus = hwloc_bitmap_alloc();
	if (!allotment->cpu || !allotment->portion || !allotment->step_cpus)
		return error_set(error, -ENOMEM, "no grant: no memory");
	rc = neighbours_start(rules->job_id, &allotment->neighbours, error);
	if (rc < 0)
		return rc;
	node = run_directory_open_node(&rules->run_directory);
	if (node >= 0)
		neighbours_share(allotment->neighbours, node);
	if (rules->alone && !neighbours_are_seen(allotment->neighbours)) {
		neighbours_end(allotment->neighbours);
		allotment->neighbours = NULL;
	}
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

/* Returns the record's words for an error of loan_take or loan_change. */
static const char *reason_of(int rc)
{
	if (rc == -EAGAIN)
		return "a cap holds the clock down now";
	if (rc == -EBUSY || rc == -ESTALE)
		return "held by somebody else";
	return rc == -ENOSPC ? "no room for the domain's file" : "the domain's file refused";
}

/* Returns the number of a CPU's domain, with its CPUs, also those offline; -1: no domain that makes sense. */
static int domain_of(const struct allotment *allotment, uint32_t cpu, hwloc_bitmap_t ret_cpus)
{
	int policy = cpufreq_policy_of(CPUFREQ_SYSFS, cpu);
	cleanup_close int directory = policy < 0 ? -1 : cpufreq_open_policy(CPUFREQ_SYSFS, (uint32_t)policy);
	char line[4096]; /* a page, the most that a file of sysfs has */

	if (directory < 0 || proc_line_read(directory, "related_cpus", line, sizeof(line)) <= 0 ||
	    hwloc_bitmap_list_sscanf(ret_cpus, line) < 0 || !hwloc_bitmap_isset(ret_cpus, cpu) ||
	    (unsigned)hwloc_bitmap_last(ret_cpus) >= allotment->cpu_count)
		return -1;
	return policy;
}

/*
 * Adds a domain to the allotment and takes it from its holder. If that fails, notes the reason: the domain is not
 * granted then. Without memory for its CPUs the domain is left out.
 */
static void portion_take(struct allotment *allotment, int node, const struct holder *holder, int policy,
                         hwloc_const_bitmap_t cpus, struct error *error)
{
	struct portion *portion = &allotment->portion[allotment->portion_count];
	int rc;

	*portion = (struct portion){.cpus = hwloc_bitmap_dup(cpus), .task = -1, .loan = LOAN_NONE};
	if (!portion->cpus)
		return;
	allotment->portion_count++;
	rc = loan_take(node, (uint32_t)policy, holder, &portion->loan, error);
	if (rc < 0)
		snprintf(portion->why, sizeof(portion->why), "%s", reason_of(rc));
}

int allotment_take(struct allotment *allotment, struct error *error)
{
	cleanup_close int node = run_directory_open_node(&allotment->rules->run_directory);
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	struct holder holder;
	int cpu, related, rc = node < 0 ? node : -ENOMEM;

	if (node >= 0 && cpus)
		rc = holder_init(allotment->rules->job_id, allotment->rules->step_id, &holder);
	if (rc) {
		allotment->none = rc == -ENOMEM ? "no memory" : "no state directory";
		return error_set(error, rc, "no grant: %s", strerror(-rc));
	}
	hwloc_bitmap_foreach_begin(cpu, allotment->step_cpus)
	{
		int policy = domain_of(allotment, (uint32_t)cpu, cpus);

		if (policy < 0)
			continue;
		hwloc_bitmap_foreach_begin(related, cpus)
		{
			allotment->cpu[related].domain = policy;
		}
		hwloc_bitmap_foreach_end();
		if (hwloc_bitmap_first(cpus) == cpu && hwloc_bitmap_isincluded(cpus, allotment->step_cpus))
			portion_take(allotment, node, &holder, policy, cpus, error);
	}
	hwloc_bitmap_foreach_end();
	return 0;
}

/* Returns why a CPU has no owner (the negative values of plan_owners), or NULL if a task owns it. */
static const char *owner_why(int32_t owner)
{
	static const char *const whys[] = {
	        [-PLAN_SEVERAL] = "tasks share the core",
	        [-PLAN_LOOSE] = "the task may run outside the step's cores",
	        [-PLAN_NO_CPUFREQ] = "no cpufreq",
	        [-PLAN_REACHES_OUT] = "frequency domain reaches outside the task's cores",
	        [-PLAN_NOBODY] = "no task runs there",
	};

	return owner < 0 ? whys[-owner] : NULL;
}

/* Returns true if all CPUs of the domain are of one core. */
static bool is_one_core(const struct allotment *allotment, const struct portion *portion)
{
	int32_t core = allotment->cpu[hwloc_bitmap_first(portion->cpus)].core;
	int cpu;

	hwloc_bitmap_foreach_begin(cpu, portion->cpus)
	{
		if (allotment->cpu[cpu].core != core)
			return false;
	}
	hwloc_bitmap_foreach_end();
	return true;
}

/* Returns the task that owns the domain, or a negative value: plan_owners gives all CPUs of a domain the same owner. */
static int32_t portion_owner(const struct allotment *allotment, const struct portion *portion)
{
	return allotment->cpu[hwloc_bitmap_first(portion->cpus)].owner;
}

/*
 * Returns why a domain is not granted to its owner, or NULL if it may be. Who else runs on the domain's CPUs is checked
 * for each request (call_lower in grant.c). *ret_limited: something holds the domain's clock below the hardware's most.
 */
static const char *refusal_of(const struct allotment *allotment, const struct portion *portion,
                              struct domain_use *ret_use, bool *ret_limited)
{
	const struct allotment_rules *rules = allotment->rules;
	cleanup_close int directory = cpufreq_open_policy(CPUFREQ_SYSFS, portion->loan.policy);
	const char *why = portion->why[0] ? portion->why : owner_why(portion_owner(allotment, portion));
	struct domain domain;

	if (why)
		return why;
	if (directory < 0 || !domain_read(directory, &domain))
		return "cpufreq files make no sense";
	*ret_limited |= domain.max_khz < domain.info_max_khz;
	why = domain_decide(&domain, &rules->domain, ret_use);
	if (why)
		return why;
	if (neighbours_ask(allotment->neighbours, portion->cpus))
		return "another job has the core";
	/* each request is checked against the threads of the asking process only, not against other ranks */
	if (rules->has_launcher && !is_one_core(allotment, portion))
		return "ranks of one task share the frequency domain";
	return NULL;
}

/* Gives a domain back, and notes why it is not granted, unless a reason is noted. */
static void portion_refuse(struct portion *portion, const char *why, struct error *error)
{
	if (!portion->why[0])
		snprintf(portion->why, sizeof(portion->why), "%s", why);
	loan_end(&portion->loan, error);
}

/*
 * Reads all domains and notes why some are refused. Returns true if a cooling device is active: only a domain below the
 * hardware's most may show that. After each domain was read once, one look at the cooling devices does for all:
 * loan_change refuses a value that has changed since.
 */
static bool portions_judge(struct allotment *allotment)
{
	bool is_limited = false;

	for (size_t i = 0; i < allotment->portion_count; i++) {
		struct portion *portion = &allotment->portion[i];
		const char *refusal = refusal_of(allotment, portion, &portion->use, &is_limited);

		if (refusal && !portion->why[0])
			snprintf(portion->why, sizeof(portion->why), "%s", refusal);
	}
	return is_limited && cpufreq_is_cooled(CPUFREQ_SYSFS);
}

/* Grants a domain to its owner, or gives it back. */
static void portion_grant(struct allotment *allotment, struct portion *portion, bool is_cooled, struct error *error)
{
	const struct allotment_rules *rules = allotment->rules;
	const struct cpufreq_owner user = {.uid = rules->uid, .gid = rules->gid, .mode = 0644};
	const char *refusal = portion->why[0] ? portion->why : NULL;
	struct error why = {""};
	int rc = 0;

	if (!refusal) {
		rc = loan_change(&portion->loan, &portion->use, rules->domain.grant == SITE_GRANT_FILE ? &user : NULL,
		                 is_cooled, &why);
		if (rc < 0)
			refusal = portion->loan.hold.changes ? "the kernel refused" : reason_of(rc);
		/* slurmstepd prints an error for the step's user too: not of caps, nor of steps that overlap */
		if (rc != -ESTALE && rc != -EAGAIN)
			error_move(error, &why);
	}
	if (refusal)
		portion_refuse(portion, refusal, error);
	else
		portion->task = portion_owner(allotment, portion);
}

/* Returns why a CPU is not granted; "": it is. */
static const char *why_not(const struct allotment *allotment, unsigned cpu)
{
	const char *why = allotment->none ? allotment->none : owner_why(allotment->cpu[cpu].owner);

	if (why)
		return why;
	for (size_t i = 0; i < allotment->portion_count; i++)
		if (hwloc_bitmap_isset(allotment->portion[i].cpus, cpu))
			return allotment->portion[i].why;
	return "no memory";
}

/* Counts a core of the step in the record. It is granted if all of its CPUs are. */
static void core_count(struct allotment *allotment, int32_t core)
{
	struct record_grant one = {.mode = "any", .refusal = {{.cores = 1}}}; /* grant_to_json sets the mode */
	bool is_there = false;

	for (unsigned i = 0; i < allotment->cpu_count && !one.refusal[0].why[0]; i++) {
		if (allotment->cpu[i].core != core)
			continue;
		is_there = true;
		snprintf(one.refusal[0].why, sizeof(one.refusal[0].why), "%s", why_not(allotment, i));
	}
	one.refusals = one.refusal[0].why[0] != '\0';
	one.cores = !one.refusals;
	if (is_there)
		record_grant_add(&allotment->record, &one);
}

int allotment_grant(struct allotment *allotment, struct error *error)
{
	bool is_cooled = false;
	int rc = 0;

	if (!allotment->none && allotment->is_doubtful)
		allotment->none = "Slurm's cores and the tasks' affinity disagree";
	else if (!allotment->none && allotment->rules->shared)
		allotment->none = "Slurm may give the core to two jobs";
	else if (!allotment->none && !neighbours_are_seen(allotment->neighbours))
		allotment->none = "other jobs are not seen from this PID namespace";
	if (!allotment->none) {
		rc = plan_owners(allotment->cpu, allotment->cpu_count);
		neighbours_meet(allotment->neighbours, allotment->step_cpus);
		is_cooled = rc == 0 && portions_judge(allotment);
	}
	for (size_t i = 0; i < allotment->portion_count; i++)
		if (allotment->none || rc < 0)
			portion_refuse(&allotment->portion[i], "", error);
		else
			portion_grant(allotment, &allotment->portion[i], is_cooled, error);
	if (rc < 0)
		return error_set(error, rc, "no grant: no memory");
	for (uint32_t core = 0; core < allotment->core_count; core++)
		core_count(allotment, (int32_t)core);
	return 0;
}

void allotment_end(struct allotment *allotment, struct error *error)
{
	for (size_t i = 0; i < allotment->portion_count; i++) {
		loan_end(&allotment->portion[i].loan, error);
		hwloc_bitmap_free(allotment->portion[i].cpus);
	}
	neighbours_end(allotment->neighbours);
	hwloc_bitmap_free(allotment->step_cpus);
	free(allotment->portion);
	free(allotment->cpu);
	*allotment = (struct allotment){.cpu_count = 0};
}
