/*
 * Runs a step's sampler under the test's clock (elsewhere.h). Each line of standard input is a time in ms to which the
 * clocks advance. The answer is "OPENS READS": the calls since the line before. At the end of the input the step ends,
 * or the sampler is killed.
 *
 *     ticks_driver ROOT JOB STEP fast|slow [SEGMENT|- [killed]]
 *
 * $CSV: the step has csv=. $CHOICES, the step's own policy: ranks choose among "nap" and "off", which 1 and 2 are for;
 * under the own policy "off" the step is not noted. $OFF: ranks that chose 2.
 */
#include "spank/base/cleanup.h"
#include "spank/node/sampler.h"
#include "tests/lib/doubles/elsewhere.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct choices choices = {
        .programs = {.policy_count = 2},
        .choice = {{.use = {"nap", "nap", "", "program"}}, {.use = {"off", "off", "", "program"}}}};
static struct mpiwait_notes notes;

static void choices_set(struct sampler_config *config)
{
	const char *own = getenv("CHOICES"), *off = getenv("OFF");

	if (!own)
		return;
	snprintf(config->policy.asked, sizeof(config->policy.asked), "%s", own);
	snprintf(config->policy.used, sizeof(config->policy.used), "%s", own);
	strcpy(config->policy.by, "site");
	config->is_unnoted = strcmp(own, "off") == 0;
	config->choices = &choices;
	config->notes = &notes;
	notes.off[1] = off ? (uint32_t)strtoul(off, NULL, 10) : 0;
}

int main(int count, char *words[])
{
	cleanup_close int segment = count > 5 ? open(words[5], O_RDONLY | O_CLOEXEC) : -1;
	struct sampler_config config = {.segment = segment, .csv = getenv("CSV") != NULL};
	struct elsewhere_calls before, after;
	struct sampler *sampler = NULL;
	struct error error = {0};
	char line[64];

	if (count < 5 || run_directory_init(words[1], &config.run_directory))
		return 64;
	config.job_id = (uint32_t)strtoul(words[2], NULL, 10);
	config.step_id = (uint32_t)strtoul(words[3], NULL, 10);
	config.fast = strcmp(words[4], "fast") == 0;
	choices_set(&config);
	if (sampler_start(&config, &sampler, &error)) {
		fprintf(stderr, "%s\n", error.text);
		return EXIT_FAILURE;
	}
	while (fgets(line, sizeof(line), stdin)) {
		before = elsewhere_calls();
		elsewhere_advance(strtoull(line, NULL, 10) * 1000000);
		after = elsewhere_calls();
		printf("%u %u\n", after.opens - before.opens, after.reads - before.reads);
		fflush(stdout);
	}
	if (count > 6)
		raise(SIGKILL);
	sampler_stop(sampler);
	return EXIT_SUCCESS;
}
