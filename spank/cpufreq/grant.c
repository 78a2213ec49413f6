/*
 * Who may say what, served. Everything but the page for the tasks, the orders and what was noted of the grant belongs
 * to the broker's thread from its start to its end.
 */
#include "spank/cpufreq/grant.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "spank/base/descriptor.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/cpufreq/board.h"
#include "spank/cpufreq/broker.h"
#include "spank/machine/asker.h"
#include "spank/machine/neighbours.h"

#define TASKS_MAX 1024
#define BEGIN_NS  (10 * SECOND_NS)

/* What a task's child reads on the shared page. */
struct shared {
	bool granted;
	struct domain_use use;
};

struct task {
	pid_t pid; /* 0: not forked yet */
	bool ended;
	bool released;
};

struct grant {
	struct grant_config config;
	struct allotment allotment;
	struct task *task;
	uint32_t tasks_seen;
	struct shared *shared; /* by local task */
	struct board board;
	struct broker *broker;
	struct error problem; /* of the latest order */
	int begun;            /* 1: everything is known, and it is to begin; 2: it has; negative: why not */
	bool ends;            /* the step does */
	uint64_t patience_ns; /* how long the thread is still waited for */
	hwloc_bitmap_t core;  /* for the broker's calls */
	hwloc_bitmap_t domains;
	pthread_mutex_t mutex; /* of the note; nothing is waited for under it */
	struct record_grant note;
};

static size_t shared_size(const struct grant *grant)
{
	return grant->config.local_tasks * sizeof(struct shared);
}

static int make_tasks(struct grant *grant, struct error *error)
{
	uint32_t count = grant->config.local_tasks;
	void *page = mmap(NULL, shared_size(grant), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	grant->shared = page == MAP_FAILED ? NULL : page;
	grant->task = calloc(count, sizeof(grant->task[0]));
	grant->core = hwloc_bitmap_alloc();
	grant->domains = hwloc_bitmap_alloc();
	if (!grant->shared || !grant->task || !grant->core || !grant->domains)
		return error_set(error, -ENOMEM, "no grant: no memory");
	return 0;
}

/* A task whose domains differ in their limits is told of the first kind only. */
static void share_write(struct grant *grant)
{
	const struct holdings *holdings = &grant->allotment.holdings;

	for (size_t i = 0; i < holdings->count; i++) {
		const struct holding *holding = &holdings->item[i];

		if (holding->task >= 0 && !grant->shared[holding->task].granted)
			grant->shared[holding->task] =
			        (struct shared){.granted = true, .use = holding->loan.hold.change.use};
	}
}

static enum mpiwait_lease_answer answer_of(int rc)
{
	if (rc == -ENOENT)
		return MPIWAIT_LEASE_NOT_YOURS;
	return rc < 0 ? MPIWAIT_LEASE_OVER : MPIWAIT_LEASE_DONE;
}

/* Those that the core has a part in, one after another; NULL: no more. */
static struct holding *holding_next(struct grant *grant, struct holding *before)
{
	struct holdings *holdings = &grant->allotment.holdings;
	size_t next = before ? (size_t)(before - holdings->item) + 1 : 0;

	for (size_t i = next; i < holdings->count; i++)
		if (holdings->item[i].task >= 0 && hwloc_bitmap_intersects(holdings->item[i].cpus, grant->core))
			return &holdings->item[i];
	return NULL;
}

/* Whether another process of the task has the core, and lives. */
static bool is_busy(struct grant *grant, pid_t process, pid_t task)
{
	for (struct holding *at = NULL; (at = holding_next(grant, at));)
		if (at->process && at->process != process && asker_is_of_task(at->process, task))
			return true;
	return false;
}

static uint32_t changes_count(struct grant *grant)
{
	uint32_t changes = 0;

	for (struct holding *at = NULL; (at = holding_next(grant, at));)
		changes += at->changes;
	return changes;
}

static enum mpiwait_lease_answer lower(struct grant *grant, int32_t task, pid_t thread, pid_t process)
{
	struct holdings *holdings = &grant->allotment.holdings;
	bool own = asker_has_core(process, thread, grant->core, grant->domains) &&
	           !neighbours_have(grant->allotment.neighbours, grant->domains);
	uint64_t now_ns = clock_monotonic_ns();

	if (!own) {
		holdings_restore(holdings, task, grant->core, now_ns);
		return MPIWAIT_LEASE_NOT_NOW;
	}
	for (struct holding *at = NULL; (at = holding_next(grant, at));)
		at->process = process;
	return answer_of(holdings_lower(holdings, task, grant->core, now_ns, now_ns + MPIWAIT_LEASE_HOLD_NS));
}

static enum mpiwait_lease_answer call_lower(void *context, uint32_t cpu, pid_t thread, uint32_t *ret_changes)
{
	struct grant *grant = context;
	int32_t task = allotment_find_core(&grant->allotment, cpu, grant->core, grant->domains);
	pid_t process = task < 0 ? 0 : asker_process(thread, grant->config.rules.uid);
	enum mpiwait_lease_answer answer;

	if (process == 0 || !asker_is_of_task(process, grant->task[task].pid))
		return MPIWAIT_LEASE_NOT_YOURS;
	answer = is_busy(grant, process, grant->task[task].pid) ? MPIWAIT_LEASE_BUSY
	                                                        : lower(grant, task, thread, process);
	*ret_changes = changes_count(grant);
	return answer;
}

static enum mpiwait_lease_answer call_restore(void *context, uint32_t cpu, uint32_t *ret_changes)
{
	struct grant *grant = context;
	struct holdings *holdings = &grant->allotment.holdings;
	int32_t task = allotment_find_core(&grant->allotment, cpu, grant->core, grant->domains);
	enum mpiwait_lease_answer answer;

	if (task < 0)
		return MPIWAIT_LEASE_NOT_YOURS;
	answer = answer_of(holdings_restore(holdings, task, grant->core, clock_monotonic_ns()));
	*ret_changes = changes_count(grant);
	return answer;
}

static uint64_t call_expire(void *context, uint64_t now_ns)
{
	struct grant *grant = context;

	return holdings_expire(&grant->allotment.holdings, now_ns);
}

static void note_write(struct grant *grant)
{
	struct record_grant note = grant->allotment.record;

	note.transitions = grant->allotment.holdings.transitions;
	note.low_us = grant->allotment.holdings.low_ns / 1000;
	pthread_mutex_lock(&grant->mutex);
	grant->note = note;
	pthread_mutex_unlock(&grant->mutex);
}

static void begin(struct grant *grant)
{
	int rc = allotment_grant(&grant->allotment, &grant->config.rules, &grant->problem);

	if (rc == 0)
		share_write(grant);
	grant->begun = rc < 0 ? rc : 2;
}

static void release(struct grant *grant, uint32_t task)
{
	holdings_release(&grant->allotment.holdings, (int32_t)task, clock_monotonic_ns(), &grant->problem);
	grant->task[task].released = true;
}

static bool call_obey(void *context)
{
	struct grant *grant = context;

	if (grant->begun == 1)
		begin(grant);
	for (uint32_t i = 0; i < grant->config.local_tasks; i++)
		if (__atomic_load_n(&grant->task[i].ended, __ATOMIC_ACQUIRE) && !grant->task[i].released)
			release(grant, i);
	note_write(grant);
	if (!__atomic_load_n(&grant->ends, __ATOMIC_ACQUIRE))
		return true;
	allotment_end(&grant->allotment, &grant->problem);
	return false;
}

/* Returns 0, or -ETIMEDOUT: the thread does not obey, and is waited for no more. */
static int order(struct grant *grant, uint64_t most_ns, struct error *error)
{
	uint64_t before_ns = clock_monotonic_ns(), took_ns;

	if (broker_order(grant->broker, most_ns)) {
		error_move(error, &grant->problem);
		return 0;
	}
	took_ns = clock_monotonic_ns() - before_ns;
	grant->patience_ns -= took_ns < grant->patience_ns ? took_ns : grant->patience_ns;
	return error_set(error, -ETIMEDOUT, "the lease's thread does not answer; what it holds is left to the epilog");
}

static int serve(struct grant *grant, struct error *error)
{
	static const struct broker_calls calls = {call_lower, call_restore, call_expire, call_obey};
	bool hears = grant->config.rules.domain.grant == SITE_GRANT_LEASE;
	struct broker_config config = {.calls = &calls,
	                               .context = grant,
	                               .board = &grant->board,
	                               .segment = hears ? grant->config.segment : -1};
	int rc = board_create((uint32_t)grant->allotment.cpu_count, &grant->board, error);

	return rc < 0 ? rc : broker_start(&config, &grant->broker, error);
}

int grant_prepare(const struct grant_config *config, struct grant **ret_grant, struct error *error)
{
	struct grant *grant;
	int rc;

	if (config->local_tasks == 0 || config->local_tasks > TASKS_MAX || !config->topology)
		return error_set(error, -EINVAL, "no grant: %u tasks, or no topology", config->local_tasks);
	grant = calloc(1, sizeof(*grant));
	if (!grant)
		return error_set(error, -ENOMEM, "no grant: no memory");
	pthread_mutex_init(&grant->mutex, NULL);
	grant->config = *config;
	grant->board = BOARD_NONE;
	grant->patience_ns = SECOND_NS;
	rc = make_tasks(grant, error);
	if (rc == 0)
		rc = allotment_init(&grant->allotment, config->topology, config->rules.job_id, config->step_cores,
		                    error);
	if (rc < 0) {
		grant_end(grant);
		return rc;
	}
	*ret_grant = grant;
	rc = allotment_take(&grant->allotment, &config->rules, error);
	if (serve(grant, error) == 0)
		return rc;
	*ret_grant = NULL;
	grant_end(grant);
	return -EAGAIN;
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
	grant->begun = 1;
	rc = order(grant, BEGIN_NS, error);
	return rc < 0 ? rc : grant->begun < 0 ? grant->begun : 0;
}

/* Kept across exec, high enough that no shell uses it by number. */
static void describe_lease(const struct board *board, char text[GRANT_TEXT_MAX])
{
	int kept = inherit_descriptor(board->descriptor, INHERIT_FROM);

	if (kept >= 0)
		snprintf(text, GRANT_TEXT_MAX, ";cpufreq=lease:%d:%llu:%llu", kept, (unsigned long long)board->device,
		         (unsigned long long)board->inode);
}

void grant_describe(struct grant *grant, uint32_t local_task, char text[GRANT_TEXT_MAX])
{
	const struct shared *shared;

	text[0] = '\0';
	if (!grant || local_task >= grant->config.local_tasks || !grant->shared[local_task].granted)
		return;
	shared = &grant->shared[local_task];
	if (grant->config.rules.domain.grant == SITE_GRANT_LEASE)
		describe_lease(&grant->board, text);
	else
		snprintf(text, GRANT_TEXT_MAX, ";cpufreq=file:%s:%u:%u", cpufreq_file_name(shared->use.file),
		         shared->use.low_khz, shared->use.high_khz);
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

/* A batch step has the lease of every core, for ranks of mpirun that may never come. */
static bool is_worth_noting(const struct grant *grant, const struct record_grant *note)
{
	return !grant->config.rules.has_launcher || grant->config.rules.domain.grant != SITE_GRANT_LEASE ||
	       note->transitions > 0 || note->refusals > 0;
}

json_t *grant_to_json(struct grant *grant)
{
	static const char *const modes[] = {[SITE_GRANT_LEASE] = "lease", [SITE_GRANT_FILE] = "file"};
	struct record_grant note;

	if (!grant)
		return NULL;
	pthread_mutex_lock(&grant->mutex);
	note = grant->note;
	pthread_mutex_unlock(&grant->mutex);
	if (!is_worth_noting(grant, &note))
		return NULL;
	snprintf(note.mode, sizeof(note.mode), "%s", modes[grant->config.rules.domain.grant]);
	return record_grant_write(&note);
}

static void grant_free(struct grant *grant)
{
	board_end(&grant->board);
	if (grant->shared)
		munmap(grant->shared, shared_size(grant));
	hwloc_bitmap_free(grant->core);
	hwloc_bitmap_free(grant->domains);
	free(grant->task);
	pthread_mutex_destroy(&grant->mutex);
	free(grant);
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
	if (ended)
		grant_free(grant);
}
