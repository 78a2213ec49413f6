#include "spank/store/dbd_row.h"

#include "spank/store/nodelist.h"

#include <errno.h>
#include <slurm/slurm_errno.h>
#include <stdlib.h>
#include <string.h>

#define OVER_S      600 /* after this time, a run that has ended has its row */
#define TOLERANCE_S 30  /* prolog and epilog, and the time until slurmctld hears of them */
#define RESIZED_MAX 64  /* resizes of a job that are followed */

/* Conditions under which a row counts as the run's. */
enum belief {
	BELIEF_FITS,  /* to a second, the row began with the run or before, and had not ended then (fits) */
	BELIEF_ANY,   /* any row: the window is narrow */
	BELIEF_LASTED /* the run is over for long, and the row lasted as long as the run (lasted) */
};

/*
 * Windows of time in which the row is searched for, in this order. The first is a time inside the run. If a task was
 * slow to end, that time may be after the row's end, so the second begins with the run. The others allow for clocks
 * that differ, by up to five minutes (munge's limit); a run may be shorter than that.
 */
static const struct window {
	int width_s;     /* seconds before and after the time inside the run; 0: one second from it on */
	bool from_begin; /* the window begins with the run */
	enum belief belief;
} windows[] = {
        {.width_s = 0, .belief = BELIEF_FITS},    {.width_s = 0, .belief = BELIEF_FITS, .from_begin = true},
        {.width_s = 1, .belief = BELIEF_ANY},     {.width_s = 3, .belief = BELIEF_ANY},
        {.width_s = 60, .belief = BELIEF_LASTED}, {.width_s = 330, .belief = BELIEF_LASTED},
};

/* Returns a list with one item. Lists are void pointers here, because the type's name differs between releases. */
static void *list_of(const void *item)
{
	void *list = slurm_list_create(NULL);

	slurm_list_append(list, (void *)item);
	return list;
}

/* Selects the job, or only that task of its array: the id of an array's job matches all of its tasks. */
static void query_select(struct query *query, uint32_t array_job_id, uint32_t array_task_id)
{
	bool in_array =
	        array_job_id != DBD_NONE && array_job_id != 0 && array_task_id != DBD_NONE && array_task_id != NO_VAL;

	query->selected.array_task_id = in_array ? array_task_id : NO_VAL;
	query->selected.step_id.job_id = in_array ? array_job_id : query->run.job_id;
}

/*
 * Prepares a query for the rows of one run. Flags: DUP, or slurmdbd returns the newest run only; NO_WHOLE_HETJOB, or it
 * returns all components of a heterogeneous job; NO_TRUNC, or a later end time reads as usage_end; NOTSET, or nothing
 * matches.
 */
static void query_make(struct query *query, const struct dbd_run *run)
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
 * Returns true if `job` is a better row for the run than `best`. A row that does not end by a resize goes before one
 * that does: it reaches to the run's end. Then a row with the run's node goes before one without, such as that of a run
 * that was cancelled before it had nodes. Then the row wins that began nearest to the run; of two as near, `job`.
 */
static bool is_better(const slurmdb_job_rec_t *best, const slurmdb_job_rec_t *job, const struct dbd_run *run)
{
	bool best_resized = best->state & JOB_RESIZING, job_resized = job->state & JOB_RESIZING;
	bool best_has_node = has_node(best, run->node), job_has_node = has_node(job, run->node);

	if (best_resized != job_resized)
		return best_resized;
	if (best_has_node != job_has_node)
		return job_has_node;
	return distance(job->start, run->begun) <= distance(best->start, run->begun);
}

/* A row that ends in the second in which the run began is an earlier run's, unless it began in that second too. */
static bool fits(const struct dbd_run *run, const slurmdb_job_rec_t *job)
{
	return job->start <= run->begun + 1 && (job->end == 0 || job->end > run->begun || job->start + 1 >= run->begun);
}

/* Returns true if the run has ended so long ago that slurmdbd must know of it. */
static bool is_over(const struct dbd_run *run)
{
	return run->end + OVER_S < time(NULL);
}

/* Returns true if the run is over for long and the row lasted as long as the run. */
static bool lasted(const struct dbd_run *run, const slurmdb_job_rec_t *job)
{
	return job->end > 0 && is_over(run) && distance(job->end - job->start, run->end - run->begun) <= TOLERANCE_S;
}

/* Returns true if the row fulfils that condition. */
static bool is_believed(const struct dbd_run *run, enum belief belief, const slurmdb_job_rec_t *job)
{
	if (job->jobid != run->job_id)
		return false;
	return belief == BELIEF_ANY || (belief == BELIEF_FITS ? fits(run, job) : lasted(run, job));
}

/*
 * Runs the query. Returns how many rows it selects, or -EPROTO. *ret_row becomes the best row that may be the run's; if
 * there is none, only its `found` changes.
 */
static int rows_get(void *connection, struct query *query, enum belief belief, struct row *ret_row, struct error *error)
{
	const struct dbd_run *run = &query->run;
	slurmdb_job_rec_t *job, *best = NULL;
	void *jobs, *iterator;
	int count;

	errno = 0;
	ret_row->found = 0;
	jobs = slurmdb_jobs_get(connection, &query->condition);
	if (!jobs)
		return error_set(error, -EPROTO, "slurmdbd does not answer: %s", slurm_strerror(errno));
	count = slurm_list_count(jobs);
	iterator = slurm_list_iterator_create(jobs);
	while ((job = slurm_list_next(iterator))) {
		if (!is_believed(run, belief, job))
			continue;
		ret_row->found++;
		if (!best || is_better(best, job, run))
			best = job;
	}
	slurm_list_iterator_destroy(iterator);
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
 * Narrows the query to the one row. A run that ended within the second in which the run before it was requeued is in
 * the same windows as that one, and so are the rows of a resized job: the query then asks for the row's state and end.
 * The array task whose job id is the array's own shares that id with all tasks: the query then asks for the task's
 * number, which the row has. Returns 0, -EEXIST or -EPROTO.
 */
static int row_narrow(void *connection, struct query *query, struct row *row, struct error *error)
{
	int count;

	query_select(query, row->job->array_job_id, row->job->array_task_id);
	query_at(query, row->job->state, row->job->end, row->job->end);
	count = rows_get(connection, query, BELIEF_ANY, row, error);
	if (count < 0 || (count == 1 && row->found == 1))
		return count < 0 ? count : 0;
	return error_set(error, -EEXIST, "slurmdbd has %d rows for one run of the job", count);
}

/* Searches the windows for the run's row. Returns how many rows the last query selects, or -EPROTO. */
static int rows_search(void *connection, struct query *query, struct row *ret_row, struct error *error)
{
	const struct dbd_run *run = &query->run;
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

int row_find(void *connection, const struct dbd_run *run, struct query *ret_query, struct row *ret_row,
             struct error *error)
{
	int count;

	query_make(ret_query, run);
	count = rows_search(connection, ret_query, ret_row, error);
	/* a row that ended by a resize: the run goes on in the next row */
	for (int i = 0; i < RESIZED_MAX && count > 0 && ret_row->found > 0 && (ret_row->job->state & JOB_RESIZING);
	     i++) {
		ret_query->run.begun = ret_query->run.at = ret_row->job->end;
		count = rows_search(connection, ret_query, ret_row, error);
	}
	if (count < 0)
		return count;
	if (ret_row->found == 0 || ret_row->job->end == 0 || (ret_row->job->state & JOB_RESIZING) ||
	    !has_node(ret_row->job, run->node))
		return DBD_NOT_YET;
	return count == 1 ? 0 : row_narrow(connection, ret_query, ret_row, error);
}
