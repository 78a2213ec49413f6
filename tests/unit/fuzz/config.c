/* MPI_WAIT_CONFIG, the flat policy string that the program's half reads: anybody can set it for their own programs. */
#include "tests/unit/fuzz/fuzz.h"

#include <errno.h>

#include "preload/contract/stats.h"
#include "preload/process/config.h"
#include "spank/base/cleanup.h"

#define HOUR_NS UINT64_C(3600000000000)

static void bounds_check(const struct config *config)
{
	FUZZ_CHECK(!(config->rungs & ~((1u << MPIWAIT_RUNG_COUNT) - 1)) && config->relative_ppm <= 1000000);
	FUZZ_CHECK(config->spin_ns <= HOUR_NS && config->absolute_ns <= HOUR_NS && config->max_ns <= HOUR_NS &&
	           config->rma_ns <= HOUR_NS && config->event_ns <= HOUR_NS && config->pstate_after_ns <= HOUR_NS);
	FUZZ_CHECK(config->segment_fd >= -1 && config->cpufreq_fd >= -1 && config->task_pid >= 0);
	FUZZ_CHECK(config->notes_id >= -1 && config->program <= CONFIG_CHOICES_MAX);
	FUZZ_CHECK(!config->task_pid || config->segment_fd >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = fuzz_text(data, size);
	struct config config, untouched;

	memset(&config, 0x5a, sizeof(config));
	untouched = config;
	errno = 4711;
	if (config_parse(text, "wrf.exe", &config) == 0)
		bounds_check(&config);
	else
		FUZZ_CHECK(memcmp(&config, &untouched, sizeof(config)) == 0);
	FUZZ_CHECK(errno == 4711);
	return 0;
}
