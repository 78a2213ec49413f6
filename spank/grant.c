/*
 * Who may say what, served. What stands between the threads is one mutex: slurmstepd's own thread comes for the tasks'
 * beginnings and ends, the broker's for their waits.
 */
#include "spank/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "spank/broker.h"
#include "spank/cleanup.h"
#include "spank/files.h"
#include "spank/inherit.h"
#include "spank/log.h"
#include "spank/sender.h"

#define TASKS_MAX 1024

/* What a task's child reads on the shared page. */
struct shared {
	bool granted;
	uint32_t policy; /* with grant=fd, the one, and a CPU of it */
	uint32_t cpu;
	struct domain_use use;
};

struct task {
	pid_t pid; /* 0: not forked yet */
	int broker_end;
	int task_end;
};

struct grant {
	struct grant_config config;
	pthread_mutex_t mutex;
	struct allotment allotment;
	struct task *task;
	uint32_t tasks_seen;
	struct shared *shared; /* by local task */
	struct broker *broker;
	hwloc_bitmap_t core; /* for the broker's calls */
	hwloc_bitmap_t domains;
	int *opened; /* with grant=fd, in the task's child: descriptors by policy, -1: none */
};

static int pair_make(struct task *task)
{
	int ends[2], on = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -errno;
	task->broker_end = ends[0];
	task->task_end = ends[1];
	return setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ? -errno : 0;
}

static size_t shared_size(const struct grant *grant)
{
	return grant->config.local_tasks * sizeof(struct shared);
}

/* The pairs are not to make slurmstepd short of descriptors for the tasks' own pipes. */
static bool has_room(uint32_t tasks)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && tasks <= limit.rlim_cur / 8;
}

static int make_tasks(struct grant *grant, struct error *error)
{
	uint32_t count = grant->config.local_tasks;
	void *page = mmap(NULL, shared_size(grant), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool pairs = grant->config.rules.domain.grant == SITE_GRANT_LEASE;
	int rc = pairs && !has_room(count) ? -EMFILE : 0;

	grant->shared = page == MAP_FAILED ? NULL : page;
	grant->task = calloc(count, sizeof(grant->task[0]));
	grant->core = hwloc_bitmap_alloc();
	grant->domains = hwloc_bitmap_alloc();
	if (!grant->shared || !grant->task || !grant->core || !grant->domains)
		return error_set(error, -ENOMEM, "no grant: no memory");
	for (uint32_t i = 0; i < count; i++)
		grant->task[i] = (struct task){.broker_end = -1, .task_end = -1};
	for (uint32_t i = 0; i < count && rc == 0 && pairs; i++)
		rc = pair_make(&grant->task[i]);
	return rc < 0 ? error_set(error, rc, "no grant: no socket pairs for %u tasks: %s", count, strerror(-rc)) : 0;
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
	rc = make_tasks(grant, error);
	if (rc == 0)
		rc = allotment_init(&grant->allotment, config->topology, config->rules.job_id, config->step_cores,
		                    error);
	if (rc < 0) {
		grant_end(grant);
		return rc;
	}
	*ret_grant = grant;
	return allotment_take(&grant->allotment, &config->rules, error);
}

/* A task whose domains differ in their limits is told of the first kind only. */
static void share_write(struct grant *grant)
{
	const struct holdings *holdings = &grant->allotment.holdings;

	for (size_t i = 0; i < holdings->count; i++) {
		const struct holding *holding = &holdings->item[i];
		struct shared *shared = &grant->shared[holding->task];

		if (!shared->granted)
			*shared = (struct shared){.granted = true,
			                          .policy = holding->policy,
			                          .cpu = (uint32_t)hwloc_bitmap_first(holding->cpus),
			                          .use = holding->use};
	}
}

static enum mpiwait_lease_answer answer_of(int rc)
{
	if (rc == -ENOENT)
		return MPIWAIT_LEASE_NOT_YOURS;
	return rc < 0 ? MPIWAIT_LEASE_OVER : MPIWAIT_LEASE_DONE;
}

static enum mpiwait_lease_answer call_lower(void *context, uint32_t task, pid_t process,
                                            const struct mpiwait_lease_request *request, uint32_t *ret_changes)
{
	struct grant *grant = context;
	struct holdings *holdings = &grant->allotment.holdings;
	enum mpiwait_lease_answer answer = MPIWAIT_LEASE_NOT_YOURS;
	uint64_t now_ns = clock_monotonic_ns(), before;

	pthread_mutex_lock(&grant->mutex);
	before = holdings->transitions;
	if (allotment_find_core(&grant->allotment, task, request->cpu, grant->core, grant->domains)) {
		if (sender_has_core(process, (pid_t)request->tid, grant->core, grant->domains) &&
		    !neighbours_have(grant->allotment.neighbours, grant->domains)) {
			answer = answer_of(
			        holdings_lower(holdings, task, grant->core, now_ns, now_ns + MPIWAIT_LEASE_HOLD_NS));
		} else {
			holdings_restore(holdings, task, grant->core, now_ns);
			answer = MPIWAIT_LEASE_NOT_NOW;
		}
	}
	*ret_changes = (uint32_t)(holdings->transitions - before);
	pthread_mutex_unlock(&grant->mutex);
	return answer;
}

static enum mpiwait_lease_answer call_restore(void *context, uint32_t task, const struct mpiwait_lease_request *request,
                                              uint32_t *ret_changes)
{
	struct grant *grant = context;
	struct holdings *holdings = &grant->allotment.holdings;
	enum mpiwait_lease_answer answer = MPIWAIT_LEASE_NOT_YOURS;
	uint64_t before;

	pthread_mutex_lock(&grant->mutex);
	before = holdings->transitions;
	if (allotment_find_core(&grant->allotment, task, request->cpu, grant->core, grant->domains))
		answer = answer_of(holdings_restore(holdings, task, grant->core, clock_monotonic_ns()));
	*ret_changes = (uint32_t)(holdings->transitions - before);
	pthread_mutex_unlock(&grant->mutex);
	return answer;
}

static void call_drop(void *context, uint32_t task)
{
	struct grant *grant = context;

	pthread_mutex_lock(&grant->mutex);
	holdings_release(&grant->allotment.holdings, task, clock_monotonic_ns(), NULL);
	pthread_mutex_unlock(&grant->mutex);
}

static uint64_t call_expire(void *context, uint64_t now_ns)
{
	struct grant *grant = context;
	uint64_t next_ns;

	pthread_mutex_lock(&grant->mutex);
	next_ns = holdings_expire(&grant->allotment.holdings, now_ns);
	pthread_mutex_unlock(&grant->mutex);
	return next_ns;
}

static int serve(struct grant *grant, struct error *error)
{
	static const struct broker_calls calls = {call_lower, call_restore, call_drop, call_expire};
	uint32_t count = grant->config.local_tasks;
	cleanup_free struct broker_lease *leases = calloc(count, sizeof(*leases));

	if (!leases)
		return error_set(error, -ENOMEM, "no lease: no memory");
	for (uint32_t i = 0; i < count; i++) {
		leases[i] = (struct broker_lease){.descriptor = take_descriptor(&grant->task[i].broker_end),
		                                  .task = grant->task[i].pid,
		                                  .uid = grant->config.rules.uid};
		if (grant->task[i].task_end >= 0)
			close(take_descriptor(&grant->task[i].task_end));
	}
	return broker_start(leases, count, &calls, grant, &grant->broker, error);
}

static int begin(struct grant *grant, struct error *error)
{
	int rc = allotment_claim(&grant->allotment, &grant->config.rules, error);

	if (rc == 0 && grant->allotment.holdings.count > 0 && grant->config.rules.domain.grant == SITE_GRANT_LEASE)
		rc = serve(grant, error);
	if (rc == 0)
		share_write(grant);
	return rc;
}

int grant_task(struct grant *grant, uint32_t local_task, pid_t pid, struct error *error)
{
	hwloc_bitmap_t affinity;
	int rc;

	if (local_task >= grant->config.local_tasks || grant->task[local_task].pid)
		return error_set(error, -EINVAL, "no grant: task %u is not one of %u", local_task,
		                 grant->config.local_tasks);
	affinity = hwloc_bitmap_alloc();
	rc = affinity ? topology_get_affinity(pid, affinity) : -ENOMEM;
	if (rc == 0)
		allotment_add_task(&grant->allotment, local_task, affinity);
	hwloc_bitmap_free(affinity);
	if (rc < 0)
		return error_set(error, rc, "no grant: affinity of task %u: %s", local_task, strerror(-rc));
	grant->task[local_task].pid = pid;
	if (++grant->tasks_seen < grant->config.local_tasks)
		return 0;
	pthread_mutex_lock(&grant->mutex);
	rc = begin(grant, error);
	pthread_mutex_unlock(&grant->mutex);
	return rc;
}

/* Kept across exec, high enough that no shell uses it by number. Returns the new descriptor or -1. */
static int keep(int descriptor, struct stat *ret_status)
{
	cleanup_close int kept = descriptor < 0 ? -1 : inherit_descriptor(descriptor, INHERIT_FROM);

	return kept >= 0 && fstat(kept, ret_status) == 0 ? take_descriptor(&kept) : -1;
}

static void describe_lease(int descriptor, char text[GRANT_TEXT_MAX])
{
	struct stat status;
	int kept = keep(descriptor, &status);

	if (kept >= 0)
		snprintf(text, GRANT_TEXT_MAX, ";cpufreq=lease:%d:%llu:%llu", kept, (unsigned long long)status.st_dev,
		         (unsigned long long)status.st_ino);
}

static void describe_descriptor(const struct shared *shared, int descriptor, char text[GRANT_TEXT_MAX])
{
	struct stat status;
	struct statfs system;
	int kept = fstatfs(descriptor, &system) == 0 ? keep(descriptor, &status) : -1;

	if (kept >= 0)
		snprintf(text, GRANT_TEXT_MAX, ";cpufreq=fd:%d:%llu:%llu:%llu:%u:%u:%u", kept,
		         (unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
		         (unsigned long long)system.f_type, shared->cpu, shared->use.low_khz, shared->use.high_khz);
}

void grant_describe(struct grant *grant, uint32_t local_task, char text[GRANT_TEXT_MAX])
{
	const struct shared *shared;

	text[0] = '\0';
	if (!grant || local_task >= grant->config.local_tasks || !grant->shared[local_task].granted)
		return;
	shared = &grant->shared[local_task];
	switch (grant->config.rules.domain.grant) {
	case SITE_GRANT_LEASE:
		describe_lease(grant->task[local_task].task_end, text);
		break;
	case SITE_GRANT_FD:
		if (grant->opened && shared->policy < grant->allotment.cpu_count)
			describe_descriptor(shared, grant->opened[shared->policy], text);
		break;
	case SITE_GRANT_FILE:
		snprintf(text, GRANT_TEXT_MAX, ";cpufreq=file:%s:%u:%u", cpufreq_file_name(shared->use.file),
		         shared->use.low_khz, shared->use.high_khz);
		break;
	case SITE_GRANT_OFF:
		break;
	}
}

void grant_open_files(struct grant *grant)
{
	size_t count = grant->allotment.cpu_count;
	cleanup_close int cpus = cpufreq_open_cpus(CPUFREQ_SYSFS);
	int *opened = cpus < 0 ? NULL : calloc(count + 1, sizeof(*opened));
	int cpu;

	for (size_t i = 0; opened && i < count; i++)
		opened[i] = -1;
	hwloc_bitmap_foreach_begin(cpu, grant->allotment.step_cpus)
	{
		int policy = opened ? cpufreq_policy_of(cpus, (uint32_t)cpu) : -1;
		cleanup_close int directory = policy < 0 ? -1 : cpufreq_open_policy(cpus, (uint32_t)policy);

		if (directory >= 0 && (size_t)policy < count && opened[policy] < 0)
			opened[policy] = cpufreq_open_file(directory, CPUFREQ_SETSPEED, O_RDWR);
	}
	hwloc_bitmap_foreach_end();
	grant->opened = opened;
}

void grant_end_task(struct grant *grant, uint32_t local_task)
{
	struct error error = {""};

	pthread_mutex_lock(&grant->mutex);
	holdings_release(&grant->allotment.holdings, local_task, clock_monotonic_ns(), &error);
	pthread_mutex_unlock(&grant->mutex);
	if (error.text[0])
		log_error("job %u: task %u: %s", grant->config.rules.job_id, local_task, error.text);
}

json_t *grant_to_json(struct grant *grant)
{
	static const char *const modes[] = {
	        [SITE_GRANT_LEASE] = "lease", [SITE_GRANT_FD] = "fd", [SITE_GRANT_FILE] = "file"};
	json_t *refused = json_object(), *json;

	if (!grant) {
		json_decref(refused);
		return NULL;
	}
	pthread_mutex_lock(&grant->mutex);
	for (size_t i = 0; i < grant->allotment.refusals; i++)
		json_object_set_new(refused, grant->allotment.refusal[i].why,
		                    json_integer(grant->allotment.refusal[i].cores));
	json = json_pack("{s:s, s:I, s:o, s:I, s:I}", "mode", modes[grant->config.rules.domain.grant], "cores",
	                 (json_int_t)grant->allotment.cores, "refused", refused, "transitions",
	                 (json_int_t)grant->allotment.holdings.transitions, "low_us",
	                 (json_int_t)(grant->allotment.holdings.low_ns / 1000));
	pthread_mutex_unlock(&grant->mutex);
	return json;
}

void grant_end(struct grant *grant)
{
	struct error error = {""};

	if (!grant)
		return;
	broker_stop(grant->broker);
	allotment_end(&grant->allotment, &error);
	if (error.text[0])
		log_error("job %u: %s", grant->config.rules.job_id, error.text);
	for (uint32_t i = 0; grant->task && i < grant->config.local_tasks; i++) {
		if (grant->task[i].broker_end >= 0)
			close(grant->task[i].broker_end);
		if (grant->task[i].task_end >= 0)
			close(grant->task[i].task_end);
	}
	if (grant->shared)
		munmap(grant->shared, shared_size(grant));
	hwloc_bitmap_free(grant->core);
	hwloc_bitmap_free(grant->domains);
	free(grant->opened);
	free(grant->task);
	pthread_mutex_destroy(&grant->mutex);
	free(grant);
}
