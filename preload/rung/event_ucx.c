/*
 * event: sleeps until UCX has something to do, at most for a given time. The library asks for wake-up support when
 * contexts are made, and for the descriptors of their workers. ucp_worker_arm before each sleep makes the sender
 * signal.
 *
 * Only a worker whose context has wake-up support, by us or by its own user, is asked for its descriptor: for any other
 * UCX prints an error.
 *
 * Invariant: the rung is used only if everything that a wait may wait for comes through UCX workers that can wake: Open
 * MPI with its pml ucx. (MPICH over UCX has its own shared memory, which wakes nobody.) A context is not asked for
 * wake-ups if that could cost it a transport: wake-up support deselects transports without it.
 */
#include "preload/rung/rung.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/mpi/next.h"
#include "preload/process/clock.h"
#include "preload/process/process.h"

#define EXPORT __attribute__((visibility("default")))

#define UCS_ERR_BUSY        (-15)
#define UCS_ERR_UNSUPPORTED (-22)
#define FIELD_FEATURES      1u
#define FEATURE_WAKEUP      (1u << 4)
#define UCX_MINOR_LEAST     10 /* 1.x; before it, shared memory does not wake */
#define WORKERS             8
#define SIGSET_BYTES        8

/* The known part of ucp_params_t: eight bytes for its mask and for each bit of the mask. */
#define PARAMS_FIELDS 10 /* fields up to UCX 1.20 */

/* Offsets in struct mca_base_component_t, the same in Open MPI 2 to 5. */
#define COMPONENT_TYPE 40
#define COMPONENT_NAME 84

typedef int init_function(unsigned, unsigned, const uint64_t *, const void *, void **);
typedef int create_function(void *, const void *, void **);
typedef void destroy_function(void *);

int ucp_init_version(unsigned major, unsigned minor, const uint64_t *params, const void *config, void **ret_context);
int ucp_worker_create(void *context, const void *params, void **ret_worker);
void ucp_worker_destroy(void *worker);

static struct worker {
	void *worker; /* NULL: a free entry */
	int descriptor;
} workers[WORKERS];

static void *contexts[WORKERS]; /* contexts with wake-up support; NULL: a free entry */

static bool mute; /* some worker cannot wake, or found no free entry */
static int (*arm)(void *worker);

static bool version_is_good(const void *caller)
{
	void (*get)(unsigned *, unsigned *, unsigned *) =
	        (void (*)(unsigned *, unsigned *, unsigned *))next_symbol_for("ucp_get_version", caller, "libucp");
	unsigned major = 0, minor = 0, release = 0;

	if (get)
		get(&major, &minor, &release);
	return major > 1 || (major == 1 && minor >= UCX_MINOR_LEAST);
}

/* Returns true if the user's choice of transports in that variable, if any, includes one that wakes. */
static bool transports_wake(const char *variable)
{
	static const char *const waking[] = {"all", "sm", "shm", "posix", "sysv"};
	const char *chosen = getenv(variable);

	if (!chosen || chosen[0] == '^')
		return true;
	for (size_t i = 0; i < sizeof(waking) / sizeof(waking[0]); i++)
		if (strstr(chosen, waking[i]))
			return true;
	return false;
}

/*
 * Returns true if wake-up support costs no transport. Transports of GPUs and EFA have none, and a user's choice of
 * transports may leave none that has.
 */
static bool wakeup_is_safe(void)
{
	static const char *const devices[] = {"/dev/nvidiactl", "/dev/kfd", "/sys/module/efa"};
	int saved = errno;
	bool safe = transports_wake("UCX_TLS") && transports_wake("MPI_UCX_TLS") && transports_wake("UCX_MPI_TLS");

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		safe = safe && access(devices[i], F_OK) != 0;
	errno = saved;
	return safe;
}

/*
 * Returns true if what that caller makes now is the MPI's, and the rung event is configured. A program's own worker may
 * be another thread's, who must not find it armed.
 */
static bool wakeup_is_wanted(const void *caller)
{
	return process.config.rungs & 1u << MPIWAIT_RUNG_EVENT && next_family() == MPIWAIT_FAMILY_OPENMPI &&
	       (process.starting || (process_mode() != PROCESS_INERT && next_is_of_openmpi(caller)));
}

/* Copies the caller's parameters, as many as the mask has, and adds the feature. */
static bool params_extend(const uint64_t *params, uint64_t ret_params[PARAMS_FIELDS + 1])
{
	if (!(params[0] & FIELD_FEATURES) || params[0] >> PARAMS_FIELDS != 0)
		return false;
	memcpy(ret_params, params, (size_t)(65 - __builtin_clzll(params[0])) * sizeof(*params));
	ret_params[1] |= FEATURE_WAKEUP;
	return true;
}

/* Notes if the context has wake-ups. Its address may be that of a former context. */
static void context_note(void *context, bool wakes)
{
	for (size_t i = 0; i < WORKERS; i++)
		if (contexts[i] == context)
			contexts[i] = NULL;
	for (size_t i = 0; i < WORKERS && wakes; i++)
		if (!contexts[i]) {
			contexts[i] = context;
			return;
		}
}

/* Returns true if the context was noted as one that has wake-up support. */
static bool context_wakes(const void *context)
{
	for (size_t i = 0; i < WORKERS; i++)
		if (contexts[i] == context)
			return true;
	return false;
}

static bool params_wake(const uint64_t *params)
{
	return params[0] & FIELD_FEATURES && params[1] & FEATURE_WAKEUP;
}

/* Replaces UCX's log and drops each message: 0 ends the list of handlers. */
static int log_drop(void)
{
	return 0;
}

/* Tries again after a try with wake-ups failed: the reason has been logged then. */
static int init_silently(init_function *init, const void *caller, unsigned major, unsigned minor,
                         const uint64_t *params, const void *config, void **ret_context)
{
	void (*push)(int (*)(void)) =
	        (void (*)(int (*)(void)))next_symbol_for("ucs_log_push_handler", caller, "libucp");
	void (*pop)(void) = (void (*)(void))next_symbol_for("ucs_log_pop_handler", caller, "libucp");
	int code;

	if (!push || !pop)
		return init(major, minor, params, config, ret_context);
	push(log_drop);
	code = init(major, minor, params, config, ret_context);
	pop();
	return code;
}

EXPORT int ucp_init_version(unsigned major, unsigned minor, const uint64_t *params, const void *config,
                            void **ret_context)
{
	const void *caller = __builtin_return_address(0);
	init_function *next = (init_function *)next_symbol_for("ucp_init_version", caller, "libucp");
	uint64_t extended[PARAMS_FIELDS + 1];
	bool asks;
	int code;

	if (!next)
		return UCS_ERR_UNSUPPORTED;
	asks = wakeup_is_wanted(caller) && version_is_good(caller) && wakeup_is_safe() &&
	       params_extend(params, extended);
	if (asks && next(major, minor, extended, config, ret_context) == 0) {
		context_note(*ret_context, true);
		return 0;
	}
	code = asks ? init_silently(next, caller, major, minor, params, config, ret_context)
	            : next(major, minor, params, config, ret_context);
	if (code == 0)
		context_note(*ret_context, params_wake(params));
	return code;
}

/*
 * Notes a worker and its descriptor. For a context without wake-up support newer releases succeed with -1, and print an
 * error when the worker is armed.
 */
static void worker_note(const void *context, void *worker, const void *caller)
{
	int (*get)(void *, int *) = (int (*)(void *, int *))next_symbol_for("ucp_worker_get_efd", caller, "libucp");
	int descriptor = -1;

	arm = (int (*)(void *))next_symbol_for("ucp_worker_arm", caller, "libucp");
	if (!context_wakes(context) || !get || !arm || get(worker, &descriptor) != 0 || descriptor < 0) {
		mute = true;
		return;
	}
	for (size_t i = 0; i < WORKERS; i++)
		if (!workers[i].worker) {
			workers[i] = (struct worker){worker, descriptor};
			return;
		}
	mute = true;
}

EXPORT int ucp_worker_create(void *context, const void *params, void **ret_worker)
{
	const void *caller = __builtin_return_address(0);
	create_function *next = (create_function *)next_symbol_for("ucp_worker_create", caller, "libucp");
	int code = next ? next(context, params, ret_worker) : UCS_ERR_UNSUPPORTED;

	if (code == 0 && wakeup_is_wanted(caller))
		worker_note(context, *ret_worker, caller);
	return code;
}

EXPORT void ucp_worker_destroy(void *worker)
{
	destroy_function *next =
	        (destroy_function *)next_symbol_for("ucp_worker_destroy", __builtin_return_address(0), "libucp");

	for (size_t i = 0; i < WORKERS; i++)
		if (workers[i].worker == worker)
			workers[i].worker = NULL;
	if (next)
		next(worker);
}

/* Returns true if all messages go through UCX, and nothing else moves them. */
static bool pml_is_ucx(void)
{
	const char *component = next_variable("mca_pml_base_selected_component");

	return component && strcmp(component + COMPONENT_TYPE, "pml") == 0 &&
	       strcmp(component + COMPONENT_NAME, "ucx") == 0;
}

bool rung_event_probe(const struct config *config)
{
	(void)config;
	for (size_t i = 0; i < WORKERS; i++)
		if (workers[i].worker)
			return !mute && next_family() == MPIWAIT_FAMILY_OPENMPI && pml_is_ucx();
	return false;
}

/* Arms the workers and collects their descriptors. Returns EVENT_NONE if all are armed. */
static enum event_end workers_arm(struct pollfd *polled, unsigned *ret_count)
{
	*ret_count = 0;
	if (mute)
		return EVENT_BROKEN;
	for (size_t i = 0; i < WORKERS; i++) {
		int code = workers[i].worker ? arm(workers[i].worker) : 0;

		if (code != 0)
			return code == UCS_ERR_BUSY ? EVENT_BUSY : EVENT_BROKEN;
		if (workers[i].worker)
			polled[(*ret_count)++] = (struct pollfd){workers[i].descriptor, POLLIN, 0};
	}
	return *ret_count > 0 ? EVENT_NONE : EVENT_BROKEN;
}

/* Polls by a raw system call: poll is a cancellation point. */
static long events_poll(struct pollfd *polled, unsigned count, uint64_t ask_ns)
{
	struct timespec ask = {(time_t)(ask_ns / NS_PER_S), (long)(ask_ns % NS_PER_S)};

	return syscall(SYS_ppoll, polled, count, &ask, NULL, SIGSET_BYTES);
}

/* Sleeps until an event. One that comes while the timeout is handled is a wake-up too. */
static enum event_end events_await(struct pollfd *polled, unsigned count, uint64_t ask_ns, struct slack *slack)
{
	long ready = events_poll(polled, count, slack_open(slack, ask_ns));

	slack_close(slack);
	if (ready == 0)
		ready = events_poll(polled, count, 0);
	if (ready < 0)
		return EVENT_SIGNAL;
	return ready > 0 ? EVENT_WOKEN : EVENT_TIMEOUT;
}

/*
 * Returns true if the message that the previous sleep missed made no signal. The workers stay armed between two sleeps,
 * and a signal stays readable until the next arming.
 */
static bool is_lost(void)
{
	struct pollfd polled[WORKERS];
	unsigned count = 0;

	for (size_t i = 0; i < WORKERS; i++)
		if (workers[i].worker)
			polled[count++] = (struct pollfd){workers[i].descriptor, POLLIN, 0};
	return events_poll(polled, count, 0) == 0;
}

void rung_event_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	struct pollfd polled[WORKERS];
	int saved = errno;
	unsigned count;

	thread->event = thread->event_missed && is_lost() ? EVENT_LOST : workers_arm(polled, &count);
	thread->event_missed = false;
	if (thread->event == EVENT_NONE)
		thread->event = events_await(polled, count, ask_ns, &thread->slack);
	errno = saved;
}
