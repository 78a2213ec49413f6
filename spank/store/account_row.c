#include "spank/store/account_row.h"

#include "spank/store/nodelist.h"

#include <errno.h>
#include <slurm/slurm_errno.h>
#include <stdlib.h>
#include <string.h>

#define OVER_S      600 /* a run that ended so long ago has a row */
#define TOLERANCE_S 30  /* prolog and epilog, and what slurmctld takes to hear of them */
#define RESIZED_MAX 64  /* times that a job was resized */

/* What a row has to be like, to be believed to be the run's. */
enum belief {
	BELIEF_FITS,  /* it began with the run or before, and had not ended then, to a second: see fits */
	BELIEF_ANY,   /* no matter what: it is near */
	BELIEF_LASTED /* far off, but over for long, and it lasted as long as the run: see lasted */
};

/*
 * Where the row is looked for, in this order. First at a time inside the run, which its end by slurmctld may precede,
 * where a task was slow to end: then from its begin on. Clocks differ, and a run may be shorter than their difference:
 * munge lets them differ by five minutes.
 */
static const struct window {
	int width_s; /* around the time inside the run */
	bool from_begin;
	enum belief belief;
} windows[] = {
        {.width_s = 0, .belief = BELIEF_FITS},    {.width_s = 0, .belief = BELIEF_FITS, .from_begin = true},
        {.width_s = 1, .belief = BELIEF_ANY},     {.width_s = 3, .belief = BELIEF_ANY},
        {.width_s = 60, .belief = BELIEF_LASTED}, {.width_s = 330, .belief = BELIEF_LASTED},
};

/* List handles are void pointers here: their type's name changed between releases. */
static void *list_of(const void *item)
{
	void *list = slurm_list_create(NULL);

	slurm_list_append(list, (void *)item);
	return list;
}

/* Of that array task alone: a bare id matches every task of an array that bears it. */
static void query_select(struct query *query, uint32_t array_job_id, uint32_t array_task_id)
{
	bool in_array = array_job_id != ACCOUNT_NONE && array_job_id != 0 && array_task_id != ACCOUNT_NONE &&
	                array_task_id != NO_VAL;

	query->selected.array_task_id = in_array ? array_task_id : NO_VAL;
	query->selected.step_id.job_id = in_array ? array_job_id : query->run.job_id;
}

/*
 * Selects one row: the run that was running at that time (DUP, or the newest run is taken), of that component alone
 * (NO_WHOLE_HETJOB), with its end time as it is (NO_TRUNC, or it reads as usage_end). NOTSET, or nothing ever matches.
 */
static void query_make(struct query *query, const struct account_run *run)
{
	slurmdb_job_cond_t *condition = &query->condition;

	*query = (struct query){.run = *run, .selected.het_job_offset = NO_VAL};
	query->selected.step_id.step_id = NO_VAL;
	query->selected.step_id.step_het_comp = NO_VAL;
	query_select(query, run->array_job_id, run->array_task_id);
	condition->db_flags = SLURMDB_JOB_FLAG_NOTSET;
	condition->flags = JOBCOND_FLAG_DUP | JOBCOND_FLAG_NO_STEP | JOBCOND_FLAG_NO_TRUNC |
	                   JOBCOND_FLAG_NO_WHOLE_HETJOB | JOBCOND_FLAG_NO_DEFAULT_USAGE;
	condition->cluster_list = list_of(run->cluster);
	condition->state_list = list_of(query->state);
	condition->step_list = list_of(&query->selected);
}

void query_free(struct query *query)
{
	void *lists[] = {query->condition.cluster_list, query->condition.state_list, query->condition.step_list};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (lists[i])
			slurm_list_destroy(lists[i]);
}

void row_free(struct row *row)
{
	if (row->list)
		slurm_list_destroy(row->list);
}

static bool has_node(const slurmdb_job_rec_t *job, const char *node)
{
	struct nodelist *list = job->nodes ? nodelist_new(job->nodes) : NULL;
	bool has = list && nodelist_find(list, node) >= 0;

	nodelist_free(list);
	return has;
}

static long long distance(time_t a, time_t b)
{
	return llabs((long long)a - (long long)b);
}

/*
 * Of the rows at one time, the one that began nearest to the run, the later one of two; but none that ends where the
 * job was resized while there is another, for that one goes on to the run's end; and none of other nodes, as of a run
 * that was cancelled before it had any.
 */
static bool is_better(const slurmdb_job_rec_t *best, const slurmdb_job_rec_t *job, const struct account_run *run)
{
	bool best_resized = best->state & JOB_RESIZING, job_resized = job->state & JOB_RESIZING;
	bool best_has_node = has_node(best, run->node), job_has_node = has_node(job, run->node);

	if (best_resized != job_resized)
		return best_resized;
	if (best_has_node != job_has_node)
		return job_has_node;
	return distance(job->start, run->begun) <= distance(best->start, run->begun);
}

/* A row that ends in the second in which the run began is that of a run before, unless it is that short. */
static bool fits(const struct account_run *run, const slurmdb_job_rec_t *job)
{
	return job->start <= run->begun + 1 && (job->end == 0 || job->end > run->begun || job->start + 1 >= run->begun);
}

static bool is_over(const struct account_run *run)
{
	return run->end + OVER_S < time(NULL);
}

static bool lasted(const struct account_run *run, const slurmdb_job_rec_t *job)
{
	return job->end > 0 && is_over(run) && distance(job->end - job->start, run->end - run->begun) <= TOLERANCE_S;
}

static bool is_believed(const struct account_run *run, enum belief belief, const slurmdb_job_rec_t *job)
{
	if (job->jobid != run->job_id)
		return false;
	return belief == BELIEF_ANY || (belief == BELIEF_FITS ? fits(run, job) : lasted(run, job));
}

/*
 * Asks for the rows in the query's state between its times. Returns how many there are, or -EPROTO. *ret_row is the
 * best of those that may be the run's, or what it was before where none may.
 */
static int rows_get(void *connection, struct query *query, enum belief belief, struct row *ret_row, struct error *error)
{
	const struct account_run *run = &query->run;
	slurmdb_job_rec_t *job, *best = NULL;
	void *jobs, *place;
	int count;

	errno = 0;
	ret_row->found = 0;
	jobs = slurmdb_jobs_get(connection, &query->condition);
	if (!jobs)
		return error_set(error, -EPROTO, "slurmdbd does not answer: %s", slurm_strerror(errno));
	count = slurm_list_count(jobs);
	place = slurm_list_iterator_create(jobs);
	while ((job = slurm_list_next(place))) {
		if (!is_believed(run, belief, job))
			continue;
		ret_row->found++;
		if (!best || is_better(best, job, run))
			best = job;
	}
	slurm_list_iterator_destroy(place);
	if (best) {
		row_free(ret_row);
		ret_row->job = best;
		ret_row->list = jobs;
	} else {
		slurm_list_destroy(jobs);
	}
	return count;
}

static void query_at(struct query *query, uint32_t state, time_t start, time_t end)
{
	snprintf(query->state, sizeof(query->state), "%u", (unsigned)state);
	query->condition.usage_start = start;
	query->condition.usage_end = end;
}

int row_again(void *connection, struct query *query, struct row *ret_row, struct error *error)
{
	return rows_get(connection, query, BELIEF_ANY, ret_row, error);
}

/*
 * A run that was over within the second in which the one before it was requeued shares every window with that one, and
 * so does one that was resized: told apart by how it ended, and when. A task whose raw id is its array's shares every
 * query by that id with all other tasks: told apart by its number, which the row knows.
 */
static int row_narrow(void *connection, struct query *query, struct row *row, struct error *error)
{
	int count;

	query_select(query, row->job->array_job_id, row->job->array_task_id);
	query_at(query, row->job->state, row->job->end, row->job->end);
	count = rows_get(connection, query, BELIEF_ANY, row, error);
	if (count < 0 || (count == 1 && row->found == 1))
		return count < 0 ? count : 0;
	return error_set(error, -EEXIST, "%d rows for one run of a job", count);
}

/* Returns how many rows the query that is left selects, or -EPROTO. */
static int row_look(void *connection, struct query *query, struct row *ret_row, struct error *error)
{
	const struct account_run *run = &query->run;
	int count = 0;

	ret_row->found = 0;
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]) && count >= 0 && ret_row->found == 0; i++) {
		const struct window *window = &windows[i];

		if (window->belief == BELIEF_LASTED && !is_over(run))
			break;
		query_at(query, JOB_RUNNING, window->from_begin ? run->begun : run->at - window->width_s,
		         run->at + (window->width_s ? window->width_s : 1));
		count = rows_get(connection, query, window->belief, ret_row, error);
	}
	return count;
}

int row_find(void *connection, const struct account_run *run, struct query *ret_query, struct row *ret_row,
             struct error *error)
{
	int count;

	query_make(ret_query, run);
	count = row_look(connection, ret_query, ret_row, error);
	/* where the job was resized, the run goes on in the next row */
	for (int i = 0; i < RESIZED_MAX && count > 0 && ret_row->found > 0 && (ret_row->job->state & JOB_RESIZING);
	     i++) {
		ret_query->run.begun = ret_query->run.at = ret_row->job->end;
		count = row_look(connection, ret_query, ret_row, error);
	}
	if (count < 0)
		return count;
	if (ret_row->found == 0 || ret_row->job->end == 0 || (ret_row->job->state & JOB_RESIZING) ||
	    !has_node(ret_row->job, run->node))
		return ACCOUNT_NOT_YET;
	return count == 1 ? 0 : row_narrow(connection, ret_query, ret_row, error);
}
