#include "spank/policy/decision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"

static bool is_valid(const char *text, const struct policy_set *set, const struct site *site,
                     struct options *ret_options, struct error *error)
{
	return text && text[0] && options_parse(text, ret_options, error) == 0 &&
	       options_check(ret_options, set, site, error) == 0;
}

/* The strongest valid words, and who spoke them. */
static const char *pick(const struct site *site, const struct decision_sources *sources, const struct policy_set *set,
                        struct options *ret_options, const char **ret_by, struct error *error)
{
	const char *const texts[] = {sources->option, sources->environment, sources->job};

	for (size_t i = 0; i < 3; i++) {
		if (!is_valid(texts[i], set, site, ret_options, error))
			continue;
		*ret_by = sources->job && strcmp(texts[i], sources->job) == 0 ? "job" : "step";
		return texts[i];
	}
	*ret_by = "site";
	return is_valid(site->default_policy, set, site, ret_options, error) ? site->default_policy : NULL;
}

/* Most jobs of most sites: they cost one comparison, and no file. */
static bool nobody_asks(const struct site *site, const struct decision_sources *sources)
{
	const char *const texts[] = {sources->option, sources->environment, sources->job};

	for (size_t i = 0; i < 3; i++)
		if (texts[i] && texts[i][0])
			return false;
	return strcmp(site->default_policy, "off") == 0;
}

/* Whether other steps of the job are under a policy, by the site's default or the job's own words. */
static bool job_has_policy(const struct site *site, const struct decision_sources *sources)
{
	const char *words = sources->job && sources->job[0] ? sources->job : site->default_policy;

	return strcmp(words, "off") != 0;
}

/* Whether what runs under "off" leaves its energy: there is nothing else of it to note. */
static bool off_is_noted(const struct site *site, const struct decision_sources *sources, const char *by)
{
	if (site->record == SITE_RECORD_NONE || strcmp(by, "site") == 0)
		return false;
	return site->record == SITE_RECORD_ALL || (strcmp(by, "step") == 0 && job_has_policy(site, sources));
}

int decision_make(const struct site *site, const struct decision_sources *sources, struct decision *ret_decision,
                  struct error *error)
{
	const char *directories[] = {site->policies, MPIWAIT_POLICIES};
	cleanup_free struct policy_set *set = NULL;
	struct policy_support support;
	const struct policy *policy;
	struct decision decision = {.text = ""};
	const char *text, *by;

	if (site_is_switched_off(site) || nobody_asks(site, sources))
		return 0;
	set = calloc(1, sizeof(*set));
	if (!set)
		return error_set(error, -ENOMEM, "no memory for the policies");
	policy_load(directories, 2, set, error);
	text = pick(site, sources, set, &decision.options, &by, error);
	if (!text)
		return 0;
	cpu_probe(&decision.cpu);
	policy_probe(&decision.cpu, site->grant, &support);
	policy = policy_resolve(set, decision.options.policy, &support, &decision.use);
	if (!policy || (!policy->inject && !off_is_noted(site, sources, by)))
		return 0;
	snprintf(decision.text, sizeof(decision.text), "%s", text);
	snprintf(decision.use.by, sizeof(decision.use.by), "%s", by);
	decision.policy = *policy;
	decision.policy.rungs &= support.rungs; /* tasks are told what there is */
	options_apply(&decision.options, site, &decision.policy);
	*ret_decision = decision;
	return 1;
}
