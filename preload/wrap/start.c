/* Start and end of the library's work in a process. The invariant stands in start.h. */
#include "preload/wrap/start.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/idle/idle.h"
#include "preload/mpi/launcher.h"
#include "preload/mpi/names.h"
#include "preload/mpi/next.h"
#include "preload/mpi/query.h"
#include "preload/process/clock.h"
#include "preload/process/named.h"
#include "preload/process/notes.h"
#include "preload/process/phase.h"
#include "preload/process/process.h"
#include "preload/process/segment.h"
#include "preload/rung/rung.h"
#include "preload/wait/callsite.h"
#include "preload/wait/entry.h"
#include "preload/wait/presleep.h"
#include "preload/wait/wait.h"
#include "preload/wrap/csv.h"
#include "preload/wrap/prewait.h"
#include "preload/wrap/sizes.h"

static bool configured;
static bool started;
static pid_t loaded_by;
static bool preloaded;
static struct launcher launcher = {.rank = -1};

/* Not NULL if MPI is linked to the program: an MPI function that the library does not define itself. */
extern int PMPI_Initialized(int *) __attribute__((weak));

/*
 * Returns true if the processes that this one starts now get the library, by its path or by a descriptor (named.h). In
 * bash, getenv is bash's own, which knows bash's variables.
 */
static bool is_preloaded(void)
{
	const char *value = getenv("LD_PRELOAD");

	return value && (strstr(value, "libmpiwait") || (strstr(value, "/proc/") && strstr(value, "/fd/")));
}

/* Returns the base name of the process's executable, "" if it cannot be read. Keeps errno. */
static const char *program_name(char path[PATH_MAX])
{
	int saved = errno;
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	const char *slash;

	errno = saved;
	path[length > 0 ? length : 0] = '\0';
	slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Reads the configuration. Returns false if there is none, or none that this library understands. */
static bool config_load(void)
{
	const char *text = getenv(MPIWAIT_CONFIG_VARIABLE);
	char path[PATH_MAX];

	return text && config_parse(text, strchr(text, '|') ? program_name(path) : "", &process.config) == 0;
}

__attribute__((constructor)) static void process_load(void)
{
	bool understood = config_load();

	configured = understood && !process.config.off;
	loaded_by = getpid();
	preloaded = configured && is_preloaded();
	names_settle(configured);
	/* under "off" too: a program that this one starts may choose another policy */
	if (understood)
		named_settle(process.config.path);
	if (configured)
		csv_load();
	if (configured && PMPI_Initialized)
		next_resolve();
}

/*
 * Leaves MPI for a program that has not called MPI_Finalize. Notes an MPI that was initialised without us, as by
 * functions that the program looked up in the MPI library's own handle, and an LD_PRELOAD that lost the library.
 */
__attribute__((destructor)) static void process_unload(void)
{
	csv_rank_leaves();
	if (!configured || getpid() != loaded_by)
		return;
	if (!started && next_is_initialized())
		notes_add(&process.config, MPIWAIT_NOTE_UNREACHED);
	if (preloaded && !is_preloaded())
		notes_add(&process.config, MPIWAIT_NOTE_REPLACED);
}

/* Writes the handle of MPI_COMM_WORLD, by the ABI's constants. Returns false if it is not known. */
static bool world_get(uintptr_t *ret_world)
{
	switch (next_family()) {
	case MPIWAIT_FAMILY_OPENMPI:
		*ret_world = (uintptr_t)next_variable("ompi_mpi_comm_world");
		return true;
	case MPIWAIT_FAMILY_MPICH:
		*ret_world = 0x44000000;
		return true;
	case MPIWAIT_FAMILY_ABI:
		*ret_world = 0x101;
		return true;
	case MPIWAIT_FAMILY_UNKNOWN:
		break;
	}
	return false;
}

/*
 * Asks for rank and size. Called after Init only: with Sessions alone there is no MPI_COMM_WORLD, and asking for its
 * rank is an error.
 */
static void rank_find(struct mpiwait_slot *slot)
{
	int (*get_rank)(uintptr_t, int *) = (int (*)(uintptr_t, int *))next_symbol("PMPI_Comm_rank");
	int (*get_size)(uintptr_t, int *) = (int (*)(uintptr_t, int *))next_symbol("PMPI_Comm_size");
	uintptr_t world;
	int rank, size;

	if (!get_rank || !get_size || !world_get(&world))
		return;
	if (get_rank(world, &rank) == 0 && get_size(world, &size) == 0) {
		slot->rank = rank;
		slot->size = size;
	}
}

/*
 * Starts counting sizes. Ranks below another launcher inherit what srun told its task: a rank that is no task itself
 * does not know where its peers are.
 */
static void sizes_start(const struct mpiwait_slot *slot, struct mpiwait_sizes *sizes, bool has_world)
{
	uintptr_t world;

	sizes_prepare(sizes);
	if (process.config.task_pid == getpid() && has_world && slot->size > 0 && world_get(&world))
		sizes_locate(&process.config.near, world, slot->rank, slot->size);
}

/* Sets the policy of the process: what was configured, cut to the rungs that work here. */
static void policy_set(void)
{
	const struct config *config = &process.config;
	uint32_t rungs = rung_available(config), pstate = 1u << MPIWAIT_RUNG_PSTATE;

	process.pstate_after_ns = rungs & pstate ? config->pstate_after_ns : UINT64_MAX;
	if (config->rungs & pstate && !(rungs & pstate))
		process_flag(MPIWAIT_FLAG_NO_GRANT);
	process.policy = (struct ladder_policy){
	        .rungs = rungs & pstate ? (rungs & ~pstate) | 1u << MPIWAIT_RUNG_PAUSE : rungs,
	        .spin_ns = config->spin_ns,
	        .relative_ppm = config->relative_ppm,
	        .absolute_ns = config->absolute_ns,
	        .max_ns = config->max_ns,
	};
}

/*
 * Maps the forecasts. In the threads' own memory, glibc would take them out of their stacks. Unused pages cost nothing.
 */
static void forecasts_map(void)
{
	void *memory = mmap(NULL, MPIWAIT_LANES * sizeof(struct forecast), PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	process.forecasts = memory == MAP_FAILED ? NULL : memory;
}

/*
 * Returns true if a rank that polls keeps the core from the ranks that it waits for: on shared cores, with a runtime
 * that takes several polls in a row to know that it is idle. Elsewhere a poll that yields is cheap.
 */
static bool polls_crowd(void)
{
	return process.config.shared && process.silent;
}

/*
 * Returns true if the rank can keep an account. Ranks that do not know the job's ranks cannot look together. If polls
 * crowd, the waits of ranks that share a core depend on their turns (`tests/bench/run patterns`: steps half as long
 * again).
 */
static bool is_accountable(const struct mpiwait_slot *slot)
{
	return slot->size > 0 && !polls_crowd();
}

/* Starts forecasts and the account, if the job has one and the ranks can share its looks. */
static void forecasts_start(struct mpiwait_slot *slot)
{
	if (process.config.slowdown_ppm == 0 || process.policy.rungs == 0)
		return;
	if (!is_accountable(slot))
		return;
	forecasts_map();
	if (!process.forecasts)
		return;
	process.opened_ns = clock_now_ns();
	process.unhooked = process.hooks == 0;
	if (process.unhooked)
		return;
	if (process.silent)
		process.burst = WAIT_VAIN_POLLS;
	slot->slowdown_ppm = process.config.slowdown_ppm;
}

/* Widens the budget where ranks share cores and polls cost much (LADDER_SHARED_NS). */
static void shared_start(void)
{
	if (polls_crowd()) {
		process.policy.absolute_ns += LADDER_SHARED_NS;
		process.policy.max_ns += LADDER_SHARED_NS;
	}
}

/* Fills the slot. The launcher's numbers hold until MPI_COMM_WORLD can be asked. */
static void slot_fill(struct mpiwait_slot *slot)
{
	slot->pid = (uint32_t)getpid();
	slot->rank = launcher.rank;
	slot->size = launcher.size;
	slot->launch = launcher.launch;
	slot->task = launcher.task;
	slot->program = process.config.program;
	slot->family = next_family();
	slot->start_ns = clock_read_ns(CLOCK_MONOTONIC);
}

/* Returns the mode of a process in which the library acts. */
static uint32_t mode_of(const struct config *config)
{
	return PROCESS_ACTS | (config->profile ? PROCESS_PROFILES : 0) |
	       (config->polls && process.policy.rungs != 0 ? PROCESS_LOOPS : 0);
}

/* Starts the library's work, after the call of that row has started MPI. */
static void process_start(enum call_row row)
{
	struct mpiwait_sizes *sizes = NULL;
	struct mpiwait_slot *slot = process_guard_make() ? segment_claim(&process.config, &sizes) : segment_private();

	clock_use_tsc(process.config.tsc_khz);
	process.slot = slot;
	process.node = segment_header(&process.config, slot);
	slot_fill(slot);
	if (row != ROW_Session_init)
		rank_find(slot);
	policy_set();
	query_resolve();
	if (process.config.profile) {
		sizes_start(slot, sizes, row != ROW_Session_init);
		phase_start();
	}
	if (process.config.sites)
		callsite_start();
	if (process.config.shared)
		process_flag(MPIWAIT_FLAG_SHARED_CORES);
	if (process.config.rungs & ~process.policy.rungs & 1u << MPIWAIT_RUNG_EVENT)
		process_flag(MPIWAIT_FLAG_NO_EVENT);
	__atomic_store_n(&slot->state, MPIWAIT_SLOT_RUNNING, __ATOMIC_RELEASE);
	csv_rank_begins();
	if (next_is_ambiguous()) {
		process_flag(MPIWAIT_FLAG_TWO_MPIS);
		return;
	}
	if (idle_switch_on() == 0)
		process_flag(MPIWAIT_FLAG_NO_HOOK);
	shared_start();
	forecasts_start(slot);
	prewait_start();
	presleep_start();
	__atomic_store_n(&process_guard->mode, mode_of(&process.config), __ATOMIC_RELEASE);
	wait_count(row);
}

/*
 * Ends the library's work: the rank has come to Finalize. If a tool's MPI_Finalize has called PMPI_Finalize, the outer
 * call is still open; it ends here too, since its wait would not count later.
 */
static void process_end(void)
{
	struct mpiwait_slot *slot = process.slot;

	if (process_mode() == PROCESS_INERT)
		return;
	if (wait_self.outer != 0)
		wait_leave(process_mode());
	slot->end_ns = clock_read_ns(CLOCK_MONOTONIC);
	__atomic_store_n(&slot->state, MPIWAIT_SLOT_FINALIZED, __ATOMIC_RELEASE);
	__atomic_store_n(&process_guard->mode, PROCESS_INERT, __ATOMIC_RELEASE);
}

static bool row_starts(enum call_row row)
{
	return row == ROW_Init || row == ROW_Init_thread || row == ROW_Session_init;
}

void start_call_begins(enum call_row row)
{
	static bool begun;

	if (process.config.off && process.config.program && row_starts(row) &&
	    !__atomic_exchange_n(&begun, true, __ATOMIC_ACQ_REL))
		notes_add_off(&process.config);
	if (configured && row_starts(row) && !next_is_ambiguous() &&
	    !__atomic_exchange_n(&begun, true, __ATOMIC_ACQ_REL)) {
		process.starting = true;
		launcher_read(next_family(), next_symbol("PMIx_Init") != NULL, &launcher);
		idle_prepare(next_family(), row == ROW_Init_thread);
	}
}

void start_call_ended(enum call_row row, int code)
{
	bool starts = row_starts(row);

	if (starts) {
		process.starting = false;
		idle_restore();
	}
	if (!configured || code != 0)
		return;
	if (starts && !__atomic_exchange_n(&started, true, __ATOMIC_ACQ_REL))
		process_start(row);
	else if (starts && row != ROW_Session_init && process_mode() != PROCESS_INERT)
		rank_find(process.slot);
	else if (row == ROW_Finalize) {
		process_end();
		csv_rank_leaves();
	}
}
