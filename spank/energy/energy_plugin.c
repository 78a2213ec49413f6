/*
 * acct_gather_energy/mpi_wait: Slurm's own energy accounting (sacct's ConsumedEnergy, sstat, scontrol show node) from
 * the same counters and accumulator as our records. It is a Slurm plugin of its own, not a SPANK plugin.
 *
 * Slurm loads it into slurmctld, slurmd and slurmstepd, and calls it under one lock. It opens nothing until slurmstepd
 * begins or the first figure is asked for; slurmctld does neither. Types that Slurm declares only in private headers
 * are opaque here. A node without counters has no energy: slurmd logs that once, and the node is not drained.
 */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "spank/base/run_directory.h"
#include "spank/energy/accumulator.h"
#include "spank/machine/rapl.h"

extern const char plugin_name[];
extern const char plugin_type[];
extern const uint32_t plugin_version;

const char plugin_name[] = "energy from RAPL through libpowercap (mpi-wait)";
const char plugin_type[] = "acct_gather_energy/mpi_wait";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

#define YOUNG_NS UINT64_C(1000000000) /* slurmd and each step sample; one of them writes, at most once a second */

/* The functions that Slurm looks up. No public header has their prototypes. */
int init(void);
int fini(void);
int acct_gather_energy_p_update_node_energy(void);
int acct_gather_energy_p_get_data(enum acct_energy_type type, void *data);
int acct_gather_energy_p_set_data(enum acct_energy_type type, void *data);
void acct_gather_energy_p_conf_options(void *options, int *count);
void acct_gather_energy_p_conf_set(int context, void *table);
void acct_gather_energy_p_conf_values(void *list);

/* State of this process since its first sample. */
static struct {
	bool opened;
	bool sampled;
	bool complained;
	bool in_stepd; /* slurmd logs for the node: each slurmstepd would repeat it */
	struct rapl *rapl;
	int directory; /* directory of the node's accumulator */
	uint64_t used_uj;
	time_t begun;
	struct energy_snapshot last;
	struct energy_memory memory;
	acct_gather_energy_t node;
} seen = {.directory = -1};

/* Logs why this node has no energy, once and only in slurmd. */
static void complain(const char *text)
{
	if (!seen.complained && !seen.in_stepd)
		slurm_error("mpi-wait: %s: %s; no energy is accounted on this node", plugin_type, text);
	seen.complained = true;
}

/* Opens the counters and the node's directory at the first call. Returns true if both are open. */
static bool open_once(void)
{
	struct error error = {0};
	struct run_directory run_directory;

	if (seen.opened)
		return seen.rapl && seen.directory >= 0;
	seen.opened = true;
	if (rapl_open(&seen.rapl, &error)) {
		complain(error.text);
		return false;
	}
	if (run_directory_init(NULL, &run_directory) == 0)
		seen.directory = run_directory_open_node(&run_directory);
	if (seen.directory < 0)
		complain("no directory for the node's state under \"" STATE_ROOT "\"");
	return seen.directory >= 0;
}

/*
 * Updates used_uj. If sampling fails (slurmstepd may just have dropped its privileges) the figure stays, and the next
 * sample makes up for it. Returns false if there is no figure.
 */
static bool sample(void)
{
	const struct energy_need need = {.young_ns = YOUNG_NS, .exact = true};
	struct energy_snapshot now;
	struct energy_window window;
	struct error error = {0};

	if (!open_once())
		return false;
	if (energy_update(seen.directory, seen.rapl, &need, &seen.memory, &now, &error)) {
		complain(error.text);
		return seen.sampled;
	}
	if (seen.sampled) {
		energy_between(&seen.last, &now, &window);
		seen.used_uj += energy_window_uj(&window);
	} else {
		seen.begun = time(NULL);
	}
	seen.last = now;
	seen.sampled = true;
	return true;
}

/*
 * Updates one of Slurm's structs. Slurm keeps one per task and passes it again. Its energy counts from its own first
 * use, so that a step whose first task ended goes on with the next task's struct.
 */
static void advance(acct_gather_energy_t *energy)
{
	uint64_t used_j = seen.used_uj / 1000000;
	time_t now = time(NULL);

	if (energy->poll_time == 0) {
		energy->base_consumed_energy = energy->previous_consumed_energy = used_j;
		energy->poll_time = now;
	}
	energy->consumed_energy = used_j - energy->base_consumed_energy;
	if (now > energy->poll_time) {
		energy->current_watts =
		        (uint32_t)((used_j - energy->previous_consumed_energy) / (uint64_t)(now - energy->poll_time));
		energy->previous_consumed_energy = used_j;
		energy->poll_time = now;
	}
	if (now > seen.begun)
		energy->ave_watts = (uint32_t)(used_j / (uint64_t)(now - seen.begun));
}

/* Sets Slurm's struct to the energy so far, or to Slurm's values for unknown ones. */
static void measure(acct_gather_energy_t *energy)
{
	if (sample()) {
		advance(energy);
		return;
	}
	memset(energy, 0, sizeof(*energy));
	energy->consumed_energy = NO_VAL64;
	energy->current_watts = NO_VAL;
}

int init(void)
{
	return SLURM_SUCCESS;
}

int fini(void)
{
	rapl_close(seen.rapl);
	if (seen.directory >= 0)
		close(seen.directory);
	memset(&seen, 0, sizeof(seen));
	seen.directory = -1;
	return SLURM_SUCCESS;
}

int acct_gather_energy_p_update_node_energy(void)
{
	measure(&seen.node);
	return SLURM_SUCCESS;
}

int acct_gather_energy_p_get_data(enum acct_energy_type type, void *data)
{
	switch (type) {
	case ENERGY_DATA_JOULES_TASK:
	case ENERGY_DATA_NODE_ENERGY_UP:
		measure(data);
		return SLURM_SUCCESS;
	case ENERGY_DATA_STRUCT:
	case ENERGY_DATA_NODE_ENERGY:
		if (!seen.sampled)
			measure(&seen.node);
		memcpy(data, &seen.node, sizeof(seen.node));
		return SLURM_SUCCESS;
	case ENERGY_DATA_LAST_POLL:
		*(time_t *)data = seen.node.poll_time;
		return SLURM_SUCCESS;
	case ENERGY_DATA_SENSOR_CNT:
		*(uint16_t *)data = 1;
		return SLURM_SUCCESS;
	default:
		return SLURM_ERROR;
	}
}

int acct_gather_energy_p_set_data(enum acct_energy_type type, void *data)
{
	(void)data;
	switch (type) {
	case ENERGY_DATA_RECONFIG:
		return SLURM_SUCCESS;
	case ENERGY_DATA_PROFILE:
		measure(&seen.node);
		return SLURM_SUCCESS;
	case ENERGY_DATA_STEP_PTR:
		/*
		 * Opens before any task is forked: only root may read the counters, and slurmstepd is not root all the
		 * time.
		 */
		seen.in_stepd = true;
		open_once();
		return SLURM_SUCCESS;
	default:
		return SLURM_ERROR;
	}
}

void acct_gather_energy_p_conf_options(void *options, int *count)
{
	(void)options;
	(void)count;
}

void acct_gather_energy_p_conf_set(int context, void *table)
{
	(void)context;
	(void)table;
}

void acct_gather_energy_p_conf_values(void *list)
{
	(void)list;
}
