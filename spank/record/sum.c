#include "spank/record/sum.h"

#include "spank/base/cleanup.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

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
	double share = record_node_share(node);

	step->nodes++;
	step->start_s = fmin(step->start_s, from->start_s);
	step->end_s = fmax(step->end_s, from->end_s);
	if (from->policy.why[0] && !step->policy.why[0])
		step->policy = from->policy;
	if (from->energy.present && share >= 0) {
		step->has_joules = true;
		step->joules += record_energy_own_j(&from->energy, share);
	}
	record_grant_add(&sum->grant, &from->grant);
	record_csv_add(&sum->csv, &from->csv);
	record_wait_add(&sum->wait, &from->wait, node_index, step_index, &step->waited);
}

static void node_add(struct sum *sum, json_t *index, const struct record_node *node, uint32_t node_index)
{
	double share = record_node_share(node);

	record_energy_add(&sum->energy, &node->energy, share, node->node);
	if (node->energy.present && share >= 0)
		record_power_add(&sum->power, &node->power, node->start_s, node->end_s,
		                 record_energy_all_j(&node->energy), record_energy_own_j(&node->energy, share));
	record_watts_add(&sum->watts, &node->watts);
	record_throttle_add(&sum->throttle, &node->throttle, node->node);
	profile_add(&sum->wait.profile, node->profile);
	sum->steps_left_out += (double)node->steps_left_out;
	sum->steps_summed += (double)node->steps_summed;
	for (size_t i = 0; i < node->step_count; i++)
		step_add(sum, index, node, &node->step[i], node_index);
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
	for (size_t i = 0; i < sum->wait.ranks.count; i++)
		sum->wait.ranks.rank[i].step = sum->step[sum->wait.ranks.rank[i].step].place;
	for (size_t i = 0; i < sum->step_count; i++)
		sorted[i] = *order[i];
	free(sum->step);
	sum->step = take_pointer(sorted);
	return 0;
}

/* Makes room for the steps and ranks, and finds the job's time. */
static int sum_begin(struct sum *sum, const struct record_node *const nodes[], size_t count)
{
	size_t steps = 0, ranks = 0;
	uint32_t parts = 0;

	sum->start_s = nodes[0]->start_s;
	for (size_t i = 0; i < count; i++) {
		sum->start_s = fmin(sum->start_s, nodes[i]->start_s);
		sum->end_s = fmax(sum->end_s, nodes[i]->end_s);
		parts = nodes[i]->power.count > parts ? nodes[i]->power.count : parts;
		steps += nodes[i]->step_count;
		for (size_t j = 0; j < nodes[i]->step_count; j++)
			ranks += nodes[i]->step[j].wait.ranks.count;
	}
	record_power_begin(&sum->power, sum->start_s, sum->end_s, parts);
	sum->step = calloc(steps + 1, sizeof(*sum->step));
	sum->wait.ranks.rank = calloc(ranks + 1, sizeof(*sum->wait.ranks.rank));
	return sum->step && sum->wait.ranks.rank ? 0 : -ENOMEM;
}

int sum_make(const struct record_node *const nodes[], size_t count, struct sum **ret_sum, struct error *error)
{
	struct sum *sum = calloc(1, sizeof(*sum));
	json_auto_t *index = json_object();
	bool made = sum && index && sum_begin(sum, nodes, count) == 0;

	for (size_t i = 0; made && i < count; i++)
		node_add(sum, index, nodes[i], (uint32_t)i);
	if (!made || steps_sort(sum)) {
		sum_free(sum);
		return error_set(error, -ENOMEM, "out of memory");
	}
	record_wait_sort(&sum->wait);
	*ret_sum = sum;
	return 0;
}

void sum_free(struct sum *sum)
{
	if (!sum)
		return;
	free(sum->step);
	record_wait_sum_free(&sum->wait);
	json_decref(sum->energy.dropped);
	free(sum);
}
