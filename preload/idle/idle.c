/*
 * The table of runtimes: how each is told apart, what it must find in its environment, and which hooks serve it.
 */
#include "preload/idle/idle.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "preload/mpi/next.h"
#include "preload/process/process.h"

#define FAMILY(name) (1u << MPIWAIT_FAMILY_##name)
#define VARIABLES    2
#define BURST        6 /* MPICH needs two polls to notice one message, and has up to three idle calls in each */

struct variable {
	const char *name, *value;
};

struct runtime {
	uint32_t families;
	const char *marker; /* a symbol that only this one exports; NULL: any of the families */
	struct variable variables[VARIABLES];
	bool ucx_will_do; /* the variables are for want of UCX, or for threads: they make polling dearer */
	uint32_t hooks;
	uint32_t locked; /* hooks that are called under the runtime's lock */
	uint32_t burst;
	bool yields_natively;
	bool probes_spin; /* Probe and Mprobe make no idle call */
};

/* The first row that fits is the runtime's. */
static const struct runtime runtimes[] = {
        {.families = FAMILY(OPENMPI), .hooks = MPIWAIT_HOOK_OPAL, .burst = 1},
        {.families = FAMILY(MPICH) | FAMILY(ABI),
         .marker = "I_MPI_Check_image_status", /* Intel MPI */
         .variables = {{"I_MPI_WAIT_MODE", "1"}},
         .hooks = MPIWAIT_HOOK_YIELD,
         .locked = MPIWAIT_HOOK_YIELD,
         .burst = BURST,
         .probes_spin = true},
        {.families = FAMILY(MPICH) | FAMILY(ABI),
         .marker = "PMPI_Abi_get_version", /* MPICH 5 */
         .variables = {{"MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"},
                       {"MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "0"}},
         .ucx_will_do = true,
         .hooks = MPIWAIT_HOOK_YIELD | MPIWAIT_HOOK_UCP,
         .locked = MPIWAIT_HOOK_UCP,
         .burst = BURST,
         .yields_natively = true},
        {.families = FAMILY(MPICH), .hooks = MPIWAIT_HOOK_UCP, .locked = MPIWAIT_HOOK_UCP, .burst = BURST},
};

struct idle idle;

static const struct runtime *runtime; /* NULL: none that we know */
static uint32_t variables_set;        /* bit per variable of its row: ours */

static const struct runtime *runtime_find(enum mpiwait_family family)
{
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (runtimes[i].families & 1u << family && (!runtimes[i].marker || next_symbol(runtimes[i].marker)))
			return &runtimes[i];
	return NULL;
}

/* The MPI library brings UCX along, and the user has not told it to use something else. */
static bool ucx_is_likely(void)
{
	const char *netmod = getenv("MPIR_CVAR_CH4_NETMOD");

	return next_symbol("ucp_worker_progress") && (!netmod || strcmp(netmod, "ucx") == 0);
}

void idle_prepare(enum mpiwait_family family, bool by_thread)
{
	runtime = runtime_find(family);
	if (!runtime || (runtime->ucx_will_do && !by_thread && ucx_is_likely()))
		return;
	for (uint32_t i = 0; i < VARIABLES; i++) {
		const struct variable *variable = &runtime->variables[i];

		if (variable->name && !getenv(variable->name) && setenv(variable->name, variable->value, 0) == 0)
			variables_set |= 1u << i;
	}
	idle.yields_for_us = variables_set != 0;
}

void idle_restore(void)
{
	for (uint32_t i = 0; i < VARIABLES; i++)
		if (variables_set & 1u << i)
			unsetenv(runtime->variables[i].name);
	variables_set = 0;
}

uint32_t idle_switch_on(void)
{
	uint32_t hooks = runtime ? runtime->hooks : 0;

	process.burst = runtime ? runtime->burst : BURST;
	process.silent = !(hooks & MPIWAIT_HOOK_OPAL);
	idle.probes_spin = runtime && runtime->probes_spin;
	if (hooks & MPIWAIT_HOOK_OPAL && !idle_opal_switch_on())
		hooks &= ~MPIWAIT_HOOK_OPAL;
	if (hooks & MPIWAIT_HOOK_UCP && !idle_ucx_switch_on())
		hooks &= ~MPIWAIT_HOOK_UCP;
	if (hooks == 0)
		return 0;
	if (hooks & MPIWAIT_HOOK_YIELD)
		next_text(next_symbol("PMPI_Init"), &idle.mpi.start, &idle.mpi.size);
	idle.yields_natively = runtime->yields_natively;
	process.locked_hooks = runtime->locked;
	process.locks_ring = hooks & runtime->locked && idle_lock_switch_on();
	__atomic_store_n(&process.hooks, hooks, __ATOMIC_RELEASE);
	return hooks;
}
