#include "spank/account.h"

#include "spank/cleanup.h"
#include "spank/log.h"
#include "spank/record.h"

#include <errno.h>
#include <inttypes.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>
#include <stdlib.h>
#include <string.h>

/* From Slurm 23.02 on there is a third free field. */
#define HAS_EXTRA (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0))
/* From 25.11 on a finished job's TRES can be set. */
#define HAS_TRES (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0))

/* The row is looked for at a time inside the run; clocks differ, and a run may be shorter than their difference. */
static const int widths_s[] = {0, 1, 3};

struct account {
	void *connection;
};

/* List handles are void pointers here: their type's name changed between releases. */
struct query {
	slurmdb_job_cond_t condition;
	slurm_selected_step_t selected;
	char cluster[64];
	char state[12];
};

int account_open(struct account **ret_account, struct error *error)
{
	static bool initialised;
	struct account *account = calloc(1, sizeof(*account));

	if (!account)
		return error_set(error, -ENOMEM, "out of memory");
	if (!initialised)
		slurm_init(NULL);
	initialised = true;
	errno = 0;
	account->connection = slurmdb_connection_get(NULL);
	if (!account->connection || errno) {
		int reason = errno;

		account_close(account);
		return error_set(error, -EIO, "no connection to slurmdbd: %s", slurm_strerror(reason));
	}
	*ret_account = account;
	return 0;
}

void account_close(struct account *account)
{
	if (!account)
		return;
	if (account->connection)
		slurmdb_connection_close(&account->connection);
	free(account);
}

int account_commit(struct account *account, struct error *error)
{
	if (slurmdb_connection_commit(account->connection, 1) != SLURM_SUCCESS)
		return error_set(error, -EIO, "slurmdbd did not commit: %s", slurm_strerror(errno));
	return 0;
}

static void query_free(struct query *query)
{
	void *lists[] = {query->condition.cluster_list, query->condition.state_list, query->condition.step_list};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (lists[i])
			slurm_list_destroy(lists[i]);
	memset(query, 0, sizeof(*query));
}

/*
 * Selects one row: the run that was running at that time (DUP, or the newest run is taken), of that component alone
 * (NO_WHOLE_HETJOB), of that array task alone (a bare id matches every task of an array that bears it), with its end
 * time as it is (NO_TRUNC, or it reads as usage_end). NOTSET, or nothing ever matches.
 */
static void query_make(struct query *query, const struct account_run *run, uint32_t state, time_t start, time_t end)
{
	slurmdb_job_cond_t *condition = &query->condition;
	bool in_array = run->array_job_id != ACCOUNT_NONE && run->array_job_id != 0;

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
	condition->cluster_list = slurm_list_create(NULL);
	slurm_list_append(condition->cluster_list, query->cluster);
	condition->state_list = slurm_list_create(NULL);
	slurm_list_append(condition->state_list, query->state);
	condition->step_list = slurm_list_create(NULL);
	slurm_list_append(condition->step_list, &query->selected);
}

/* The row's texts, copied; fields in the order of enum site_field. */
struct row {
	time_t start;
	time_t end;
	uint32_t state;
	char *field[3];
};

static void row_free(struct row *row)
{
	for (size_t i = 0; i < sizeof(row->field) / sizeof(row->field[0]); i++)
		free(row->field[i]);
}

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

static void row_copy(const slurmdb_job_rec_t *job, struct row *ret_row)
{
	row_free(ret_row);
	memset(ret_row, 0, sizeof(*ret_row));
	ret_row->start = job->start;
	ret_row->end = job->end;
	ret_row->state = job->state;
	ret_row->field[SITE_FIELD_ADMIN_COMMENT] = copy(job->admin_comment);
	ret_row->field[SITE_FIELD_SYSTEM_COMMENT] = copy(job->system_comment);
#if HAS_EXTRA
	ret_row->field[SITE_FIELD_EXTRA] = copy(job->extra);
#endif
}

static bool is_nearer(const struct row *row, const slurmdb_job_rec_t *job, time_t at)
{
	return llabs((long long)(job->start - at)) <= llabs((long long)(row->start - at));
}

/* Returns how many rows match, or -EIO; *ret_row is the one that began nearest to the run, the later one of two. */
static int row_get(struct account *account, struct query *query, time_t at, struct row *ret_row, struct error *error)
{
	void *jobs, *seen = slurm_list_create(NULL);
	slurmdb_job_rec_t *job;
	int count = 0;

	errno = 0;
	jobs = slurmdb_jobs_get(account->connection, &query->condition);
	if (!jobs) {
		slurm_list_destroy(seen);
		return error_set(error, -EIO, "slurmdbd does not answer: %s", slurm_strerror(errno));
	}
	while ((job = slurm_list_pop(jobs))) {
		if (count++ == 0 || is_nearer(ret_row, job, at))
			row_copy(job, ret_row);
		slurm_list_append(seen, job);
	}
	/* back into the list that knows how to free them */
	while ((job = slurm_list_pop(seen)))
		slurm_list_append(jobs, job);
	slurm_list_destroy(seen);
	slurm_list_destroy(jobs);
	return count;
}

/*
 * A run that was over within the second in which the one before it was requeued shares every window with that one: told
 * apart by how it ended, and when.
 */
static int row_narrow(struct account *account, const struct account_run *run, struct query *query, struct row *ret_row,
                      struct error *error)
{
	if (ret_row->end == 0)
		return 1;
	query_free(query);
	query_make(query, run, ret_row->state, ret_row->end, ret_row->end);
	return row_get(account, query, run->at, ret_row, error);
}

/* Leaves in *query what selects the row alone. Returns 0, ACCOUNT_NOT_YET, -EEXIST (several) or -EIO. */
static int row_find(struct account *account, const struct account_run *run, struct query *query, struct row *ret_row,
                    struct error *error)
{
	int count = 0;

	for (size_t i = 0; i < sizeof(widths_s) / sizeof(widths_s[0]) && count == 0; i++) {
		int width_s = widths_s[i];

		query_free(query);
		query_make(query, run, JOB_RUNNING, run->at - width_s, run->at + (width_s ? width_s : 1));
		count = row_get(account, query, run->at, ret_row, error);
	}
	if (count > 1)
		count = row_narrow(account, run, query, ret_row, error);
	if (count < 0)
		return count;
	if (count > 1)
		return error_set(error, -EEXIST, "%d rows for one run of a job", count);
	return count == 0 || ret_row->end == 0 ? ACCOUNT_NOT_YET : 0;
}

static int row_modify(struct account *account, struct query *query, enum site_field field, char *text, double joules,
                      struct error *error)
{
	slurmdb_job_rec_t change = {0};
	void *changed;
	int count;

	change.derived_ec = NO_VAL; /* or it is written */
	if (field == SITE_FIELD_ADMIN_COMMENT)
		change.admin_comment = text;
	else if (field == SITE_FIELD_SYSTEM_COMMENT)
		change.system_comment = text;
#if HAS_EXTRA
	else
		change.extra = text;
#endif
#if HAS_TRES
	char tres[40];

	snprintf(tres, sizeof(tres), "3=%.0f", joules); /* 3: energy, fixed in every release */
	if (joules >= 0)
		change.tres_alloc_str = tres;
#else
	(void)joules;
#endif
	errno = 0;
	changed = slurmdb_job_modify(account->connection, &query->condition, &change);
	if (!changed)
		return error_set(error, -EIO, "slurmdbd did not modify the job: %s", slurm_strerror(errno));
	count = slurm_list_count(changed);
	slurm_list_destroy(changed);
	return count == 1 ? 0 : error_set(error, -EIO, "slurmdbd modified %d rows instead of one", count);
}

/* The first field from the site's on that takes the record. Returns 0, -EALREADY or -EEXIST. */
static int field_choose(const struct row *row, enum site_field field, const char *line, enum site_field *ret_field,
                        char **ret_text)
{
	const enum site_field last = HAS_EXTRA ? SITE_FIELD_EXTRA : SITE_FIELD_SYSTEM_COMMENT;

	for (int i = (int)field; i <= (int)last; i++) {
		int result = record_combine(row->field[i], line, ret_text);

		*ret_field = (enum site_field)i;
		if (result != -EEXIST && result != -EFBIG)
			return result;
	}
	return -EEXIST;
}

static const char *field_name(enum site_field field)
{
	static const char *const names[] = {"admin_comment", "system_comment", "extra"};

	return names[field];
}

int account_store(struct account *account, const struct account_run *run, enum site_field field, const char *line,
                  double joules, struct error *error)
{
	__attribute__((cleanup(row_free))) struct row row = {0};
	__attribute__((cleanup(query_free))) struct query query = {0};
	cleanup_free char *text = NULL;
	enum site_field chosen = field;
	int result = row_find(account, run, &query, &row, error);

	if (result)
		return result;
	result = field_choose(&row, field, line, &chosen, &text);
	if (result == -EEXIST)
		return error_set(error, result, "every comment field from \"%s\" on is taken by somebody else's text",
		                 field_name(field));
	if (result)
		return error_set(error, result, "%s", strerror(-result));
	if (chosen != field)
		log_info("job %" PRIu32 ": \"%s\" holds somebody else's text; the record goes into \"%s\"", run->job_id,
		         field_name(field), field_name(chosen));
	return row_modify(account, &query, chosen, text, joules, error);
}
