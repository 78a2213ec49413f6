/* The broker's callbacks, which check who asks and change frequencies, and the orders that slurmstepd gives. */
#include "spank/cpufreq/grant.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/cpufreq/broker.h"
#include "spank/machine/asker.h"

#define TASKS_MAX 1024             /* local tasks that may have a grant */
#define BEGIN_NS  (10 * SECOND_NS) /* longest wait until the thread has decided */

struct task {
	pid_t pid; /* 0: not forked yet */
	bool ended;
};

/* GATHERS: tasks are still missing. BEGINS: the thread is to decide. BEGUN: it has decided. */
enum { GATHERS, BEGINS, BEGUN };

struct grant {
	struct grant_config config;
	struct allotment allotment; /* the broker's thread's, from the thread's start to its end */
	struct task *task;
	uint32_t tasks_seen;
	bool *granted; /* by local task: it has a domain; on a page that the tasks share */
	struct broker *broker;
	struct error problem;   /* the message of the latest order */
	int begun;              /* GATHERS, BEGINS or BEGUN; negative: an errno, nothing is granted */
	bool ends;              /* the step ends */
	uint64_t patience_ns;   /* how long slurmstepd still waits for the thread, in all */
	hwloc_bitmap_t core;    /* CPUs of the core that is asked for */
	hwloc_bitmap_t domains; /* CPUs that share that core's frequency */
	uint64_t transitions;   /* changes of frequency in all domains, both ways */
	uint64_t low_ns;        /* time for which domains were low, summed */
};

static int make_tasks(struct grant *grant, struct error *error)
{
	void *page = mmap(NULL, TASKS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	grant->granted = page == MAP_FAILED ? NULL : page;
	grant->task = calloc(grant->config.local_tasks, sizeof(grant->task[0]));
	grant->core = hwloc_bitmap_alloc();
	grant->domains = hwloc_bitmap_alloc();
	if (!grant->granted || !grant->task || !grant->core || !grant->domains)
		return error_set(error, -ENOMEM, "no grant: no memory");
	return 0;
}

/*
 * Sets a domain's frequency. Returns false, and gives the domain up, on failure: loan_end restores it, unless another
 * step has taken it and restored it.
 */
static bool portion_set(struct grant *grant, struct portion *portion, bool low, uint64_t now_ns)
{
	const struct domain_use *use = &portion->loan.hold.change.use;

	portion->is_over = loan_set(&portion->loan, low ? use->low_khz : use->high_khz) < 0;
	if (portion->is_low)
		__atomic_fetch_add(&grant->low_ns, now_ns - portion->since_ns, __ATOMIC_RELAXED);
	portion->is_low = low && !portion->is_over;
	portion->since_ns = now_ns;
	if (!low || portion->is_low) {
		portion->changes++;
		__atomic_fetch_add(&grant->transitions, 1, __ATOMIC_RELAXED);
	}
	return !portion->is_over;
}

/* Restores a domain that is low. Returns false if the domain is no longer this step's. */
static bool portion_restore(struct grant *grant, struct portion *portion, uint64_t now_ns)
{
	return portion->is_low ? portion_set(grant, portion, false, now_ns) : !portion->is_over;
}

/*
 * Lowers a domain, or goes on keeping it low, for MPIWAIT_LEASE_HOLD_NS. Returns false if the domain is no longer this
 * step's.
 */
static bool portion_lower(struct grant *grant, struct portion *portion, uint64_t now_ns)
{
	if (portion->is_over)
		return false;
	portion->until_ns = now_ns + MPIWAIT_LEASE_HOLD_NS;
	/* loan_holds: a low domain may have been taken by another step */
	return (portion->is_low && loan_holds(&portion->loan)) || portion_set(grant, portion, true, now_ns);
}

/* Returns the next granted domain after `before` that has a CPU of the core; NULL: no more. */
static struct portion *portion_next(struct grant *grant, struct portion *before)
{
	struct portion *end = grant->allotment.portion + grant->allotment.portion_count;

	for (struct portion *at = before ? before + 1 : grant->allotment.portion; at < end; at++)
		if (at->task >= 0 && hwloc_bitmap_intersects(at->cpus, grant->core))
			return at;
	return NULL;
}

/* Finds a CPU's core and its domains. Returns the task that has the whole core granted; -1: none has. */
static int32_t core_find(struct grant *grant, uint32_t cpu)
{
	const struct allotment *allotment = &grant->allotment;

	hwloc_bitmap_zero(grant->core);
	hwloc_bitmap_zero(grant->domains);
	if (cpu >= allotment->cpu_count || allotment->cpu[cpu].owner < 0)
		return -1;
	for (unsigned i = 0; i < allotment->cpu_count; i++)
		if (allotment->cpu[i].core == allotment->cpu[cpu].core)
			hwloc_bitmap_set(grant->core, i);
	for (struct portion *at = NULL; (at = portion_next(grant, at));)
		hwloc_bitmap_or(grant->domains, grant->domains, at->cpus);
	return hwloc_bitmap_isincluded(grant->core, grant->domains) ? allotment->cpu[cpu].owner : -1;
}

/* Returns how often the frequency of the core's domains was changed so far. */
static uint32_t core_changes(struct grant *grant)
{
	uint32_t changes = 0;

	for (struct portion *at = NULL; (at = portion_next(grant, at));)
		changes += at->changes;
	return changes;
}

/* Returns true if another living process of the task has lowered the core last. */
static bool core_is_busy(struct grant *grant, pid_t process, pid_t task)
{
	for (struct portion *at = NULL; (at = portion_next(grant, at));)
		if (at->process && at->process != process && asker_is_of_task(at->process, task))
			return true;
	return false;
}

/* Restores all domains of the core. Returns DONE, or OVER if one of them is no longer this step's. */
static enum mpiwait_lease_answer core_restore(struct grant *grant)
{
	enum mpiwait_lease_answer answer = MPIWAIT_LEASE_DONE;
	uint64_t now_ns = clock_monotonic_ns();

	for (struct portion *at = NULL; (at = portion_next(grant, at));)
		if (!portion_restore(grant, at, now_ns))
			answer = MPIWAIT_LEASE_OVER;
	return answer;
}

/* Lowers all domains of the core, or none. */
static enum mpiwait_lease_answer core_lower(struct grant *grant, pid_t thread, pid_t process)
{
	bool own = asker_has_core(process, thread, grant->core, grant->domains) &&
	           !neighbours_ask(grant->allotment.neighbours, grant->domains);
	bool done = own;
	uint64_t now_ns = clock_monotonic_ns();

	for (struct portion *at = NULL; done && (at = portion_next(grant, at));) {
		at->process = process;
		done = portion_lower(grant, at, now_ns);
	}
	if (!done)
		core_restore(grant);
	return done ? MPIWAIT_LEASE_DONE : own ? MPIWAIT_LEASE_OVER : MPIWAIT_LEASE_NOT_NOW;
}

/*
 * Lowers the CPU's core if it is granted to the thread's task, and no other living process of that task has lowered it
 * last.
 */
static enum mpiwait_lease_answer call_lower(void *context, uint32_t cpu, pid_t thread, uint32_t *ret_changes)
{
	struct grant *grant = context;
	int32_t task = core_find(grant, cpu);
	pid_t process = task < 0 ? 0 : asker_process(thread, grant->config.rules.uid);
	enum mpiwait_lease_answer answer;

	if (process == 0 || !asker_is_of_task(process, grant->task[task].pid))
		return MPIWAIT_LEASE_NOT_YOURS;
	answer = core_is_busy(grant, process, grant->task[task].pid) ? MPIWAIT_LEASE_BUSY
	                                                             : core_lower(grant, thread, process);
	*ret_changes = core_changes(grant);
	return answer;
}

/* Restores the CPU's core if it is granted to a task. Does not ask which thread wants that: it harms nobody. */
static enum mpiwait_lease_answer call_restore(void *context, uint32_t cpu, uint32_t *ret_changes)
{
	struct grant *grant = context;
	enum mpiwait_lease_answer answer;

	if (core_find(grant, cpu) < 0)
		return MPIWAIT_LEASE_NOT_YOURS;
	answer = core_restore(grant);
	*ret_changes = core_changes(grant);
	return answer;
}

/* Restores the domains that no rank has asked for in time. Returns when the next low one expires. */
static uint64_t call_expire(void *context, uint64_t now_ns)
{
	struct grant *grant = context;
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < grant->allotment.portion_count; i++) {
		struct portion *portion = &grant->allotment.portion[i];

		if (portion->is_low && now_ns >= portion->until_ns)
			portion_restore(grant, portion, now_ns);
		else if (portion->is_low && portion->until_ns < next_ns)
			next_ns = portion->until_ns;
	}
	return next_ns;
}

/* Decides what is granted, and notes on the tasks' page which of them have a domain. */
static void begin(struct grant *grant)
{
	const struct allotment *allotment = &grant->allotment;
	int rc = allotment_grant(&grant->allotment, &grant->problem);

	for (size_t i = 0; i < allotment->portion_count && rc == 0; i++)
		if (allotment->portion[i].task >= 0)
			grant->granted[allotment->portion[i].task] = true;
	__atomic_store_n(&grant->begun, rc < 0 ? rc : BEGUN, __ATOMIC_RELEASE);
}

/* Decides, if all tasks are there; gives back the domains of tasks that have ended, or all when the step ends. */
static bool call_obey(void *context)
{
	struct grant *grant = context;

	if (grant->begun == BEGINS)
		begin(grant);
	for (size_t i = 0; i < grant->allotment.portion_count; i++) {
		struct portion *portion = &grant->allotment.portion[i];

		if (portion->task < 0 || !__atomic_load_n(&grant->task[portion->task].ended, __ATOMIC_ACQUIRE))
			continue;
		portion_restore(grant, portion, clock_monotonic_ns());
		portion->is_over = true;
		loan_end(&portion->loan, &grant->problem);
	}
	if (!__atomic_load_n(&grant->ends, __ATOMIC_ACQUIRE))
		return true;
	allotment_end(&grant->allotment, &grant->problem);
	return false;
}

/* Has the thread obey. Returns 0, or -ETIMEDOUT; later calls then wait for less, or not at all. */
static int order(struct grant *grant, uint64_t most_ns, struct error *error)
{
	uint64_t before_ns = clock_monotonic_ns(), took_ns;

	if (broker_order(grant->broker, most_ns)) {
		error_move(error, &grant->problem);
		return 0;
	}
	took_ns = clock_monotonic_ns() - before_ns;
	grant->patience_ns -= took_ns < grant->patience_ns ? took_ns : grant->patience_ns;
	return error_set(error, -ETIMEDOUT, "the lease's thread does not answer; the epilog restores what it holds");
}

/* Starts the broker's thread, which has the allotment from here on. Returns 0 or -errno. */
static int serve(struct grant *grant, struct error *error)
{
	static const struct broker_calls calls = {call_lower, call_restore, call_expire, call_obey};
	cleanup_close int directory =
	        run_directory_open_job(&grant->config.rules.run_directory, grant->config.rules.job_id);
	struct broker_config config = {.calls = &calls,
	                               .context = grant,
	                               .cpus = grant->allotment.cpu_count,
	                               .segment = grant->config.segment,
	                               .directory = directory};

	return broker_start(&config, &grant->broker, error);
}

int grant_prepare(const struct grant_config *config, struct grant **ret_grant, struct error *error)
{
	struct grant *grant;
	int rc, taken = 0;

	if (config->local_tasks == 0 || config->local_tasks > TASKS_MAX || !config->topology)
		return error_set(error, -EINVAL, "no grant: %u tasks, or no topology", config->local_tasks);
	grant = calloc(1, sizeof(*grant));
	if (!grant)
		return error_set(error, -ENOMEM, "no grant: no memory");
	grant->config = *config;
	grant->patience_ns = SECOND_NS;
	rc = make_tasks(grant, error);
	if (rc == 0)
		rc = allotment_init(&grant->allotment, &grant->config.rules, config->topology, config->step_cores,
		                    error);
	if (rc == 0) {
		taken = allotment_take(&grant->allotment, error);
		rc = serve(grant, error);
	}
	if (rc < 0) {
		grant_end(grant);
		return rc;
	}
	*ret_grant = grant;
	return taken;
}

int grant_task(struct grant *grant, uint32_t local_task, pid_t pid, struct error *error)
{
	cleanup_bitmap hwloc_bitmap_t affinity = hwloc_bitmap_alloc();
	int rc = affinity ? topology_get_affinity(pid, affinity) : -ENOMEM;

	if (local_task >= grant->config.local_tasks || grant->task[local_task].pid)
		return error_set(error, -EINVAL, "no grant: task %u is not one of %u", local_task,
		                 grant->config.local_tasks);
	if (rc < 0)
		return error_set(error, rc, "no grant: affinity of task %u: %s", local_task, strerror(-rc));
	allotment_add_task(&grant->allotment, local_task, affinity);
	grant->task[local_task].pid = pid;
	if (++grant->tasks_seen < grant->config.local_tasks)
		return 0;
	__atomic_store_n(&grant->begun, BEGINS, __ATOMIC_RELEASE);
	rc = order(grant, BEGIN_NS, error);
	return rc < 0 ? rc : grant->begun < 0 ? grant->begun : 0;
}

/* The board's inherited descriptor has a number that no shell is known to use (spank/base/descriptor.h). */
void grant_describe(struct grant *grant, uint32_t local_task, char text[GRANT_TEXT_MAX])
{
	struct stat status;
	int kept;

	text[0] = '\0';
	if (!grant || local_task >= grant->config.local_tasks || !grant->granted[local_task])
		return;
	kept = inherit_descriptor(broker_board(grant->broker), INHERIT_FROM);
	if (kept < 0 || fstat(kept, &status) < 0)
		return;
	inherit_spare(kept);
	snprintf(text, GRANT_TEXT_MAX, ";cpufreq=lease:%d:%llu:%llu", kept, (unsigned long long)status.st_dev,
	         (unsigned long long)status.st_ino);
}

void grant_end_task(struct grant *grant, uint32_t local_task)
{
	struct error error = {""};

	if (local_task >= grant->config.local_tasks)
		return;
	__atomic_store_n(&grant->task[local_task].ended, true, __ATOMIC_RELEASE);
	if (grant->patience_ns > 0)
		order(grant, grant->patience_ns, &error);
	if (error.text[0])
		log_error("job %u: task %u: %s", grant->config.rules.job_id, local_task, error.text);
}

/* Returns false for an unused lease of a batch step: it holds every core for ranks of mpirun, which may never come. */
static bool is_worth_noting(const struct grant *grant, const struct record_grant *note)
{
	return !grant->config.rules.has_launcher || grant->config.rules.domain.grant != SITE_GRANT_LEASE ||
	       note->transitions > 0 || note->refusals > 0;
}

json_t *grant_to_json(struct grant *grant)
{
	static const char *const modes[] = {[SITE_GRANT_LEASE] = "lease", [SITE_GRANT_FILE] = "file"};
	struct record_grant note = {.cores = 0};

	if (!grant)
		return NULL;
	/* from BEGUN on only the two counters change */
	if (__atomic_load_n(&grant->begun, __ATOMIC_ACQUIRE) == BEGUN)
		note = grant->allotment.record;
	note.transitions = __atomic_load_n(&grant->transitions, __ATOMIC_RELAXED);
	note.low_us = __atomic_load_n(&grant->low_ns, __ATOMIC_RELAXED) / 1000;
	if (!is_worth_noting(grant, &note))
		return NULL;
	snprintf(note.mode, sizeof(note.mode), "%s", modes[grant->config.rules.domain.grant]);
	return record_grant_write(&note);
}

void grant_end(struct grant *grant)
{
	struct error error = {""};
	bool ended = true;

	if (!grant)
		return;
	__atomic_store_n(&grant->ends, true, __ATOMIC_RELEASE);
	if (grant->broker) {
		order(grant, grant->patience_ns, &error);
		ended = broker_end(grant->broker, grant->patience_ns);
	} else {
		allotment_end(&grant->allotment, &error);
	}
	if (error.text[0])
		log_error("job %u: %s", grant->config.rules.job_id, error.text);
	if (!ended)
		return;
	if (grant->granted)
		munmap(grant->granted, TASKS_MAX);
	hwloc_bitmap_free(grant->core);
	hwloc_bitmap_free(grant->domains);
	free(grant->task);
	free(grant);
}
