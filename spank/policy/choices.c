#include "spank/policy/choices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/text.h"

#define FLAT_MAX  (CONFIG_CHOICES_MAX * (POLICY_FLAT_MAX + 1))
#define NAMES_MAX (PROGRAMS_NAMES_MAX * (CONFIG_PROGRAM_MAX + sizeof(":16,")))

struct choices *choices_load(const struct site *site, const struct policy_set *set, struct error *error)
{
	cleanup_free struct choices *choices = calloc(1, sizeof(*choices));
	struct options options;

	if (!choices) {
		error_set(error, -ENOMEM, "no memory for the policies by program");
		return NULL;
	}
	if (programs_load(site->programs, &choices->programs, error) < 0)
		return NULL;
	for (size_t i = 0; i < choices->programs.policy_count; i++) {
		const char *text = choices->programs.policy[i];

		if (options_parse(text, &options, error) == 0 && policy_find(set, options.policy))
			continue;
		error_set(error, -ENOENT, "programs '%s' left out: policy '%s' is unknown", site->programs, text);
		return NULL;
	}
	return take_pointer(choices);
}

/* Fills in one of the policies. Returns true if its ranks are not left alone. */
static bool choice_resolve(const char *text, const struct policy_set *set, const struct site *site,
                           const struct policy_support *support, struct choice *choice)
{
	const struct policy *policy;
	struct options options;

	if (options_parse(text, &options, NULL) < 0)
		return false;
	policy = policy_resolve(set, options.policy, support, &choice->use);
	if (!policy)
		return false;
	strcpy(choice->use.by, "program");
	choice->policy = *policy;
	choice->policy.rungs &= support->rungs;
	options_apply(&options, site, &choice->policy);
	choice->profile = options_profile(&options, policy);
	return policy->inject;
}

bool choices_settle(struct choices *choices, size_t end, bool acts, const struct policy_set *set,
                    const struct site *site, const struct policy_support *support)
{
	struct programs *programs = &choices->programs;

	if (end < programs->name_count)
		programs->name_count = end;
	for (size_t i = 0; i < programs->policy_count; i++)
		acts |= choice_resolve(programs->policy[i], set, site, support, &choices->choice[i]);
	return acts && programs->name_count > 0;
}

char *choices_flatten(const struct choices *choices, const struct cpu *cpu, bool shared)
{
	const struct programs *programs = &choices->programs;
	const size_t size = FLAT_MAX + NAMES_MAX;
	cleanup_free char *text = calloc(1, size);
	size_t used = 0;

	for (size_t i = 0; text && i < programs->policy_count; i++) {
		char flat[POLICY_FLAT_MAX];

		if (policy_flatten(&choices->choice[i].policy, cpu, shared, choices->choice[i].profile, flat,
		                   sizeof(flat)) < 0)
			return NULL;
		used += (size_t)snprintf(text + used, size - used, "|%s", flat);
	}
	for (size_t i = 0; text && i < programs->name_count; i++)
		used += (size_t)snprintf(text + used, size - used, "%c%s:%u", i ? ',' : '|', programs->name[i].pattern,
		                         programs->name[i].policy + 1);
	return take_pointer(text);
}
