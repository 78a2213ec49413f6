#include "spank/record_sum.h"

#include "spank/cleanup.h"
#include "spank/energy.h"
#include "spank/memory.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static double seconds(uint64_t microseconds)
{
	return (double)microseconds / 1e6;
}

/* How much of a node's energy is the job's; negative: not known. */
static double share_of(const struct record_node *node)
{
	if (node->cores <= 0 || node->cores_total <= 0)
		return -1;
	return node->cores >= node->cores_total ? 1 : node->cores / node->cores_total;
}

static double joules_of(const struct record_energy *energy)
{
	double joules = 0;

	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (energy->has[kind] && energy_kind_counts(energy->has, (enum rapl_kind)kind))
			joules += energy->zone_j[kind];
	return joules;
}

/* The job's: as its node counted it, or by its part of the cores. */
static double own_of(const struct record_energy *energy, double share)
{
	return energy->has_own && share < 1 ? energy->own_j : share * joules_of(energy);
}

static void throttle_add_node(struct sum *sum, const struct record_node *node, uint32_t index)
{
	double events = 0;

	if (!node->has_throttle)
		return;
	sum->throttle_nodes++;
	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++) {
		events += (double)node->throttle[kind];
		sum->throttle[kind] += (double)node->throttle[kind];
	}
	if (events > sum->throttle_most_events) {
		sum->throttle_most_events = events;
		sum->throttle_most = index;
	}
}

static void energy_add_node(struct sum *sum, const struct record_node *node)
{
	double share = share_of(node);

	if (!node->energy.present || share < 0)
		return;
	sum->energy_nodes++;
	sum->share |= share < 1;
	sum->simulated |= node->energy.simulated;
	sum->gaps += node->energy.gaps;
	sum->joules += own_of(&node->energy, share);
	sum->node_joules += joules_of(&node->energy);
	record_power_add(&sum->power, node, joules_of(&node->energy), own_of(&node->energy, share));
	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++) {
		sum->has[kind] |= node->energy.has[kind];
		sum->zone_j[kind] += node->energy.zone_j[kind];
	}
}

static void extremes_add(struct sum *sum, const struct sum_rank *least, const struct sum_rank *most, bool first)
{
	if (first || least->wait_s < sum->min.wait_s)
		sum->min = *least;
	if (first || most->wait_s > sum->max.wait_s)
		sum->max = *most;
}

static void call_add(struct sum *sum, const struct record_call *call)
{
	struct sum_call *have = NULL;

	for (size_t i = 0; i < sum->call_count && !have; i++)
		if (strcmp(sum->call[i].name, call->name) == 0)
			have = &sum->call[i];
	if (!have) {
		/* more names than there are MPI functions: the last place takes the rest */
		bool full = sum->call_count >= sizeof(sum->call) / sizeof(sum->call[0]);

		have = &sum->call[full ? sum->call_count - 1 : sum->call_count++];
		snprintf(have->name, sizeof(have->name), "%s", full ? "other" : call->name);
	}
	have->calls += (double)call->calls;
	have->waits += (double)call->waits;
	have->wait_s += seconds(call->wait_us);
	if (seconds(call->longest_us) > have->longest_s)
		have->longest_s = seconds(call->longest_us);
}

static void omitted_add(struct sum *sum, struct sum_step *step, const struct record_wait *wait, uint32_t node)
{
	struct sum_rank least = {wait->omitted_min.rank, node, 0, seconds(wait->omitted_min.wait_us), 0};
	struct sum_rank most = {wait->omitted_max.rank, node, 0, seconds(wait->omitted_max.wait_us), 0};

	if (wait->omitted == 0)
		return;
	extremes_add(sum, &least, &most, sum->rank_count == 0 && sum->omitted == 0);
	sum->omitted += (double)wait->omitted;
	sum->total_s += seconds(wait->omitted_sum.wait_us);
	sum->asleep_s += seconds(wait->omitted_sum.asleep_us);
	step->ranks += (double)wait->omitted;
	step->wait_s += seconds(wait->omitted_sum.wait_us);
}

static void profile_take(struct sum *sum, const char *text)
{
	json_auto_t *profile = text ? memory_json(text, strlen(text), 0) : NULL;

	profile_add(sum->profile, profile);
}

static void wait_add(struct sum *sum, uint32_t step_index, const struct record_wait *wait, uint32_t node)
{
	struct sum_step *step = &sum->step[step_index];

	for (size_t i = 0; i < wait->rank_count; i++) {
		const struct record_rank *from = &wait->rank[i];
		struct sum_rank rank = {from->rank, node, step_index, seconds(from->wait_us), seconds(from->asleep_us)};

		extremes_add(sum, &rank, &rank, sum->rank_count == 0 && sum->omitted == 0);
		sum->rank[sum->rank_count++] = rank;
		sum->total_s += rank.wait_s;
		sum->asleep_s += rank.asleep_s;
		step->wait_s += rank.wait_s;
	}
	step->ranks += (double)wait->rank_count;
	omitted_add(sum, step, wait, node);
	for (size_t i = 0; i < wait->call_count; i++)
		call_add(sum, &wait->call[i]);
	profile_take(sum, wait->profile);
	for (int place = 0; place < MPIWAIT_PLACES; place++)
		sum->place_bytes[place] += (double)wait->place_bytes[place];
	service_add(&sum->service, &wait->service);
	sum->span_s += seconds(wait->span_us);
	sum->naps += (double)wait->naps;
	sum->low_s += seconds(wait->low_us);
	sum->transitions += (double)wait->transitions;
	sum->late += (double)wait->late;
	sum->late_s += seconds(wait->late_us);
	sum->sampled_s += seconds(wait->sampled_us);
	sum->sampled_cpu_s += seconds(wait->sampled_cpu_us);
	sum->unseen += (double)wait->unseen;
	sum->doubtful += (double)wait->doubtful;
	if ((double)wait->size > sum->world)
		sum->world = (double)wait->size;
}

/* The merged step of that id, made if there is none yet. */
static uint32_t step_find(struct sum *sum, json_t *index, const struct record_step *from)
{
	json_t *known = json_object_get(index, from->id);
	struct sum_step *step;

	if (known)
		return (uint32_t)json_integer_value(known);
	json_object_set_new(index, from->id, json_integer((json_int_t)sum->step_count));
	step = &sum->step[sum->step_count];
	memcpy(step->id, from->id, sizeof(step->id));
	step->start_s = from->start_s;
	step->policy = from->policy;
	return (uint32_t)sum->step_count++;
}

static void step_add(struct sum *sum, json_t *index, const struct record_node *node, const struct record_step *from,
                     uint32_t node_index)
{
	uint32_t step_index = step_find(sum, index, from);
	struct sum_step *step = &sum->step[step_index];
	double share = share_of(node);

	step->nodes++;
	if (from->start_s < step->start_s)
		step->start_s = from->start_s;
	if (from->end_s > step->end_s)
		step->end_s = from->end_s;
	if (from->policy.why[0] && !step->policy.why[0])
		step->policy = from->policy;
	if (from->energy.present && share >= 0) {
		step->has_joules = true;
		step->joules += own_of(&from->energy, share);
	}
	record_grant_add(&sum->grant, &from->grant);
	record_csv_add(&sum->csv, &from->csv);
	wait_add(sum, step_index, &from->wait, node_index);
}

static int compare(double a, double b)
{
	return (a > b) - (a < b);
}

static int step_compare(const void *left, const void *right)
{
	const struct sum_step *a = *(const struct sum_step *const *)left, *b = *(const struct sum_step *const *)right;

	return a->start_s != b->start_s ? compare(a->start_s, b->start_s) : strcmp(a->id, b->id);
}

static int rank_compare(const void *left, const void *right)
{
	const struct sum_rank *a = left, *b = right;

	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return compare(a->node, b->node);
}

static int rank_compare_world(const void *left, const void *right)
{
	const struct sum_rank *a = left, *b = right;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

static int call_compare(const void *left, const void *right)
{
	const struct sum_call *a = left, *b = right;

	return a->wait_s != b->wait_s ? compare(b->wait_s, a->wait_s) : strcmp(a->name, b->name);
}

/* Puts the steps in order of start, and tells the ranks where their step went. */
static int steps_sort(struct sum *sum)
{
	cleanup_free struct sum_step **order = calloc(sum->step_count + 1, sizeof(*order));
	cleanup_free struct sum_step *sorted = calloc(sum->step_count + 1, sizeof(*sorted));

	if (!order || !sorted)
		return -ENOMEM;
	for (size_t i = 0; i < sum->step_count; i++)
		order[i] = &sum->step[i];
	qsort(order, sum->step_count, sizeof(*order), step_compare);
	for (size_t i = 0; i < sum->step_count; i++)
		order[i]->place = (uint32_t)i;
	for (size_t i = 0; i < sum->rank_count; i++)
		sum->rank[i].step = sum->step[sum->rank[i].step].place;
	for (size_t i = 0; i < sum->step_count; i++)
		sorted[i] = *order[i];
	free(sum->step);
	sum->step = take_pointer(sorted);
	return 0;
}

/* One world, seen whole and once, is listed by rank, whatever steps its ranks came by. */
static bool is_one_world(const struct sum *sum)
{
	if (sum->rank_count == 0 || sum->omitted > 0 || sum->unseen > 0 || (double)sum->rank_count != sum->world)
		return false;
	for (size_t i = 0; i < sum->rank_count; i++)
		if (sum->rank[i].rank != (int32_t)i)
			return false;
	return true;
}

static void ranks_sort(struct sum *sum)
{
	qsort(sum->rank, sum->rank_count, sizeof(*sum->rank), rank_compare_world);
	if (!is_one_world(sum))
		qsort(sum->rank, sum->rank_count, sizeof(*sum->rank), rank_compare);
}

static int sum_allocate(struct sum *sum, const struct record_node *const nodes[], size_t count)
{
	size_t steps = 0, ranks = 0;

	for (size_t i = 0; i < count; i++) {
		steps += nodes[i]->step_count;
		for (size_t j = 0; j < nodes[i]->step_count; j++)
			ranks += nodes[i]->step[j].wait.rank_count;
	}
	sum->step = calloc(steps + 1, sizeof(*sum->step));
	sum->rank = calloc(ranks + 1, sizeof(*sum->rank));
	sum->profile = calloc(1, sizeof(*sum->profile));
	return sum->step && sum->rank && sum->profile ? 0 : -ENOMEM;
}

int sum_make(const struct record_node *const nodes[], size_t count, struct sum **ret_sum, struct error *error)
{
	struct sum *sum = calloc(1, sizeof(*sum));
	json_auto_t *index = json_object();

	if (!sum || !index || sum_allocate(sum, nodes, count)) {
		sum_free(sum);
		return error_set(error, -ENOMEM, "out of memory");
	}
	record_power_begin(&sum->power, nodes, count);
	for (size_t i = 0; i < count; i++) {
		energy_add_node(sum, nodes[i]);
		record_watts_add(&sum->watts, &nodes[i]->watts);
		throttle_add_node(sum, nodes[i], (uint32_t)i);
		sum->steps_left_out += (double)nodes[i]->steps_left_out;
		sum->steps_summed += (double)nodes[i]->steps_summed;
		for (size_t j = 0; j < nodes[i]->step_count; j++)
			step_add(sum, index, nodes[i], &nodes[i]->step[j], (uint32_t)i);
	}
	if (steps_sort(sum)) {
		sum_free(sum);
		return error_set(error, -ENOMEM, "out of memory");
	}
	ranks_sort(sum);
	qsort(sum->call, sum->call_count, sizeof(*sum->call), call_compare);
	*ret_sum = sum;
	return 0;
}

void sum_free(struct sum *sum)
{
	if (!sum)
		return;
	free(sum->step);
	free(sum->rank);
	free(sum->profile);
	free(sum);
}
