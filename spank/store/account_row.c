#include "spank/store/account_row.h"

#include "spank/base/memory.h"
#include "spank/policy/site.h"
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

void query_free(struct query *query)
{
	void *lists[] = {query->condition.cluster_list, query->condition.state_list, query->condition.step_list};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (lists[i])
			slurm_list_destroy(lists[i]);
	memset(query, 0, sizeof(*query));
}

static void lists_make(struct query *query)
{
	slurmdb_job_cond_t *condition = &query->condition;

	condition->cluster_list = slurm_list_create(NULL);
	slurm_list_append(condition->cluster_list, query->cluster);
	condition->state_list = slurm_list_create(NULL);
	slurm_list_append(condition->state_list, query->state);
	condition->step_list = slurm_list_create(NULL);
	slurm_list_append(condition->step_list, &query->selected);
}

/*
 * Selects one row: the run that was running at that time (DUP, or the newest run is taken), of that component alone
 * (NO_WHOLE_HETJOB), of that array task alone (a bare id matches every task of an array that bears it), with its end
 * time as it is (NO_TRUNC, or it reads as usage_end). NOTSET, or nothing ever matches.
 */
static void query_make(struct query *query, const struct account_run *run, uint32_t state, time_t start, time_t end)
{
	slurmdb_job_cond_t *condition = &query->condition;
	bool in_array = run->array_job_id != ACCOUNT_NONE && run->array_job_id != 0 &&
	                run->array_task_id != ACCOUNT_NONE && run->array_task_id != NO_VAL;

	memset(query, 0, sizeof(*query));
	snprintf(query->cluster, sizeof(query->cluster), "%s", run->cluster);
	snprintf(query->state, sizeof(query->state), "%u", (unsigned)state);
	query->selected.array_task_id = in_array ? run->array_task_id : NO_VAL;
	query->selected.het_job_offset = NO_VAL;
	query->selected.step_id.job_id = in_array ? run->array_job_id : run->job_id;
	query->selected.step_id.step_id = NO_VAL;
	query->selected.step_id.step_het_comp = NO_VAL;
	condition->db_flags = SLURMDB_JOB_FLAG_NOTSET;
	condition->flags = JOBCOND_FLAG_DUP | JOBCOND_FLAG_NO_STEP | JOBCOND_FLAG_NO_TRUNC |
	                   JOBCOND_FLAG_NO_WHOLE_HETJOB | JOBCOND_FLAG_NO_DEFAULT_USAGE;
	condition->usage_start = start;
	condition->usage_end = end;
	lists_make(query);
}

void row_free(struct row *row)
{
	for (size_t i = 0; i < sizeof(row->field) / sizeof(row->field[0]); i++)
		free(row->field[i]);
}

static char *copy(const char *text)
{
	return text ? memory_copy(text) : NULL;
}

static bool has_node(const slurmdb_job_rec_t *job, const char *node)
{
	struct nodelist *list = node && job->nodes ? nodelist_new(job->nodes) : NULL;
	bool has = list && nodelist_find(list, node) >= 0;

	nodelist_free(list);
	return has;
}

static void row_copy(const slurmdb_job_rec_t *job, const char *node, struct row *ret_row)
{
	row_free(ret_row);
	memset(ret_row, 0, sizeof(*ret_row));
	ret_row->array_job_id = job->array_job_id;
	ret_row->array_task_id = job->array_task_id;
	ret_row->start = job->start;
	ret_row->end = job->end;
	ret_row->state = job->state;
	ret_row->has_node = has_node(job, node);
	ret_row->field[SITE_FIELD_ADMIN_COMMENT] = copy(job->admin_comment);
	ret_row->field[SITE_FIELD_SYSTEM_COMMENT] = copy(job->system_comment);
#if ACCOUNT_HAS_EXTRA
	ret_row->field[SITE_FIELD_EXTRA] = copy(job->extra);
#endif
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
static bool is_better(const struct row *row, const slurmdb_job_rec_t *job, const struct account_run *run)
{
	bool row_resized = row->state & JOB_RESIZING, job_resized = job->state & JOB_RESIZING;
	bool job_has_node = has_node(job, run->node);

	if (row_resized != job_resized)
		return row_resized;
	if (row->has_node != job_has_node)
		return job_has_node;
	return distance(job->start, run->begun) <= distance(row->start, run->begun);
}

/* A row that ends in the second in which the run began is that of a run before, unless it is that short. */
static bool fits(const struct account_run *run, const slurmdb_job_rec_t *job)
{
	return job->start <= run->begun + 1 && (job->end == 0 || job->end > run->begun || job->start + 1 >= run->begun);
}

static bool lasted(const struct account_run *run, const slurmdb_job_rec_t *job)
{
	return job->end > 0 && run->end + OVER_S < time(NULL) &&
	       llabs((long long)(job->end - job->start) - (long long)(run->end - run->begun)) <= TOLERANCE_S;
}

/* What rows_get looks for among the rows that a query selects; run NULL: any. */
struct wish {
	const struct account_run *run;
	enum belief belief;
};

static bool is_wished(const struct wish *wish, const slurmdb_job_rec_t *job)
{
	if (!wish->run)
		return true;
	if (job->jobid != wish->run->job_id)
		return false;
	return wish->belief == BELIEF_ANY ||
	       (wish->belief == BELIEF_FITS ? fits(wish->run, job) : lasted(wish->run, job));
}

/* Returns how many rows the query selects, or -EIO; *ret_found of them are wished for, *ret_row is the best one. */
static int rows_get(void *connection, struct query *query, const struct wish *wish, int *ret_found, struct row *ret_row,
                    struct error *error)
{
	void *jobs, *seen = slurm_list_create(NULL);
	slurmdb_job_rec_t *job;
	int count = 0;

	errno = 0;
	*ret_found = 0;
	jobs = slurmdb_jobs_get(connection, &query->condition);
	if (!jobs) {
		slurm_list_destroy(seen);
		return error_set(error, -EIO, "slurmdbd does not answer: %s", slurm_strerror(errno));
	}
	while ((job = slurm_list_pop(jobs))) {
		count++;
		if (is_wished(wish, job) && ((*ret_found)++ == 0 || !wish->run || is_better(ret_row, job, wish->run)))
			row_copy(job, wish->run ? wish->run->node : NULL, ret_row);
		slurm_list_append(seen, job);
	}
	/* back into the list that knows how to free them */
	while ((job = slurm_list_pop(seen)))
		slurm_list_append(jobs, job);
	slurm_list_destroy(seen);
	slurm_list_destroy(jobs);
	return count;
}

int row_again(void *connection, struct query *query, struct row *ret_row, struct error *error)
{
	const struct wish any = {0};
	int found;

	return rows_get(connection, query, &any, &found, ret_row, error);
}

/*
 * A run that was over within the second in which the one before it was requeued shares every window with that one, and
 * so does one that was resized: told apart by how it ended, and when. A task whose raw id is its array's shares every
 * query by that id with all other tasks: told apart by its number, which the row knows.
 */
static int row_narrow(void *connection, const struct account_run *run, struct query *query, struct row *row,
                      struct error *error)
{
	const struct wish wish = {.run = run, .belief = BELIEF_ANY};
	struct account_run exact = *run;
	uint32_t state = row->state;
	time_t end = row->end;
	int found, count;

	exact.array_job_id = row->array_job_id;
	exact.array_task_id = row->array_task_id;
	query_free(query);
	query_make(query, &exact, state, end, end);
	count = rows_get(connection, query, &wish, &found, row, error);
	if (count < 0 || (count == 1 && found == 1))
		return count < 0 ? count : 0;
	return error_set(error, -EEXIST, "%d rows for one run of a job", count);
}

/* Returns how many rows the query that is left selects, or -EIO; *ret_found of them may be the run's. */
static int row_look(void *connection, const struct account_run *run, struct query *query, int *ret_found,
                    struct row *ret_row, struct error *error)
{
	int count = 0;

	*ret_found = 0;
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]) && count >= 0 && *ret_found == 0; i++) {
		const struct window *window = &windows[i];
		const struct wish wish = {.run = run, .belief = window->belief};
		time_t start = window->from_begin ? run->begun : run->at - window->width_s;

		if (window->belief == BELIEF_LASTED && run->end + OVER_S >= time(NULL))
			break;
		query_free(query);
		query_make(query, run, JOB_RUNNING, start, run->at + (window->width_s ? window->width_s : 1));
		count = rows_get(connection, query, &wish, ret_found, ret_row, error);
	}
	return count;
}

int row_find(void *connection, const struct account_run *run, struct query *ret_query, struct row *ret_row,
             struct error *error)
{
	struct account_run part = *run;
	int found, count = row_look(connection, &part, ret_query, &found, ret_row, error);

	/* where the job was resized, the run goes on in the next row */
	for (int i = 0; i < RESIZED_MAX && count > 0 && found > 0 && (ret_row->state & JOB_RESIZING); i++) {
		part.begun = part.at = ret_row->end;
		count = row_look(connection, &part, ret_query, &found, ret_row, error);
	}
	if (count < 0)
		return count;
	if (found == 0 || ret_row->end == 0 || (ret_row->state & JOB_RESIZING) || !ret_row->has_node)
		return ACCOUNT_NOT_YET;
	return count == 1 ? 0 : row_narrow(connection, run, ret_query, ret_row, error);
}
