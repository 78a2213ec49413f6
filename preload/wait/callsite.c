/*
 * Counts waits by callsite. The contract stands in callsite.h.
 */
#include "preload/wait/callsite.h"

#include <errno.h>
#include <execinfo.h>
#include <stdbool.h>
#include <string.h>

#include "preload/elf/module.h"
#include "preload/process/process.h"

#define ROW_SHIFT  56 /* above the bits of every address */
#define HASH       UINT64_C(0x9e3779b97f4a7c15)
#define FRAMES     24 /* depth of the stack from here up to the caller of the layer */
#define FRAMES_OWN 4  /* depth that is enough to load the unwinder */

/* Weak, so that the library also loads with a C library without backtrace. */
#pragma weak backtrace

/* Identities of the modules, by index in the slot's table; NULL: free, or being written. */
static const void *identities[MPIWAIT_MODULES];

/* Returns true for MPI's layers for Fortran and C++, in which all calls of a function come from one callsite. */
static bool is_layer(const char *name)
{
	static const char *const layers[] = {
	        "libmpi_mpifh.", "libmpi_usempi", "libmpi_cxx.", "libmpifort",   "libmpichfort.",
	        "libmpichf90.",  "libfmpich.",    "libmpicxx.",  "libmpichcxx.",
	};

	for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
		if (strncmp(name, layers[i], strlen(layers[i])) == 0)
			return true;
	return false;
}

/*
 * Returns the module's index in the table + 1, 0 if the table is full. Two threads that come at once may enter a module
 * twice.
 */
static uint16_t module_number(const struct module *module)
{
	struct mpiwait_callsites *callsites = &process.slot->sites;
	uint32_t index;

	for (index = 0; index < MPIWAIT_MODULES; index++)
		if (__atomic_load_n(&identities[index], __ATOMIC_ACQUIRE) == module->identity)
			return (uint16_t)(index + 1);
	index = __atomic_fetch_add(&callsites->modules, 1, __ATOMIC_RELAXED);
	if (index >= MPIWAIT_MODULES)
		return 0;
	callsites->module[index] = module->file;
	__atomic_store_n(&identities[index], module->identity, __ATOMIC_RELEASE);
	return (uint16_t)(index + 1);
}

/* Fills a new entry. The module is written last: a reader that sees the module sees the rest of the entry too. */
static void callsite_fill(struct mpiwait_callsite *callsite, uint32_t row, uintptr_t address)
{
	struct module module;
	uint16_t number = 0;

	callsite->row = row;
	if (module_find(address, &module)) {
		callsite->offset = address - module.base;
		callsite->layer = is_layer(module.file.name);
		number = module_number(&module);
	}
	__atomic_store_n(&callsite->module, number, __ATOMIC_RELEASE);
}

/*
 * Returns the entry of a callsite, an MPI function (row) and the address behind its call. Claims a free entry for a new
 * one; if the table is full, returns the entry that all others share.
 */
static struct mpiwait_callsite *callsite_at(uint32_t row, uintptr_t address)
{
	struct mpiwait_callsite *table = process.slot->sites.site;
	uint64_t key = (uint64_t)address | (uint64_t)row << ROW_SHIFT;
	size_t at = (size_t)(key * HASH >> 32) % MPIWAIT_SITES;

	for (size_t i = 0; i < MPIWAIT_SITES; i++, at = (at + 1) % MPIWAIT_SITES) {
		uint64_t found = __atomic_load_n(&table[at].key, __ATOMIC_ACQUIRE);

		if (found == 0 && __atomic_compare_exchange_n(&table[at].key, &found, key, false, __ATOMIC_ACQ_REL,
		                                              __ATOMIC_ACQUIRE)) {
			callsite_fill(&table[at], row, address);
			return &table[at];
		}
		if (found == key)
			return &table[at];
	}
	return &table[MPIWAIT_SITES];
}

/* Returns the entry of the layer's caller, or the layer's own if the stack does not tell. */
static struct mpiwait_callsite *callsite_above(struct mpiwait_callsite *callsite, uint32_t row, uintptr_t caller)
{
	void *frame[FRAMES];
	int frames = backtrace ? backtrace(frame, FRAMES) : 0, at = 0;

	while (at < frames && (uintptr_t)frame[at] != caller)
		at++;
	for (at++; at < frames && callsite->layer; at++)
		callsite = callsite_at(row, (uintptr_t)frame[at]);
	return callsite;
}

void callsite_start(void)
{
	void *frame[FRAMES_OWN];

	if (backtrace)
		(void)backtrace(frame, FRAMES_OWN);
	process.slot->has_sites = 1;
}

void callsite_add(uint32_t row, uintptr_t caller, uint64_t wait_ns)
{
	int saved = errno;
	struct mpiwait_callsite *callsite = callsite_at(row, caller);

	if (callsite->layer)
		callsite = callsite_above(callsite, row, caller);
	__atomic_fetch_add(&callsite->waits, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&callsite->wait_ns, wait_ns, __ATOMIC_RELAXED);
	errno = saved;
}
