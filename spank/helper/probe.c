#include "spank/helper/probe.h"

#include "spank/base/cleanup.h"
#include "spank/base/run_directory.h"
#include "spank/machine/rapl.h"
#include "spank/policy/cpu.h"
#include "spank/policy/policy.h"

#include <stdlib.h>

static json_t *rungs_json(const struct policy_support *support)
{
	json_t *rungs = json_object();

	for (unsigned i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		json_object_set_new(rungs, policy_rung_name(i), json_string(support->why[i]));
	return rungs;
}

static json_t *policies_json(const struct policy_set *set, const struct site *site,
                             const struct policy_support *support)
{
	json_t *policies = json_array();

	for (size_t i = 0; i < set->count; i++) {
		const struct policy *policy = &set->policy[i];
		struct policy_use use = {.asked = ""};

		policy_resolve(set, policy->name, support, &use);
		json_array_append_new(policies, json_pack("{s:s,s:s,s:s,s:s,s:b}", "name", policy->name, "summary",
		                                          policy->summary, "used", use.used, "why", use.why, "allowed",
		                                          site_allows(site, policy->name)));
	}
	return policies;
}

static json_t *zones_json(const struct rapl *rapl)
{
	cleanup_free struct rapl_zone *zone = calloc(RAPL_ZONES_MAX, sizeof(*zone));
	size_t count = zone ? rapl_read(rapl, zone) : 0;
	json_t *zones = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(zones,
		                      json_pack("{s:s,s:s,s:I,s:I,s:I}", "name", zone[i].name, "kind",
		                                rapl_kind_name(zone[i].kind), "energy_uj",
		                                (json_int_t)zone[i].energy_uj, "range_uj", (json_int_t)zone[i].range_uj,
		                                "power_max_uw", (json_int_t)zone[i].power_max_uw));
	return zones;
}

static json_t *energy_json(void)
{
	struct error error = {""};
	struct rapl *rapl = NULL;
	json_t *zones;

	if (getuid() != 0)
		return json_pack("{s:s,s:s,s:[]}", "source", rapl_source(), "why", "not root", "zones");
	if (rapl_open(&rapl, &error))
		return json_pack("{s:s,s:s,s:[]}", "source", rapl_source(), "why", error.text, "zones");
	zones = zones_json(rapl);
	rapl_close(rapl);
	return json_pack("{s:s,s:s,s:o}", "source", rapl_source(), "why", "", "zones", zones);
}

json_t *probe_json(const struct site *site)
{
	cleanup_free struct policy_set *set = calloc(1, sizeof(*set));
	struct policy_support support;
	struct state_place place;
	struct error left_out = {""};
	struct cpu cpu;

	if (!set)
		return NULL;
	cpu_probe(&cpu);
	policy_probe(&cpu, site->grant, &support);
	policy_load(site->policies, MPIWAIT_POLICIES, NULL, set, &left_out);
	if (state_place_init(NULL, &place))
		place.node[0] = '\0';
	return json_pack("{s:s,s:s,s:s,s:s,s:I,s:o,s:o,s:s,s:o}", "release", MPIWAIT_RELEASE, "node", place.node,
	                 "library", MPIWAIT_LIBRARY, "policies_directory", MPIWAIT_POLICIES, "tsc_khz",
	                 (json_int_t)cpu.tsc_khz, "rungs", rungs_json(&support), "policies",
	                 policies_json(set, site, &support), "left_out", left_out.text, "energy", energy_json());
}
