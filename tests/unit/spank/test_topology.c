/*
 * Slurm's numbering of cores on a machine of which CPUs are offline. hwloc shows three cores with CPUs of high numbers
 * (HWLOC_SYNTHETIC), so that the CPUs of the machine that runs the test are those offline.
 */
#include "spank/machine/topology.h"
#include "spank/plugin/numbering.h"
#include "tests/lib/check.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#define CORES 4

/* slurmstepd exports these functions, but no public header declares them. */
int xcpuinfo_abs_to_mac(char *cores, char **ret_cpus);
int xcpuinfo_mac_to_abs(char *cpus, char **ret_cores);
void slurm_xfree(void **text);

static const char *slurm[CORES]; /* CPUs of Slurm's cores */

int xcpuinfo_abs_to_mac(char *cores, char **ret_cpus)
{
	long core = strtol(cores, NULL, 10);

	return core < CORES && (*ret_cpus = strdup(slurm[core])) ? 0 : -1;
}

/* Knows the cores on the first three CPUs that it numbers, as a Slurm of four CPUs does. */
int xcpuinfo_mac_to_abs(char *cpus, char **ret_cores)
{
	return strcmp(cpus, "0-2") == 0 && (*ret_cores = strdup("0-2")) ? 0 : -1;
}

void slurm_xfree(void **text)
{
	free(*text);
	*text = NULL;
}

/* Asks for the numbering. Returns the result; *ret_topology is to be freed. */
static int ask(const char *const cores[CORES], struct topology **ret_topology)
{
	struct error error = {""};
	int result;

	memcpy(slurm, cores, sizeof(slurm));
	*ret_topology = NULL;
	CHECK(topology_load("", ret_topology, &error) == 0);
	result = numbering_ask(*ret_topology, "", &error);
	CHECK((result == 0) == (error.text[0] == '\0'));
	return result;
}

/* Returns true if the list of Slurm's cores has that number of cores, and these CPUs. */
static bool has(const struct topology *topology, const char *cores, int count, const char *cpus)
{
	cleanup_bitmap hwloc_bitmap_t found = hwloc_bitmap_alloc();
	char text[64];

	if (topology_cpus_of(topology, cores, 0, UINT_MAX, found, NULL) != count)
		return false;
	hwloc_bitmap_list_snprintf(text, sizeof(text), found);
	return strcmp(text, cpus) == 0;
}

/* The offline CPU is the second core's, or the last one's, which no online CPU leads to. */
static void a_core_that_is_offline_has_no_cpus(void)
{
	static const char *const second[] = {"1001", "0", "1002", "1003"}, *const last[] = {"1001", "1002", "1003",
	                                                                                    "0"};
	struct topology *topology;

	CHECK(ask(second, &topology) == 0 && topology_numbered(topology) == CORES);
	CHECK(has(topology, "0-3", 4, "1001-1003") && has(topology, "1", 1, "") && has(topology, "1-2", 2, "1002"));
	topology_free(topology);
	CHECK(ask(last, &topology) == 0 && topology_numbered(topology) == CORES);
	CHECK(has(topology, "0-3", 4, "1001-1003") && has(topology, "3", 1, "") && has(topology, "2", 1, "1003"));
	topology_free(topology);
}

static void a_core_keeps_its_threads_that_are_online(void)
{
	static const char *const half[] = {"1001", "0,1002", "1003", ""};
	hwloc_bitmap_t cpus[3];
	struct topology *topology = NULL;

	CHECK(topology_load("", &topology, NULL) == 0);
	for (int i = 0; i < 3; i++) {
		cpus[i] = hwloc_bitmap_alloc();
		hwloc_bitmap_list_sscanf(cpus[i], half[i]);
	}
	CHECK(topology_number(topology, cpus, 3, NULL) == 0);
	CHECK(has(topology, "0-1", 2, "1001-1002") && has(topology, "1", 1, "1002"));
	for (int i = 0; i < 3; i++)
		hwloc_bitmap_free(cpus[i]);
	topology_free(topology);
}

/* A CPU that the machine lacks; one of two cores, online or not; a core without CPUs. */
static void what_cannot_be_is_refused(void)
{
	static const char *const wrong[][CORES] = {
	        {"1001", "9000", "1002", "1003"},
	        {"1001", "1001", "1002", "1003"},
	        {"1001", "0", "0,1002", "1003"},
	        {"1001", "", "1002", "1003"},
	};
	struct topology *topology;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK(ask(wrong[i], &topology) < 0 && topology_numbered(topology) == 0);
		topology_free(topology);
	}
}

int main(void)
{
	setenv("HWLOC_SYNTHETIC", "pack:1 core:3 pu:1(indexes=1001,1002,1003)", 1);
	a_core_that_is_offline_has_no_cpus();
	a_core_keeps_its_threads_that_are_online();
	what_cannot_be_is_refused();
	return CHECK_RESULT;
}
