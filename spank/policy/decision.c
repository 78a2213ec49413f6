#include "spank/policy/decision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"

/* In order of strength; the site's default is the last. */
enum { OPTION, ENVIRONMENT, JOB, SITE, SOURCES };

/* The strongest valid words, and who spoke them; NULL: there are none. */
static const char *pick(const char *const texts[SOURCES], const struct policy_set *set, const struct site *site,
                        struct options *ret_options, const char **ret_by, struct error *error)
{
	for (size_t i = 0; i < SOURCES; i++) {
		if (!texts[i] || !texts[i][0] || options_parse(texts[i], ret_options, error) < 0 ||
		    options_check(ret_options, set, site, error) < 0)
			continue;
		*ret_by = i == SITE ? "site" : texts[JOB] && strcmp(texts[i], texts[JOB]) == 0 ? "job" : "step";
		return texts[i];
	}
	return NULL;
}

/* Most jobs of most sites: they cost one comparison, and no file. */
static bool nobody_asks(const char *const texts[SOURCES])
{
	for (size_t i = 0; i < SITE; i++)
		if (texts[i] && texts[i][0])
			return false;
	return strcmp(texts[SITE], "off") == 0;
}

/* Whether what runs under "off" leaves its energy: there is nothing else of it to note. */
static bool off_is_noted(const struct site *site, const char *const texts[SOURCES], const char *by)
{
	/* The words that other steps of the job are under. */
	const char *words = texts[JOB] && texts[JOB][0] ? texts[JOB] : texts[SITE];

	if (site->record == SITE_RECORD_NONE || strcmp(by, "site") == 0)
		return false;
	return site->record == SITE_RECORD_ALL || (strcmp(by, "step") == 0 && strcmp(words, "off") != 0);
}

int decision_make(const struct site *site, const struct decision_sources *sources, struct decision *ret_decision,
                  struct error *error)
{
	const char *const texts[] = {sources->option, sources->environment, sources->job, site->default_policy};
	cleanup_free struct policy_set *set = NULL;
	struct policy_support support;
	const struct policy *policy;
	struct decision decision = {.text = ""};
	const char *text, *by;

	if (site_is_switched_off(site) || nobody_asks(texts))
		return 0;
	set = calloc(1, sizeof(*set));
	if (!set)
		return error_set(error, -ENOMEM, "no memory for the policies");
	policy_load_apart(site->policies, MPIWAIT_POLICIES, set, error);
	text = pick(texts, set, site, &decision.options, &by, error);
	if (!text)
		return 0;
	cpu_probe(&decision.cpu);
	policy_probe(&decision.cpu, site->grant, &support);
	policy = policy_resolve(set, decision.options.policy, &support, &decision.use);
	if (!policy || (!policy->inject && !off_is_noted(site, texts, by)))
		return 0;
	snprintf(decision.text, sizeof(decision.text), "%s", text);
	snprintf(decision.use.by, sizeof(decision.use.by), "%s", by);
	decision.policy = *policy;
	decision.policy.rungs &= support.rungs; /* tasks are told what there is */
	options_apply(&decision.options, site, &decision.policy);
	*ret_decision = decision;
	return 1;
}
