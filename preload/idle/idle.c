/* The table of runtimes: how each is recognised, the environment that it needs, and the hooks that serve it. */
#include "preload/idle/idle.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "preload/mpi/next.h"
#include "preload/process/process.h"

#define FAMILY(name) (1u << MPIWAIT_FAMILY_##name)
#define VARIABLES    2
#define SETTINGS     2
#define NAME_BYTES   64
#define BURST        6 /* MPICH notices a message in two polls, with up to three idle calls each */

struct variable {
	const char *name, *value;
};

enum { PLAIN_ON = 1, PLAIN_OFF, PLAIN_TWO };

/* A variable of the user. With a value that is not plain, an idle call sleeps or pauses, or is not made. */
struct setting {
	const char *name;
	uint32_t plain; /* PLAIN_*: value with which an idle call is a sched_yield */
};

struct runtime {
	uint32_t families;
	const char *marker; /* a symbol that only this runtime exports; NULL: any of the families */
	struct variable variables[VARIABLES];
	struct setting settings[SETTINGS];
	bool netmod_will_do; /* variables slow polling: not set if a netmod's hook will serve all waits */
	uint32_t hooks;
	uint32_t locked; /* hooks that the runtime calls under its lock */
	uint32_t burst;
	bool yields_natively;
	bool probes_spin; /* Probe and Mprobe make no idle call */
};

/* The runtimes. The first matching row counts. */
static const struct runtime runtimes[] = {
        {.families = FAMILY(OPENMPI),
         .hooks = MPIWAIT_HOOK_OPAL | MPIWAIT_HOOK_OFI,
         .locked = MPIWAIT_HOOK_OFI,
         .burst = 1},
        {.families = FAMILY(MPICH) | FAMILY(ABI),
         .marker = "I_MPI_Check_image_status", /* Intel MPI */
         .variables = {{"I_MPI_WAIT_MODE", "1"}},
         .settings = {{"I_MPI_WAIT_MODE", PLAIN_ON}, {"I_MPI_THREAD_YIELD", PLAIN_TWO}},
         .hooks = MPIWAIT_HOOK_YIELD | MPIWAIT_HOOK_OFI,
         .locked = MPIWAIT_HOOK_YIELD | MPIWAIT_HOOK_OFI,
         .burst = BURST,
         .probes_spin = true},
        {.families = FAMILY(MPICH) | FAMILY(ABI),
         .marker = "PMPI_Abi_get_version", /* MPICH 5 */
         .variables = {{"MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"},
                       {"MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "0"}},
         .settings = {{"MPIR_CVAR_ENABLE_HEAVY_YIELD", PLAIN_OFF}},
         .netmod_will_do = true,
         .hooks = MPIWAIT_HOOK_YIELD | MPIWAIT_HOOK_UCP | MPIWAIT_HOOK_OFI,
         .locked = MPIWAIT_HOOK_UCP | MPIWAIT_HOOK_OFI,
         .burst = BURST,
         .yields_natively = true},
        {.families = FAMILY(MPICH), /* MPICH 4, Cray MPICH, MVAPICH 4 */
         .hooks = MPIWAIT_HOOK_UCP | MPIWAIT_HOOK_OFI,
         .locked = MPIWAIT_HOOK_UCP | MPIWAIT_HOOK_OFI,
         .burst = BURST},
};

struct idle idle;

static const struct runtime *runtime; /* NULL: unknown */
static uint32_t variables_set;        /* bit per variable of the row: set by idle_prepare */
static bool yields_plainly;           /* the user did not change how an idle call yields */

/* Returns the row of the runtime, NULL if it is unknown. */
static const struct runtime *runtime_find(enum mpiwait_family family)
{
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (runtimes[i].families & 1u << family && (!runtimes[i].marker || next_symbol(runtimes[i].marker)))
			return &runtimes[i];
	return NULL;
}

/* Returns a variable of the environment. MPICH reads each of its variables under three names. */
static const char *variable_get(const char *name)
{
	static const char *const prefixes[] = {"MPICH_", "MPIR_PARAM_"};
	const char *rest = strncmp(name, "MPIR_CVAR_", 10) == 0 ? name + 10 : NULL, *value = getenv(name);
	char other[NAME_BYTES];

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]) && rest && !value; i++) {
		strcpy(other, prefixes[i]);
		strncat(other, rest, sizeof(other) - sizeof("MPIR_PARAM_"));
		value = getenv(other);
	}
	return value;
}

/* Returns true for the words by which MPICH's variables switch something off. */
static bool is_off(const char *text)
{
	static const char *const words[] = {"0", "no", "off", "false", "disable"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(text, words[i]) == 0)
			return true;
	return false;
}

/* Returns true if the user's value, or no value, leaves an idle call what the hooks expect. */
static bool setting_is_plain(const struct setting *setting)
{
	const char *value = setting->name ? variable_get(setting->name) : NULL;

	if (!value)
		return true;
	return setting->plain == PLAIN_TWO ? strcmp(value, "2") == 0 : is_off(value) == (setting->plain == PLAIN_OFF);
}

static bool settings_are_plain(void)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (!setting_is_plain(&runtime->settings[i]))
			return false;
	return true;
}

/* Returns true unless the user chose another netmod than UCX. */
static bool netmod_is_ucx(void)
{
	const char *netmod = variable_get("MPIR_CVAR_CH4_NETMOD");

	return !netmod || strcmp(netmod, "ucx") == 0;
}

/* Returns true if the MPI library comes with UCX, and the user chose nothing else. */
static bool ucx_is_likely(void)
{
	return next_symbol("ucp_worker_progress") && netmod_is_ucx();
}

/* Returns true if the MPI library comes with libfabric, and the user chose nothing else. */
static bool ofi_is_likely(void)
{
	const char *netmod = variable_get("MPIR_CVAR_CH4_NETMOD");

	return next_symbol("fi_fabric") && (netmod ? strcmp(netmod, "ofi") == 0 : !next_symbol("ucp_worker_progress"));
}

void idle_prepare(enum mpiwait_family family, bool by_thread)
{
	runtime = runtime_find(family);
	yields_plainly = runtime && settings_are_plain();
	idle.takes_fabrics = runtime && runtime->hooks & MPIWAIT_HOOK_OFI;
	if (!yields_plainly || (runtime->netmod_will_do && !by_thread && (ucx_is_likely() || ofi_is_likely())))
		return;
	for (uint32_t i = 0; i < VARIABLES; i++) {
		const struct variable *variable = &runtime->variables[i];

		if (variable->name && !variable_get(variable->name) && setenv(variable->name, variable->value, 0) == 0)
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

/* Returns the hooks that the runtime calls with the user's settings. Loops before calls need none. */
static uint32_t hooks_called(uint32_t hooks)
{
	if (!yields_plainly)
		hooks &= ~MPIWAIT_HOOK_YIELD;
	if (!netmod_is_ucx())
		hooks &= ~MPIWAIT_HOOK_UCP;
	if (idle.misses_queues)
		hooks &= ~MPIWAIT_HOOK_OFI;
	return hooks;
}

uint32_t idle_switch_on(void)
{
	uint32_t hooks = runtime ? runtime->hooks : 0;

	process.burst = runtime ? runtime->burst : BURST;
	process.silent = !(hooks & MPIWAIT_HOOK_OPAL);
	idle.probes_spin = runtime && runtime->probes_spin;
	if (hooks & MPIWAIT_HOOK_OPAL && !idle_opal_switch_on())
		hooks = 0;
	if (hooks & MPIWAIT_HOOK_UCP && !idle_ucx_switch_on())
		hooks &= ~MPIWAIT_HOOK_UCP;
	if (hooks & MPIWAIT_HOOK_OFI && !idle_ofi_switch_on())
		hooks &= ~MPIWAIT_HOOK_OFI;
	idle.probes_spin |= hooks & MPIWAIT_HOOK_OFI && !(hooks & MPIWAIT_HOOK_OPAL);
	if (hooks == 0)
		return 0;
	if (hooks & MPIWAIT_HOOK_YIELD)
		next_text(next_symbol("PMPI_Init"), &idle.mpi.start, &idle.mpi.size);
	idle.yields_natively = runtime->yields_natively;
	process.locked_hooks = runtime->locked;
	__atomic_store_n(&process.hooks, hooks, __ATOMIC_RELEASE);
	return hooks_called(hooks);
}
