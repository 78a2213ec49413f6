/* Invariant: a struct policy that policy_parse returns satisfies policies/policy.schema.json. */
#include "spank/policy/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/base/text.h"
#include "spank/policy/key.h"

#define PSTATE_AFTER_NS 5000000 /* default of pstate_after_us */

static const char *const rung_names[MPIWAIT_RUNG_COUNT] = {
#define RUNG(constant, name, ...) name,
#include "preload/contract/rungs.def"
};
static const char rungs_accepted[] = ""
#define RUNG(constant, name, ...) ", " name
#include "preload/contract/rungs.def"
        ;

const char *policy_rung_name(unsigned rung)
{
	return rung < MPIWAIT_RUNG_COUNT ? rung_names[rung] : "unknown";
}

/* Returns the rung of that name, or -1. */
static int rung_find(const char *name)
{
	for (int i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		if (strcmp(rung_names[i], name) == 0)
			return i;
	return -1;
}

/* Returns why the rung is not supported; NULL: it is. */
static const char *rung_lacks(enum mpiwait_rung rung, const struct cpu *cpu, enum site_grant grant)
{
	if (!(MPIWAIT_RUNGS_BUILT & 1u << rung))
		return "rung not in this release";
	if (rung == MPIWAIT_RUNG_UMWAIT && !cpu->waitpkg)
		return "no waitpkg";
	if (rung == MPIWAIT_RUNG_MWAITX && !cpu->mwaitx)
		return "no mwaitx";
	if (rung == MPIWAIT_RUNG_PSTATE && grant == SITE_GRANT_OFF)
		return "grant=off";
	if (rung == MPIWAIT_RUNG_PSTATE && !cpu->cpufreq)
		return "no cpufreq";
	return POLICY_RUNGS_BY_TSC & 1u << rung && !cpu->tsc_khz ? "TSC not usable" : NULL;
}

void policy_probe(const struct cpu *cpu, enum site_grant grant, struct policy_support *ret_support)
{
	struct policy_support support = {.rungs = 0};

	for (unsigned i = 0; i < MPIWAIT_RUNG_COUNT; i++) {
		const char *lacks = rung_lacks((enum mpiwait_rung)i, cpu, grant);

		support.why[i] = lacks ? lacks : "";
		if (!lacks)
			support.rungs |= 1u << i;
	}
	*ret_support = support;
}

static int read_rungs(const json_t *value, const struct key *key, void *field, struct error *error)
{
	uint32_t *rungs = field;
	const json_t *item;
	size_t i;

	if (!json_is_array(value))
		return error_set(error, -EINVAL, "'%s' is not a list of rungs", key->name);
	json_array_foreach(value, i, item)
	{
		const char *name = json_string_value(item);
		int rung = name ? rung_find(name) : -1;

		if (rung < 0)
			return error_set(error, -EINVAL, "'%s' has '%s' (accepted: %s)", key->name,
			                 name ? name : "a value that is no string", rungs_accepted + strlen(", "));
		if (*rungs & 1u << rung)
			return error_set(error, -EINVAL, "'%s' has '%s' twice", key->name, name);
		*rungs |= 1u << rung;
	}
	return 0;
}

#define TEXT(word)    TEXT_OF(word)
#define TEXT_OF(x)    #x
#define FIELD(member) KEY_FIELD(struct policy, member)
#define COUNT(keys)   (sizeof(keys) / sizeof((keys)[0]))

#define NAME                                                                                   \
	"the name of a policy (a-z, 0-9, '_' and '-', under " TEXT(POLICY_NAME_MAX) " bytes)", \
	        .characters = JSON_LOWER JSON_DIGITS "_-"
#define RANGE(from, to, unit) "a number from " #from " to " #to, .least = from, .most = to, .scale = unit

static int read_choose(const json_t *value, const struct key *key, void *field, struct error *error)
{
	const struct key choice = {key->name, KEY_NAME, 0, POLICY_NAME_MAX, NAME};
	struct policy *policy = field;
	const json_t *item;
	size_t i;

	if (!json_is_array(value) || json_array_size(value) == 0 || json_array_size(value) > POLICY_CHOICES_MAX)
		return error_set(error, -EINVAL, "'choose' is not a list of 1 to %d policies", POLICY_CHOICES_MAX);
	json_array_foreach(value, i, item)
	{
		int rc = key_read(&choice, item, policy->choose[i], error);

		if (rc < 0)
			return rc;
	}
	policy->choose_count = json_array_size(value);
	return 0;
}

/* Reads every key of an object. `unknown` begins the refusal of a key that the table lacks. */
static int read_keys(const json_t *object, const struct key keys[], size_t count, const char *unknown,
                     const char *accepted, struct policy *policy, struct error *error)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value)
	{
		const struct key *key = key_find(keys, count, name, strlen(name));

		if (!key)
			return error_set(error, -EINVAL, "%s '%s' (accepted: %s)", unknown, name, accepted);
		int rc = key_read(key, value, policy, error);
		if (rc < 0)
			return rc;
	}
	return 0;
}

#define BUDGET_NAMES "spin_us, relative, absolute_us, max_us, rma_us"

static const struct key budget_keys[] = {
        {"spin_us", KEY_NUMBER, FIELD(spin_ns), RANGE(0, 1000000, 1e3)},
        {"relative", KEY_NUMBER, FIELD(relative_ppm), RANGE(0, 1, 1e6)},
        {"absolute_us", KEY_NUMBER, FIELD(absolute_ns), RANGE(0, 100000, 1e3)},
        {"max_us", KEY_NUMBER, FIELD(max_ns), RANGE(0, 100000, 1e3)},
        {"rma_us", KEY_NUMBER, FIELD(rma_ns), RANGE(0, 100000, 1e3)},
};

static int read_budget(const json_t *value, const struct key *key, void *policy, struct error *error)
{
	int rc;

	if (!json_is_object(value))
		return error_set(error, -EINVAL, "'%s' is not an object", key->name);
	rc = read_keys(value, budget_keys, COUNT(budget_keys), "'budget' has", BUDGET_NAMES, policy, error);
	if (rc == 0 && json_object_size(value) != COUNT(budget_keys))
		return error_set(error, -EINVAL, "'budget' lacks one of " BUDGET_NAMES);
	return rc;
}

static const struct key file_keys[] = {
        {"$schema", KEY_OTHER, .read = NULL}, /* for editors */
        {"version", KEY_NUMBER, FIELD(version), "1", .least = 1, .most = 1, .scale = 1},
        {"name", KEY_NAME, FIELD(name), NAME},
        {"summary", KEY_TEXT, FIELD(summary), "a string of 1 to 95 bytes"},
        {"inject", KEY_MARK, FIELD(inject), "true or false"},
        {"rungs", KEY_OTHER, FIELD(rungs), .read = read_rungs},
        {"needs", KEY_OTHER, FIELD(needs), .read = read_rungs},
        {"budget", KEY_OTHER, .read = read_budget},
        {"slowdown_percent", KEY_NUMBER, FIELD(slowdown_ppm), RANGE(0.01, 50, 1e4)},
        {"threads", KEY_WORD, FIELD(threads), SITE_THREADS_WORDS, .first = SITE_THREADS_KEEP},
        {"polls", KEY_MARK, FIELD(polls), "true or false"},
        {"pstate_after_us", KEY_NUMBER, FIELD(pstate_after_ns), RANGE(1000, 1000000, 1e3)},
        {"choose", KEY_OTHER, .read = read_choose},
        {"fallback", KEY_NAME, FIELD(fallback), NAME},
};

/* Checks what concerns several keys, or a missing one. */
static int check_whole(const json_t *root, const struct policy *policy, struct error *error)
{
	static const char *const required[] = {"version", "name", "summary", "rungs"};

	for (const char *c = policy->summary; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return error_set(error, -EINVAL, "'summary' has a control character");
	for (size_t i = 0; i < COUNT(required); i++)
		if (!json_object_get(root, required[i]))
			return error_set(error, -EINVAL, "'%s' is missing", required[i]);
	if (policy->needs & ~policy->rungs)
		return error_set(error, -EINVAL, "'needs' has a rung that 'rungs' lacks");
	if (policy->rungs && !json_object_get(root, "budget"))
		return error_set(error, -EINVAL, "'budget' is missing: a policy with rungs needs one");
	if (json_object_get(root, "pstate_after_us") && !(policy->rungs & 1u << MPIWAIT_RUNG_PSTATE))
		return error_set(error, -EINVAL, "'pstate_after_us' without the rung 'pstate'");
	if (json_object_get(root, "slowdown_percent") && !policy->rungs)
		return error_set(error, -EINVAL, "'slowdown_percent' without rungs");
	if (policy->polls && !policy->rungs)
		return error_set(error, -EINVAL, "'polls' without rungs");
	if (policy->rungs && policy->choose_count)
		return error_set(error, -EINVAL, "'choose' and rungs exclude each other");
	if (!policy->inject && (policy->rungs || policy->choose_count || policy->fallback[0]))
		return error_set(error, -EINVAL, "a policy with 'inject' false has no rungs, 'choose' or 'fallback'");
	return 0;
}

int policy_parse(const char *text, size_t length, const char *name, struct policy *ret_policy, struct error *error)
{
	struct policy policy = {.inject = true, .pstate_after_ns = PSTATE_AFTER_NS};
	unsigned failures = memory_failures();
	json_error_t problem;
	json_auto_t *root = memory_json_explained(text, length, JSON_REJECT_DUPLICATES, &problem);
	int rc;

	if (memory_failures() != failures)
		return error_set(error, -ENOMEM, "no memory to read it");
	if (!root)
		return error_set(error, -EINVAL, "line %d: %s", problem.line, problem.text);
	if (!json_is_object(root))
		return error_set(error, -EINVAL, "not a JSON object");
	rc = read_keys(root, file_keys, COUNT(file_keys), "unknown key",
	               "version, name, summary, inject, rungs, needs, budget, slowdown_percent, threads, polls, "
	               "pstate_after_us, choose, fallback",
	               &policy, error);
	if (rc == 0)
		rc = check_whole(root, &policy, error);
	if (rc < 0)
		return rc;
	if (strcmp(policy.name, name) != 0)
		return error_set(error, -EINVAL, "'name' is '%s', but the file is called '%s.json'", policy.name, name);
	*ret_policy = policy;
	return 0;
}

const struct policy *policy_find(const struct policy_set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++)
		if (strcmp(set->policy[i].name, name) == 0)
			return &set->policy[i];
	return NULL;
}

/* Returns why the host cannot run the policy; NULL: it can. */
static const char *lacking(const struct policy *policy, const struct policy_support *support)
{
	uint32_t missing = policy->needs & ~support->rungs;

	return missing ? support->why[__builtin_ctz(missing)] : NULL;
}

/* Returns the first of the policy's choices that the host supports, or NULL. A choice must have no choices itself. */
static const struct policy *choose(const struct policy_set *set, const struct policy *policy,
                                   const struct policy_support *support)
{
	for (size_t i = 0; i < policy->choose_count; i++) {
		const struct policy *candidate = policy_find(set, policy->choose[i]);

		if (candidate && candidate->choose_count == 0 && !lacking(candidate, support))
			return candidate;
	}
	return NULL;
}

const struct policy *policy_resolve(const struct policy_set *set, const char *asked,
                                    const struct policy_support *support, struct policy_use *ret_use)
{
	const struct policy *policy = policy_find(set, asked), *used = NULL;
	const char *why = NULL;

	if (!policy)
		return NULL;
	/* as many steps as there are policies, so that a circle of fallbacks ends */
	for (size_t steps = 0; policy && !used && steps < set->count; steps++) {
		const char *lacks = lacking(policy, support);

		if (policy->choose_count)
			used = choose(set, policy, support);
		else if (!lacks)
			used = policy;
		if (!used && !why)
			why = lacks ? lacks : "nothing to choose from";
		policy = policy_find(set, policy->fallback);
	}
	used = used ? used : policy_find(set, "profile");
	if (!used)
		return NULL;
	snprintf(ret_use->asked, sizeof(ret_use->asked), "%s", asked);
	snprintf(ret_use->used, sizeof(ret_use->used), "%s", used->name);
	snprintf(ret_use->why, sizeof(ret_use->why), "%s", why ? why : "");
	return used;
}

static void flatten_rungs(uint32_t rungs, char *buffer, size_t size)
{
	text_add(buffer, size, "v=1;rungs=%s", rungs ? "" : "none");
	for (unsigned i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		if (rungs & 1u << i)
			text_add(buffer, size, "%s%s", rungs & ((1u << i) - 1) ? "+" : "", policy_rung_name(i));
}

static void flatten_needs(const struct policy *policy, const struct cpu *cpu, char *buffer, size_t size)
{
	if (policy->rungs & POLICY_RUNGS_BY_TSC && cpu->tsc_khz)
		text_add(buffer, size, ";tsc_khz=%" PRIu64, cpu->tsc_khz);
	if (policy->rungs & 1u << MPIWAIT_RUNG_UMWAIT && cpu->waitpkg && cpu->tsc_khz)
		text_add(buffer, size, ";umwait_max_ns=%" PRIu64 ";umwait_c02=%d", cpu->umwait_max_ns, cpu->umwait_c02);
	if (policy->rungs & 1u << MPIWAIT_RUNG_PSTATE)
		text_add(buffer, size, ";pstate_after_ns=%u", policy->pstate_after_ns);
}

int policy_flatten(const struct policy *policy, const struct cpu *cpu, bool shared, bool profile, char *buffer,
                   size_t size)
{
	size_t length;

	buffer[0] = '\0';
	flatten_rungs(policy->rungs, buffer, size);
	text_add(buffer, size,
	         ";spin_ns=%u;relative_ppm=%u;absolute_ns=%u;max_ns=%u;rma_ns=%u;shared=%d;profile=%d%s%s%s%s",
	         policy->spin_ns, policy->relative_ppm, policy->absolute_ns, policy->max_ns, policy->rma_ns, shared,
	         profile, policy->inject ? "" : ";off=1", policy->ibarrier ? ";ibarrier=1" : "",
	         policy->rungs && policy->polls ? ";polls=1" : "", policy->sites ? ";sites=1" : "");
	if (policy->rungs && policy->slowdown_ppm)
		text_add(buffer, size, ";slowdown_ppm=%u", policy->slowdown_ppm);
	flatten_needs(policy, cpu, buffer, size);
	length = strlen(buffer);
	return length + 1 < size ? (int)length : -ENOSPC; /* a full buffer may hold a text that was cut */
}
