/*
 * The only parser of policies, and the choice of the one that a host can serve.
 *
 * Invariant: a struct policy that came out of here satisfies policies/policy.schema.json.
 */
#include "spank/policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/memory.h"

#define POLICY_FORMAT   1
#define PSTATE_AFTER_NS 5000000 /* without pstate_after_us */

static const char *const rung_names[MPIWAIT_RUNG_COUNT] = {
#define RUNG(constant, name, ...) name,
#include "preload/rungs.def"
};

const char *policy_rung_name(unsigned rung)
{
	return rung < MPIWAIT_RUNG_COUNT ? rung_names[rung] : "unknown";
}

int policy_rung_find(const char *name)
{
	for (int i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		if (strcmp(rung_names[i], name) == 0)
			return i;
	return -1;
}

/* Why the rung cannot be done on that processor; NULL: it can. */
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

static bool name_is_valid(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length < POLICY_NAME_MAX && name[0] >= 'a' && name[0] <= 'z' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

/* A key of a file, or of its budget: how it is read, into which field. */
struct key {
	const char *name;
	int (*read)(const json_t *value, const struct key *key, void *field, struct error *error);
	size_t offset;             /* of the field in struct policy */
	double least, most, scale; /* of a number; by what it is multiplied */
};

static const struct key *key_find(const struct key keys[], size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static int read_nothing(const json_t *value, const struct key *key, void *field, struct error *error)
{
	(void)value, (void)key, (void)field, (void)error;
	return 0;
}

static int read_version(const json_t *value, const struct key *key, void *field, struct error *error)
{
	(void)field;
	if (json_is_integer(value) && json_integer_value(value) == POLICY_FORMAT)
		return 0;
	return error_set(error, -EINVAL, "'%s' is not %d", key->name, POLICY_FORMAT);
}

static int read_name(const json_t *value, const struct key *key, void *field, struct error *error)
{
	const char *text = json_string_value(value);

	if (!text || json_string_length(value) != strlen(text) || !name_is_valid(text))
		return error_set(error, -EINVAL,
		                 "'%s' is not the name of a policy (a-z, 0-9, '_' and '-', under %d bytes)", key->name,
		                 POLICY_NAME_MAX);
	snprintf(field, POLICY_NAME_MAX, "%s", text);
	return 0;
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
		int rung = name ? policy_rung_find(name) : -1;

		if (rung < 0)
			return error_set(error, -EINVAL,
			                 "'%s' has '%s' (accepted: pause, yield, umwait, mwaitx, nap, event, pstate)",
			                 key->name, name ? name : "a value that is no string");
		if (*rungs & 1u << rung)
			return error_set(error, -EINVAL, "'%s' has '%s' twice", key->name, name);
		*rungs |= 1u << rung;
	}
	return 0;
}

static int read_number(const json_t *value, const struct key *key, void *field, struct error *error)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || !(number >= key->least) || number > key->most)
		return error_set(error, -EINVAL, "'%s' is not a number from %g to %.7g", key->name, key->least,
		                 key->most);
	*(uint64_t *)field = (uint64_t)(number * key->scale + 0.5);
	return 0;
}

static int read_flag(const json_t *value, const struct key *key, void *field, struct error *error)
{
	if (!json_is_boolean(value))
		return error_set(error, -EINVAL, "'%s' is not true or false", key->name);
	*(bool *)field = json_is_true(value);
	return 0;
}

static int read_threads(const json_t *value, const struct key *key, void *field, struct error *error)
{
	const char *word = json_string_value(value);
	enum site_threads threads = word ? site_threads_find(word) : SITE_THREADS_UNSAID;

	if (threads == SITE_THREADS_UNSAID)
		return error_set(error, -EINVAL, "'%s' is not one of " SITE_THREADS_WORDS, key->name);
	*(enum site_threads *)field = threads;
	return 0;
}

#define FIELD(member) offsetof(struct policy, member)

#define BUDGET_KEYS "spin_us, relative, absolute_us, max_us, rma_us"

static const struct key budget_keys[] = {
        {"spin_us", read_number, FIELD(spin_ns), 0, 1e6, 1e3},
        {"relative", read_number, FIELD(relative_ppm), 0, 1, 1e6},
        {"absolute_us", read_number, FIELD(absolute_ns), 0, 1e5, 1e3},
        {"max_us", read_number, FIELD(max_ns), 0, 1e5, 1e3},
        {"rma_us", read_number, FIELD(rma_ns), 0, 1e5, 1e3},
};

static int read_budget(const json_t *value, const struct key *key, void *policy, struct error *error)
{
	const char *name;
	json_t *item;

	if (!json_is_object(value))
		return error_set(error, -EINVAL, "'%s' is not an object", key->name);
	json_object_foreach((json_t *)value, name, item)
	{
		const struct key *part = key_find(budget_keys, sizeof(budget_keys) / sizeof(budget_keys[0]), name);

		if (!part)
			return error_set(error, -EINVAL, "'budget' has '%s' (accepted: " BUDGET_KEYS ")", name);
		int rc = part->read(item, part, (char *)policy + part->offset, error);
		if (rc < 0)
			return rc;
	}
	if (json_object_size(value) != sizeof(budget_keys) / sizeof(budget_keys[0]))
		return error_set(error, -EINVAL, "'budget' lacks one of " BUDGET_KEYS);
	return 0;
}

static int read_choose(const json_t *value, const struct key *key, void *field, struct error *error)
{
	struct policy *policy = field;
	const json_t *item;
	size_t i;

	if (!json_is_array(value) || json_array_size(value) == 0 || json_array_size(value) > POLICY_CHOICES_MAX)
		return error_set(error, -EINVAL, "'choose' is not a list of 1 to %d policies", POLICY_CHOICES_MAX);
	json_array_foreach(value, i, item)
	{
		int rc = read_name(item, key, policy->choose[i], error);

		if (rc < 0)
			return rc;
	}
	policy->choose_count = json_array_size(value);
	return 0;
}

static int read_summary(const json_t *value, const struct key *key, void *field, struct error *error)
{
	const size_t size = sizeof(((struct policy *)NULL)->summary);
	const char *text = json_string_value(value);

	if (!text || !text[0] || strlen(text) >= size || strlen(text) != json_string_length(value))
		return error_set(error, -EINVAL, "'%s' is not a string of 1 to %zu bytes", key->name, size - 1);
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return error_set(error, -EINVAL, "'%s' has a control character", key->name);
	snprintf(field, size, "%s", text);
	return 0;
}

static const struct key keys[] = {
        {.name = "$schema", .read = read_nothing},
        {.name = "version", .read = read_version},
        {.name = "name", .read = read_name, .offset = FIELD(name)},
        {.name = "summary", .read = read_summary, .offset = FIELD(summary)},
        {.name = "inject", .read = read_flag, .offset = FIELD(inject)},
        {.name = "rungs", .read = read_rungs, .offset = FIELD(rungs)},
        {.name = "needs", .read = read_rungs, .offset = FIELD(needs)},
        {.name = "budget", .read = read_budget},
        {"slowdown_percent", read_number, FIELD(slowdown_ppm), 0.01, 50, 1e4},
        {.name = "threads", .read = read_threads, .offset = FIELD(threads)},
        {.name = "polls", .read = read_flag, .offset = FIELD(polls)},
        {"pstate_after_us", read_number, FIELD(pstate_after_ns), 1e3, 1e6, 1e3},
        {.name = "choose", .read = read_choose},
        {.name = "fallback", .read = read_name, .offset = FIELD(fallback)},
};

static int read_key(const char *name, const json_t *value, struct policy *policy, struct error *error)
{
	const struct key *key = key_find(keys, sizeof(keys) / sizeof(keys[0]), name);

	if (key)
		return key->read(value, key, (char *)policy + key->offset, error);
	return error_set(error, -EINVAL,
	                 "unknown key '%s' (accepted: version, name, summary, inject, rungs, needs, budget, "
	                 "slowdown_percent, threads, polls, pstate_after_us, choose, fallback)",
	                 name);
}

/* What no single key can say. */
static int check_whole(const json_t *root, const struct policy *policy, struct error *error)
{
	static const char *const required[] = {"version", "name", "summary", "rungs"};

	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
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
	const char *key;
	json_t *value;

	if (memory_failures() != failures)
		return error_set(error, -ENOMEM, "no memory to read it");
	if (!root)
		return error_set(error, -EINVAL, "line %d: %s", problem.line, problem.text);
	if (!json_is_object(root))
		return error_set(error, -EINVAL, "not a JSON object");
	json_object_foreach(root, key, value)
	{
		int rc = read_key(key, value, &policy, error);

		if (rc < 0)
			return rc;
	}
	int rc = check_whole(root, &policy, error);
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

static const char *lacking(const struct policy *policy, const struct policy_support *support)
{
	uint32_t missing = policy->needs & ~support->rungs;

	return missing ? support->why[__builtin_ctz(missing)] : NULL;
}

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
	const struct policy *policy = policy_find(set, asked);
	const char *why = NULL;

	if (!policy)
		return NULL;
	/* As many steps as there are policies: a circle of fallbacks ends too. */
	for (size_t steps = 0; policy && steps < set->count; steps++) {
		const struct policy *chosen = policy->choose_count ? choose(set, policy, support) : policy;
		const char *reason = chosen ? lacking(chosen, support) : "nothing to choose from";

		if (chosen && !reason) {
			policy = chosen;
			break;
		}
		why = why ? why : reason;
		policy = policy_find(set, policy->fallback);
	}
	if (!policy || lacking(policy, support) || policy->choose_count) {
		policy = policy_find(set, "profile");
		if (!policy)
			return NULL;
	}
	snprintf(ret_use->asked, sizeof(ret_use->asked), "%s", asked);
	snprintf(ret_use->used, sizeof(ret_use->used), "%s", policy->name);
	snprintf(ret_use->why, sizeof(ret_use->why), "%s", why ? why : "");
	return policy;
}

static size_t flatten_rungs(uint32_t rungs, char *buffer, size_t size)
{
	size_t used = 0;

	if (!rungs)
		return (size_t)snprintf(buffer, size, "none");
	for (unsigned i = 0; i < MPIWAIT_RUNG_COUNT && used < size; i++)
		if (rungs & 1u << i)
			used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? "+" : "",
			                         policy_rung_name(i));
	return used;
}

static void flatten_needs(const struct policy *policy, const struct cpu *cpu, char *buffer, size_t size)
{
	int used = 0;

	buffer[0] = '\0';
	if (policy->rungs & POLICY_RUNGS_BY_TSC && cpu->tsc_khz)
		used = snprintf(buffer, size, ";tsc_khz=%llu", (unsigned long long)cpu->tsc_khz);
	if (used > 0 && policy->rungs & 1u << MPIWAIT_RUNG_UMWAIT && cpu->waitpkg)
		used += snprintf(buffer + used, size - (size_t)used, ";umwait_max_ns=%llu;umwait_c02=%d",
		                 (unsigned long long)cpu->umwait_max_ns, cpu->umwait_c02);
	if (policy->rungs & 1u << MPIWAIT_RUNG_PSTATE)
		snprintf(buffer + used, size - (size_t)used, ";pstate_after_ns=%llu",
		         (unsigned long long)policy->pstate_after_ns);
}

int policy_flatten(const struct policy *policy, const struct cpu *cpu, bool shared, bool profile, char *buffer,
                   size_t size)
{
	char rungs[96], needs[128], slowdown[40] = "";
	int length;

	flatten_rungs(policy->rungs, rungs, sizeof(rungs));
	flatten_needs(policy, cpu, needs, sizeof(needs));
	if (policy->rungs && policy->slowdown_ppm)
		snprintf(slowdown, sizeof(slowdown), ";slowdown_ppm=%llu", (unsigned long long)policy->slowdown_ppm);
	length = snprintf(buffer, size,
	                  "v=1;rungs=%s;spin_ns=%llu;relative_ppm=%llu;absolute_ns=%llu;max_ns=%llu;rma_ns=%llu;shared="
	                  "%d;profile=%d%s%s%s%s%s",
	                  rungs, (unsigned long long)policy->spin_ns, (unsigned long long)policy->relative_ppm,
	                  (unsigned long long)policy->absolute_ns, (unsigned long long)policy->max_ns,
	                  (unsigned long long)policy->rma_ns, shared, profile, policy->ibarrier ? ";ibarrier=1" : "",
	                  policy->rungs && policy->polls ? ";polls=1" : "", policy->sites ? ";sites=1" : "", slowdown,
	                  needs);
	return length >= 0 && (size_t)length < size ? length : -ENOSPC;
}
