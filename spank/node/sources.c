#include "spank/node/sources.h"

#include "spank/policy/site.h"

#include <string.h>

/* Computes powercap's window from the job's begin to its end, or notes in energy_why why there is none. */
static void powercap_take(struct state_job *job, const struct ending *ending, struct sources *sources)
{
	if (!job->has_baseline && !job->energy_why[0])
		strcpy(job->energy_why, "no sample at the job's begin");
	if (!job->has_baseline)
		return;
	if (!ending->has_sample) {
		strcpy(job->energy_why, ending->why);
		return;
	}
	energy_between(&job->baseline, &ending->sample, &sources->powercap);
	sources->has_powercap = true;
}

static void use_powercap(struct sources *sources)
{
	if (!sources->has_powercap)
		return;
	sources->window = sources->powercap;
	sources->has_window = sources->is_powercap = true;
}

/* Uses a source of meters, unless one of its meters is missing at the job's end, restarted, or was not updated. */
static void use_meters(const struct state_job *job, const struct ending *ending, enum meter_source source,
                       struct sources *sources)
{
	struct energy_window *window = &sources->window;

	if (!meters_window(&job->meters, &ending->meters, source, window) || window->gaps > 0)
		return;
	if (strcmp(rapl_source(), "simulated") == 0)
		strcpy(window->source, "simulated");
	sources->has_window = true;
	sources->includes_gpus = source == METER_CRAY;
}

/* Uses the source of that name as the job's, if it counted the job. */
static void use(const char *name, const struct state_job *job, const struct ending *ending, struct sources *sources)
{
	if (strcmp(name, "powercap") == 0)
		use_powercap(sources);
	for (int source = 0; source < METER_SOURCE_COUNT; source++)
		if (strcmp(name, meter_source_name((enum meter_source)source)) == 0)
			use_meters(job, ending, (enum meter_source)source, sources);
}

void sources_choose(struct state_job *job, const struct ending *ending, struct sources *ret_sources)
{
	const char *word = job->sources[0] ? job->sources : SITE_ENERGY;

	memset(ret_sources, 0, sizeof(*ret_sources));
	powercap_take(job, ending, ret_sources);
	while (*word && !ret_sources->has_window) {
		char name[SITE_ENERGY_MAX];
		size_t length = strcspn(word, "+");

		snprintf(name, sizeof(name), "%.*s", (int)length, word);
		use(name, job, ending, ret_sources);
		word += length + (word[length] == '+');
	}
	if (!ret_sources->has_window && !job->energy_why[0])
		strcpy(job->energy_why, "no source that the site names counted the job");
}
