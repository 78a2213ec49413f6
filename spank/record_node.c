#include "spank/record_node.h"

#include "preload/stats.h"
#include "spank/cleanup.h"
#include "spank/memory.h"
#include "spank/profile.h"
#include "spank/record_energy.h"

#include <errno.h>
#include <string.h>

#define COUNT_MAX        1000000000000000LL
#define MICROSECONDS_MAX 1000000000000000000LL /* 1e12 s */
#define MICROJOULES_MAX  COUNT_MAX
#define CALLS_MAX        (MPIWAIT_CALLS + 1)
#define RANK_MAX         ((1 << 24) - 1)

static bool characters_ok(const char *text, const char *accepted)
{
	return strspn(text, accepted) == strlen(text);
}

#define LOWER   "abcdefghijklmnopqrstuvwxyz"
#define UPPER   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"
#define NAMES   LOWER UPPER DIGITS "._-"
#define REASONS LOWER UPPER DIGITS " ._-,:;()/+=%"

/* A string of accepted characters that fits. */
static bool text_get(const json_t *object, const char *key, char *buffer, size_t size, const char *accepted)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text || strlen(text) >= size || !characters_ok(text, accepted))
		return false;
	strcpy(buffer, text);
	return true;
}

/* A reason in words: what a record should not hold is replaced, the record is not refused for it. */
static bool reason_get(const json_t *object, const char *key, char *buffer, size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));
	size_t length;

	if (!text)
		return false;
	snprintf(buffer, size, "%s", text);
	while ((length = strspn(buffer, REASONS)) < strlen(buffer))
		buffer[length] = ' ';
	return true;
}

/* An integer that lies in [0, most]; *ret_value 0 and false for anything else. */
static bool integer_of(const json_t *value, int64_t most, uint64_t *ret_value)
{
	json_int_t number = json_integer_value(value);
	bool good = json_is_integer(value) && number >= 0 && number <= most;

	*ret_value = good ? (uint64_t)number : 0;
	return good;
}

static bool integer_get(const json_t *object, const char *key, int64_t most, uint64_t *ret_value)
{
	return integer_of(json_object_get(object, key), most, ret_value);
}

/* The same where it is there at all: older nodes do not have it. */
static bool maybe_get(const json_t *object, const char *key, int64_t most, uint64_t *ret_value)
{
	return !json_object_get(object, key) || integer_get(object, key, most, ret_value);
}

static bool id_get(const json_t *object, const char *key, bool null_ok, uint32_t *ret_id)
{
	const json_t *value = json_object_get(object, key);
	uint64_t id;

	if (null_ok && json_is_null(value)) {
		*ret_id = RECORD_NODE_NONE;
		return true;
	}
	if (!integer_of(value, UINT32_MAX - 1, &id))
		return false;
	*ret_id = (uint32_t)id;
	return true;
}

static bool times_get(const json_t *object, double *ret_start_s, double *ret_end_s)
{
	double start = json_number_value(json_object_get(object, "start_s"));
	double end = json_number_value(json_object_get(object, "end_s"));

	if (!(start >= 0 && start < 1e11 && end >= 0 && end < 1e11))
		return false;
	*ret_start_s = start;
	*ret_end_s = end < start ? start : end; /* the clock was set back meanwhile */
	return true;
}

static bool policy_name_ok(const char *name)
{
	return name[0] >= 'a' && name[0] <= 'z';
}

/* A policy with asked "" is none. */
static bool policy_get(const json_t *object, struct policy_use *ret_use)
{
	const json_t *policy = json_object_get(object, "policy");

	if (!text_get(policy, "asked", ret_use->asked, sizeof(ret_use->asked), LOWER DIGITS "_-") ||
	    !text_get(policy, "used", ret_use->used, sizeof(ret_use->used), LOWER DIGITS "_-") ||
	    !reason_get(policy, "why", ret_use->why, sizeof(ret_use->why)) ||
	    !text_get(policy, "by", ret_use->by, sizeof(ret_use->by), LOWER))
		return false;
	if (ret_use->by[0] && strcmp(ret_use->by, "job") != 0 && strcmp(ret_use->by, "step") != 0 &&
	    strcmp(ret_use->by, "site") != 0)
		return false;
	return !ret_use->asked[0] || (policy_name_ok(ret_use->asked) && policy_name_ok(ret_use->used));
}

/* Zones that were not whole, as the kernel and we name them. */
static bool dropped_ok(const json_t *dropped)
{
	char name[2 * RAPL_NAME_MAX], why[16];
	const json_t *zone;
	size_t i;

	if (dropped && (!json_is_array(dropped) || json_array_size(dropped) > RAPL_ZONES_MAX))
		return false;
	json_array_foreach((json_t *)dropped, i, zone)
	{
		json_auto_t *names =
		        json_pack("{s:O?, s:O?}", "zone", json_array_get(zone, 0), "why", json_array_get(zone, 1));

		if (!text_get(names, "zone", name, sizeof(name), NAMES "/") ||
		    !text_get(names, "why", why, sizeof(why), LOWER))
			return false;
	}
	return true;
}

static bool energy_get(const json_t *object, struct record_energy *ret_energy)
{
	const json_t *energy = json_object_get(object, "energy"), *zones = json_object_get(energy, "zones_uj"), *zone;
	const char *source = json_string_value(json_object_get(energy, "source"));
	const char *name;
	uint64_t value;

	if (!energy || json_is_null(energy))
		return true;
	if (!source || !json_is_object(zones) || !integer_get(energy, "gaps", 1000000, &value))
		return false;
	ret_energy->gaps = (uint32_t)value;
	ret_energy->simulated = strcmp(source, "rapl") != 0;
	json_object_foreach((json_t *)zones, name, zone)
	{
		int kind = rapl_kind_find(name);

		if (kind < 0 || !integer_of(zone, MICROJOULES_MAX, &value))
			return false;
		ret_energy->has[kind] = true;
		ret_energy->zone_j[kind] = (double)value / 1e6;
		ret_energy->present = true;
	}
	ret_energy->dropped = json_incref(json_object_get(energy, "dropped"));
	ret_energy->has_own = json_object_get(energy, "own_uj");
	if (ret_energy->has_own && !integer_get(energy, "own_uj", MICROJOULES_MAX, &value))
		return false;
	ret_energy->own_j = ret_energy->has_own ? (double)value / 1e6 : 0;
	return dropped_ok(ret_energy->dropped);
}

/* [rank, wait_us] or [rank, wait_us, asleep_us] */
static bool rank_of(const json_t *value, size_t numbers, struct record_rank *ret_rank)
{
	json_int_t rank = json_integer_value(json_array_get(value, 0));

	if (json_array_size(value) != numbers || !json_is_integer(json_array_get(value, 0)) || rank < -1 ||
	    rank > RANK_MAX || !integer_of(json_array_get(value, 1), MICROSECONDS_MAX, &ret_rank->wait_us) ||
	    (numbers > 2 && !integer_of(json_array_get(value, 2), MICROSECONDS_MAX, &ret_rank->asleep_us)))
		return false;
	ret_rank->rank = (int32_t)rank;
	return true;
}

static bool ranks_get(const json_t *wait, struct record_wait *ret_wait)
{
	const json_t *ranks = json_object_get(wait, "ranks"), *rank;
	size_t i;

	if (!json_is_array(ranks) || json_array_size(ranks) > MPIWAIT_SLOTS_MAX)
		return false;
	ret_wait->rank = memory_array(json_array_size(ranks) + 1, sizeof(*ret_wait->rank));
	if (!ret_wait->rank)
		return false;
	json_array_foreach(ranks, i, rank) if (!rank_of(rank, 3, &ret_wait->rank[ret_wait->rank_count++])) return false;
	return true;
}

static bool omitted_get(const json_t *wait, struct record_wait *ret_wait)
{
	const json_t *omitted = json_object_get(wait, "omitted");

	if (!omitted)
		return true;
	return integer_get(omitted, "count", MPIWAIT_SLOTS_MAX, &ret_wait->omitted) && ret_wait->omitted > 0 &&
	       integer_get(omitted, "wait_us", MICROSECONDS_MAX, &ret_wait->omitted_sum.wait_us) &&
	       integer_get(omitted, "asleep_us", MICROSECONDS_MAX, &ret_wait->omitted_sum.asleep_us) &&
	       rank_of(json_object_get(omitted, "min"), 2, &ret_wait->omitted_min) &&
	       rank_of(json_object_get(omitted, "max"), 2, &ret_wait->omitted_max);
}

static bool call_name_ok(const char *name)
{
	if (strcmp(name, "other") == 0)
		return true;
	return strncmp(name, "MPI_", 4) == 0 && name[4] && strlen(name) < RECORD_NODE_CALL_MAX &&
	       characters_ok(name + 4, LOWER UPPER "_");
}

static bool calls_get(const json_t *wait, struct record_wait *ret_wait)
{
	json_t *calls = json_object_get(wait, "calls"), *call;
	const char *name;

	if (!json_is_object(calls) || json_object_size(calls) > CALLS_MAX)
		return false;
	ret_wait->call = memory_array(json_object_size(calls) + 1, sizeof(*ret_wait->call));
	if (!ret_wait->call)
		return false;
	json_object_foreach(calls, name, call)
	{
		struct record_call *have = &ret_wait->call[ret_wait->call_count++];

		snprintf(have->name, sizeof(have->name), "%s", name);
		if (!call_name_ok(name) || !integer_of(json_array_get(call, 0), MICROSECONDS_MAX, &have->calls) ||
		    !integer_of(json_array_get(call, 1), MICROSECONDS_MAX, &have->waits) ||
		    !integer_of(json_array_get(call, 2), MICROSECONDS_MAX, &have->wait_us) ||
		    !integer_of(json_array_get(call, 3), MICROSECONDS_MAX, &have->longest_us))
			return false;
	}
	return true;
}

static bool profile_get(const json_t *wait, struct record_wait *ret_wait)
{
	const json_t *profile = json_object_get(wait, "profile");

	if (profile && profile_is_good(profile))
		ret_wait->profile = memory_text(profile, JSON_COMPACT);
	return !profile || ret_wait->profile;
}

static bool places_get(const json_t *wait, struct record_wait *ret_wait)
{
	const json_t *places = json_object_get(wait, "places");

	for (size_t i = 0; places && i < MPIWAIT_PLACES; i++)
		if (!integer_of(json_array_get(places, i), MICROSECONDS_MAX, &ret_wait->place_bytes[i]))
			return false;
	return !places || json_array_size(places) == MPIWAIT_PLACES;
}

static bool wait_get(const json_t *step, struct record_wait *ret_wait)
{
	const json_t *wait = json_object_get(step, "wait");

	if (!wait || json_is_null(wait))
		return true;
	return profile_get(wait, ret_wait) && places_get(wait, ret_wait) && ranks_get(wait, ret_wait) &&
	       omitted_get(wait, ret_wait) && calls_get(wait, ret_wait) && service_parse(wait, &ret_wait->service) &&
	       integer_get(wait, "size", RANK_MAX, &ret_wait->size) &&
	       integer_get(wait, "unseen", RANK_MAX, &ret_wait->unseen) &&
	       maybe_get(wait, "doubtful", RANK_MAX, &ret_wait->doubtful) &&
	       integer_get(wait, "span_us", MICROSECONDS_MAX, &ret_wait->span_us) &&
	       maybe_get(wait, "naps", MICROSECONDS_MAX, &ret_wait->naps) &&
	       maybe_get(wait, "low_us", MICROSECONDS_MAX, &ret_wait->low_us) &&
	       maybe_get(wait, "transitions", MICROSECONDS_MAX, &ret_wait->transitions) &&
	       integer_get(wait, "late", MICROSECONDS_MAX, &ret_wait->late) &&
	       integer_get(wait, "late_us", MICROSECONDS_MAX, &ret_wait->late_us) &&
	       integer_get(wait, "sampled_us", MICROSECONDS_MAX, &ret_wait->sampled_us) &&
	       integer_get(wait, "sampled_cpu_us", MICROSECONDS_MAX, &ret_wait->sampled_cpu_us);
}

static bool step_id_ok(const char *id)
{
	return strcmp(id, "batch") == 0 || strcmp(id, "extern") == 0 || strcmp(id, "interactive") == 0 ||
	       (id[0] && characters_ok(id, DIGITS));
}

static int steps_get(const json_t *json, struct record_node *node, struct error *error)
{
	const json_t *steps = json_object_get(json, "steps"), *value;
	size_t i;

	if (!json_is_array(steps) || json_array_size(steps) > RECORD_NODE_STEPS_MAX)
		return error_set(error, -EINVAL, "\"steps\" is no list of at most %d", RECORD_NODE_STEPS_MAX);
	node->step = memory_array(json_array_size(steps) + 1, sizeof(*node->step));
	for (i = 0; node->step && (value = json_array_get(steps, i)); i++) {
		struct record_step *step = &node->step[node->step_count++];

		if (!text_get(value, "id", step->id, sizeof(step->id), NAMES) || !step_id_ok(step->id) ||
		    !times_get(value, &step->start_s, &step->end_s))
			return error_set(error, -EINVAL, "\"steps\"[%zu]: id or times", i);
		if (json_object_get(value, "policy") && !policy_get(value, &step->policy))
			return error_set(error, -EINVAL, "\"steps\"[%zu]: policy", i);
		if (!energy_get(value, &step->energy))
			return error_set(error, -EINVAL, "\"steps\"[%zu]: energy", i);
		if (!record_grant_get(value, &step->grant))
			return error_set(error, -EINVAL, "\"steps\"[%zu]: grant", i);
		if (!record_csv_get(value, &step->csv))
			return error_set(error, -EINVAL, "\"steps\"[%zu]: csv", i);
		if (!wait_get(value, &step->wait))
			return error_set(error, -EINVAL, "\"steps\"[%zu]: wait", i);
	}
	return 0;
}

static int identity_get(const json_t *json, struct record_node *node, struct error *error)
{
	const char *kind = json_string_value(json_object_get(json, "kind"));

	if (!kind || strcmp(kind, "node") != 0 || json_integer_value(json_object_get(json, "v")) != 1)
		return error_set(error, -EINVAL, "no node record of version 1");
	if (!text_get(json, "node", node->node, sizeof(node->node), NAMES) || !node->node[0] || node->node[0] == '.' ||
	    !text_get(json, "cluster", node->cluster, sizeof(node->cluster), NAMES) || !node->cluster[0])
		return error_set(error, -EINVAL, "\"node\" or \"cluster\" is no name");
	if (!id_get(json, "job_id", false, &node->job_id) || !id_get(json, "array_job_id", true, &node->array_job_id) ||
	    !id_get(json, "array_task_id", true, &node->array_task_id) ||
	    !id_get(json, "het_job_id", true, &node->het_job_id) ||
	    !id_get(json, "het_offset", true, &node->het_offset) ||
	    !id_get(json, "restart_count", false, &node->restart_count) || !id_get(json, "gid", false, &node->gid))
		return error_set(error, -EINVAL, "an id is no number");
	node->nodes = json_string_value(json_object_get(json, "nodes"));
	if (!node->nodes || !characters_ok(node->nodes, NAMES "[],"))
		return error_set(error, -EINVAL, "\"nodes\" is no node list");
	return 0;
}

static int facts_get(const json_t *json, struct record_node *node, struct error *error)
{
	uint64_t cores, cores_total;

	if (!policy_get(json, &node->policy))
		return error_set(error, -EINVAL, "\"policy\"");
	if (!times_get(json, &node->start_s, &node->end_s))
		return error_set(error, -EINVAL, "\"start_s\" or \"end_s\"");
	run_read(json, &node->run);
	node->run.start_s = node->start_s;
	node->run.end_s = node->end_s;
	if (!integer_get(json, "cores", 1000000, &cores) || !integer_get(json, "cores_total", 1000000, &cores_total))
		return error_set(error, -EINVAL, "\"cores\" or \"cores_total\"");
	node->cores = (double)cores;
	node->cores_total = (double)cores_total;
	if (!energy_get(json, &node->energy) ||
	    !reason_get(json, "energy_why", node->energy_why, sizeof(node->energy_why)))
		return error_set(error, -EINVAL, "\"energy\" or \"energy_why\"");
	if (!record_watts_get(json_object_get(json, "watts"), &node->watts))
		return error_set(error, -EINVAL, "\"watts\"");
	if (!record_power_get(json_object_get(json, "power_mw"), &node->power))
		return error_set(error, -EINVAL, "\"power_mw\"");
	if (!record_throttle_get(json_object_get(json, "throttle"), node))
		return error_set(error, -EINVAL, "\"throttle\"");
	if (!integer_get(json, "steps_left_out", COUNT_MAX, &node->steps_left_out))
		return error_set(error, -EINVAL, "\"steps_left_out\"");
	if (!maybe_get(json, "steps_summed", COUNT_MAX, &node->steps_summed))
		return error_set(error, -EINVAL, "\"steps_summed\"");
	return 0;
}

int record_node_parse(const json_t *json, struct record_node **ret_node, struct error *error)
{
	unsigned failures = memory_failures();
	struct record_node *node = memory_array(1, sizeof(*node));
	int result = node ? identity_get(json, node, error) : -ENOMEM;

	if (!result)
		result = facts_get(json, node, error);
	if (!result)
		result = steps_get(json, node, error);
	if (memory_failures() != failures) /* whatever it looked like: it may be good */
		result = error_set(error, -ENOMEM, "out of memory");
	if (result) {
		record_node_free(node);
		return result;
	}
	*ret_node = node;
	return 0;
}

void record_node_free(struct record_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->step_count; i++) {
		json_decref(node->step[i].energy.dropped);
		free(node->step[i].wait.profile);
		free(node->step[i].wait.rank);
		free(node->step[i].wait.call);
	}
	free(node->step);
	json_decref(node->energy.dropped);
	record_power_free(&node->power);
	free(node);
}
