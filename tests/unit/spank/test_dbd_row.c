/*
 * Which row of slurmdbd is a run's, as a table: arrays, heterogeneous, requeued and resized jobs, and clocks that
 * differ. slurmdb_jobs_get is this file's, and selects as slurmdbd's MySQL plugin does. Each case holds for the rows in
 * either order, and the query that is left must select the row alone.
 */
#include "spank/store/dbd_row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"

#define LONG_AGO INT64_C(1700000000) /* all times of a case are from there on */
#define ROWS_MAX 80
#define NO_ARRAY 0, NO_VAL
#define NO_TASK  DBD_NONE, DBD_NONE
#define NOT_YET  "not yet"
#define SEVERAL  "several"

struct known_row {
	const char *name; /* its admin comment; NULL: the list's end */
	uint32_t job_id;
	uint32_t array_job_id;
	uint32_t array_task_id;
	uint32_t het_job_id;
	int start;
	int end; /* 0: it runs */
	uint32_t state;
	const char *nodes;
};

/* What slurmdbd has. */
static struct {
	const struct known_row *row;
	size_t count;
	bool backwards;
	bool is_gone;
	time_t base;
	unsigned asked;
} store;

static time_t time_of(int seconds)
{
	return store.base + seconds;
}

static bool between(time_t value, time_t low, time_t high)
{
	return value >= low && value <= high;
}

/* As _state_time_string does. */
static bool was_so(const struct known_row *row, uint32_t state, time_t from, time_t to)
{
	time_t start = time_of(row->start), end = time_of(row->end);

	if (state == JOB_RUNNING)
		return (start <= from && (row->end == 0 || end >= from)) || between(start, from, to);
	return row->state == state && row->end && between(end, from, to);
}

/* A bare id is that of a job, of an array or of all components. */
static bool is_meant(const struct known_row *row, const slurm_selected_step_t *step, uint32_t flags)
{
	uint32_t id = step->step_id.job_id;

	if (step->array_task_id != NO_VAL)
		return row->array_job_id == id && row->array_task_id == step->array_task_id;
	return row->job_id == id || row->array_job_id == id ||
	       (!(flags & JOBCOND_FLAG_NO_WHOLE_HETJOB) && row->het_job_id == id);
}

static void job_free(void *job)
{
	free(((slurmdb_job_rec_t *)job)->admin_comment);
	free(((slurmdb_job_rec_t *)job)->nodes);
	free(job);
}

static slurmdb_job_rec_t *job_new(const struct known_row *row)
{
	slurmdb_job_rec_t *job = calloc(1, sizeof(*job));

	job->jobid = row->job_id;
	job->array_job_id = row->array_job_id;
	job->array_task_id = row->array_task_id;
	job->start = time_of(row->start);
	job->end = row->end ? time_of(row->end) : 0;
	job->state = row->state;
	job->nodes = strdup(row->nodes);
	job->admin_comment = strdup(row->name);
	return job;
}

static void *first_of(void *list)
{
	void *item = slurm_list_pop(list);

	if (item)
		slurm_list_append(list, item);
	return item;
}

/* In the place of libslurm's. Its type of a list has another name in each release. */
__typeof__(slurmdb_jobs_get(NULL, NULL)) slurmdb_jobs_get(void *connection, slurmdb_job_cond_t *condition)
{
	void *jobs;

	(void)connection;
	store.asked++;
	if (store.is_gone) {
		errno = ECONNREFUSED;
		return NULL;
	}
	CHECK(condition->flags & JOBCOND_FLAG_DUP && condition->flags & JOBCOND_FLAG_NO_TRUNC);
	CHECK(condition->db_flags == SLURMDB_JOB_FLAG_NOTSET);
	CHECK(strcmp(first_of(condition->cluster_list), "test") == 0);
	jobs = slurm_list_create(job_free);
	for (size_t i = 0; i < store.count; i++) {
		const struct known_row *row = &store.row[store.backwards ? store.count - 1 - i : i];
		uint32_t state = (uint32_t)strtoul(first_of(condition->state_list), NULL, 10);

		if (is_meant(row, first_of(condition->step_list), condition->flags) &&
		    was_so(row, state, condition->usage_start, condition->usage_end))
			slurm_list_append(jobs, job_new(row));
	}
	return jobs;
}

struct known_run {
	uint32_t job_id;
	uint32_t array_job_id;
	uint32_t array_task_id;
	int begun;
	int end;
	int at;
	const char *node;
};

struct test_case {
	const char *what;
	struct known_row rows[6];
	struct known_run run;
	const char *found; /* a row's name, NOT_YET or SEVERAL */
};

static const struct test_case cases[] = {
        /* Plain ones. */
        {"one row", {{"a", 7, NO_ARRAY, 0, 0, 30, JOB_COMPLETE, "c[1-2]"}}, {7, NO_TASK, 0, 30, 15, "c1"}, "a"},
        {"no row", {{NULL}}, {7, NO_TASK, 0, 30, 15, "c1"}, NOT_YET},
        {"it runs", {{"a", 7, NO_ARRAY, 0, 0, 0, JOB_RUNNING, "c1"}}, {7, NO_TASK, 0, 30, 15, "c1"}, NOT_YET},
        {"other nodes", {{"a", 7, NO_ARRAY, 0, 0, 30, JOB_COMPLETE, "c[3-4]"}}, {7, NO_TASK, 0, 30, 15, "c1"}, NOT_YET},
        {"slurmctld heard of its end before the node's epilog",
         {{"a", 7, NO_ARRAY, 0, 0, 10, JOB_TIMEOUT, "c1"}},
         {7, NO_TASK, 0, 60, 30, "c1"},
         "a"},
        {"the node saw it a second before slurmctld",
         {{"a", 7, NO_ARRAY, 0, 1, 30, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 0, 30, 15, "c1"},
         "a"},

        /* Arrays: one task's raw id is the array's, and a bare id means all of its tasks. */
        {"a task of an array",
         {{"0", 11, 10, 0, 0, 0, 30, JOB_COMPLETE, "c1"},
          {"1", 12, 10, 1, 0, 0, 30, JOB_COMPLETE, "c1"},
          {"2", 10, 10, 2, 0, 0, 30, JOB_COMPLETE, "c1"}},
         {12, 10, 1, 0, 30, 15, "c1"},
         "1"},
        {"the task whose raw id is the array's",
         {{"0", 11, 10, 0, 0, 0, 30, JOB_COMPLETE, "c1"},
          {"1", 12, 10, 1, 0, 0, 30, JOB_COMPLETE, "c1"},
          {"2", 10, 10, 2, 0, 0, 30, JOB_COMPLETE, "c1"}},
         {10, 10, 2, 0, 30, 15, "c1"},
         "2"},
        {"the same, where the node does not know of an array",
         {{"0", 11, 10, 0, 0, 0, 30, JOB_COMPLETE, "c1"},
          {"1", 12, 10, 1, 0, 0, 30, JOB_COMPLETE, "c1"},
          {"2", 10, 10, 2, 0, 0, 30, JOB_COMPLETE, "c1"}},
         {10, NO_TASK, 0, 30, 15, "c1"},
         "2"},
        {"a task that was requeued",
         {{"first", 12, 10, 1, 0, 0, 30, JOB_NODE_FAIL, "c1"}, {"second", 12, 10, 1, 0, 60, 90, JOB_COMPLETE, "c1"}},
         {12, 10, 1, 60, 90, 75, "c1"},
         "second"},

        /* Components of a heterogeneous job. */
        {"the first component, which has the job's id",
         {{"0", 20, NO_ARRAY, 20, 0, 30, JOB_COMPLETE, "c1"}, {"1", 21, NO_ARRAY, 20, 0, 30, JOB_COMPLETE, "c2"}},
         {20, NO_TASK, 0, 30, 15, "c1"},
         "0"},
        {"the second component",
         {{"0", 20, NO_ARRAY, 20, 0, 30, JOB_COMPLETE, "c1"}, {"1", 21, NO_ARRAY, 20, 0, 30, JOB_COMPLETE, "c2"}},
         {21, NO_TASK, 0, 30, 15, "c2"},
         "1"},

        /* Requeued. */
        {"the first of two runs",
         {{"first", 7, NO_ARRAY, 0, 0, 30, JOB_NODE_FAIL, "c1"},
          {"second", 7, NO_ARRAY, 0, 60, 90, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 0, 30, 15, "c1"},
         "first"},
        {"the second of two runs",
         {{"first", 7, NO_ARRAY, 0, 0, 30, JOB_NODE_FAIL, "c1"},
          {"second", 7, NO_ARRAY, 0, 60, 90, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 60, 90, 75, "c1"},
         "second"},
        {"the second runs, the first one's record comes late",
         {{"first", 7, NO_ARRAY, 0, 0, 30, JOB_NODE_FAIL, "c1"}, {"second", 7, NO_ARRAY, 0, 60, 0, JOB_RUNNING, "c1"}},
         {7, NO_TASK, 0, 30, 15, "c1"},
         "first"},
        {"it began in the second in which the first ended",
         {{"first", 7, NO_ARRAY, 0, 0, 30, JOB_NODE_FAIL, "c1"},
          {"second", 7, NO_ARRAY, 0, 30, 90, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 30, 90, 60, "c1"},
         "second"},
        {"it began a second earlier by the node's clock, in the first one's last",
         {{"first", 7, NO_ARRAY, 0, 0, 32, JOB_NODE_FAIL, "c1"},
          {"second", 7, NO_ARRAY, 0, 32, 60, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 31, 60, 32, "c1"},
         "second"},
        {"it was over in that second",
         {{"first", 7, NO_ARRAY, 0, 0, 30, JOB_NODE_FAIL, "c1"}, {"second", 7, NO_ARRAY, 0, 30, 30, JOB_FAILED, "c1"}},
         {7, NO_TASK, 30, 30, 30, "c1"},
         "second"},
        {"and the first one's row, of that case",
         {{"first", 7, NO_ARRAY, 0, 0, 30, JOB_NODE_FAIL, "c1"}, {"second", 7, NO_ARRAY, 0, 30, 30, JOB_FAILED, "c1"}},
         {7, NO_TASK, 0, 30, 15, "c1"},
         "first"},
        {"both were over in one second, and ended differently",
         {{"first", 7, NO_ARRAY, 0, 0, 5, JOB_NODE_FAIL, "c1"}, {"second", 7, NO_ARRAY, 0, 5, 5, JOB_FAILED, "c1"}},
         {7, NO_TASK, 5, 5, 5, "c1"},
         "second"},
        {"nothing tells the two apart",
         {{"first", 7, NO_ARRAY, 0, 5, 5, JOB_FAILED, "c1"}, {"second", 7, NO_ARRAY, 0, 5, 5, JOB_FAILED, "c1"}},
         {7, NO_TASK, 5, 5, 5, "c1"},
         SEVERAL},
        {"requeued, and cancelled before it had a node again",
         {{"run", 7, NO_ARRAY, 0, 0, 30, JOB_NODE_FAIL, "c1"},
          {"pending", 7, NO_ARRAY, 0, 30, 30, JOB_CANCELLED, "None assigned"}},
         {7, NO_TASK, 0, 30, 15, "c1"},
         "run"},
        {"the same, after a run of no length",
         {{"run", 7, NO_ARRAY, 0, 30, 30, JOB_NODE_FAIL, "c1"},
          {"pending", 7, NO_ARRAY, 0, 30, 30, JOB_CANCELLED, "None assigned"}},
         {7, NO_TASK, 30, 30, 30, "c1"},
         "run"},
        {"only the row of no node is there yet",
         {{"pending", 7, NO_ARRAY, 0, 30, 30, JOB_CANCELLED, "None assigned"}},
         {7, NO_TASK, 30, 30, 30, "c1"},
         NOT_YET},
        {"of two that began together, the one of the run's node",
         {{"c2's", 7, NO_ARRAY, 0, 30, 31, JOB_NODE_FAIL, "c2"}, {"c1's", 7, NO_ARRAY, 0, 30, 32, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 30, 32, 31, "c1"},
         "c1's"},

        /* Resized: the run goes on in the row that begins where the last one ended. */
        {"resized once, and the middle is in the first row",
         {{"1", 7, NO_ARRAY, 0, 0, 60, JOB_RESIZING, "c[1-2]"}, {"2", 7, NO_ARRAY, 0, 60, 90, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 0, 90, 45, "c1"},
         "2"},
        {"resized in three steps",
         {{"1", 7, NO_ARRAY, 0, 0, 30, JOB_RESIZING, "c[1-4]"},
          {"2", 7, NO_ARRAY, 0, 30, 60, JOB_RESIZING, "c[1-3]"},
          {"3", 7, NO_ARRAY, 0, 60, 80, JOB_RESIZING, "c[1-2]"},
          {"4", 7, NO_ARRAY, 0, 80, 90, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 0, 90, 15, "c1"},
         "4"},
        {"resized twice in one second",
         {{"1", 7, NO_ARRAY, 0, 0, 30, JOB_RESIZING, "c[1-3]"},
          {"2", 7, NO_ARRAY, 0, 30, 30, JOB_RESIZING, "c[1-2]"},
          {"3", 7, NO_ARRAY, 0, 30, 90, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 0, 90, 15, "c1"},
         "3"},
        {"resized, and it still runs",
         {{"1", 7, NO_ARRAY, 0, 0, 30, JOB_RESIZING, "c[1-2]"}, {"2", 7, NO_ARRAY, 0, 30, 0, JOB_RUNNING, "c1"}},
         {7, NO_TASK, 0, 90, 15, "c1"},
         NOT_YET},
        {"resized, and the last row is not there yet",
         {{"1", 7, NO_ARRAY, 0, 0, 30, JOB_RESIZING, "c[1-2]"}},
         {7, NO_TASK, 0, 90, 15, "c1"},
         NOT_YET},
        {"resized, then requeued",
         {{"1", 7, NO_ARRAY, 0, 0, 30, JOB_RESIZING, "c[1-2]"},
          {"2", 7, NO_ARRAY, 0, 30, 60, JOB_NODE_FAIL, "c1"},
          {"3", 7, NO_ARRAY, 0, 80, 90, JOB_COMPLETE, "c[1-2]"}},
         {7, NO_TASK, 0, 60, 15, "c1"},
         "2"},
        {"resized and over in one second",
         {{"1", 7, NO_ARRAY, 0, 30, 30, JOB_RESIZING, "c[1-2]"}, {"2", 7, NO_ARRAY, 0, 30, 30, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 30, 30, 30, "c1"},
         "2"},

        /* The node's clock is not slurmctld's. */
        {"four minutes, and as long",
         {{"a", 7, NO_ARRAY, 0, 0, 30, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 240, 275, 255, "c1"},
         "a"},
        {"four minutes in the other direction",
         {{"a", 7, NO_ARRAY, 0, 240, 270, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 0, 30, 15, "c1"},
         "a"},
        {"four minutes, and of another length",
         {{"a", 7, NO_ARRAY, 0, 0, 61, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 240, 270, 255, "c1"},
         NOT_YET},
        {"more than munge allows",
         {{"a", 7, NO_ARRAY, 0, 0, 30, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 400, 430, 415, "c1"},
         NOT_YET},
        {"the nearer one of two, by a clock that is late",
         {{"far", 7, NO_ARRAY, 0, 0, 1, JOB_FAILED, "c1"}, {"near", 7, NO_ARRAY, 0, 3, 4, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 6, 6, 6, "c1"},
         "near"},
};

/* The run has ended just now. */
static const struct test_case young_cases[] = {
        {"four minutes, but its own row may still come",
         {{"a", 7, NO_ARRAY, 0, 0, 30, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 240, 275, 255, "c1"},
         NOT_YET},
        {"a short run, by a clock that is three seconds late",
         {{"a", 7, NO_ARRAY, 0, 0, 1, JOB_COMPLETE, "c1"}},
         {7, NO_TASK, 4, 5, 4, "c1"},
         "a"},
        {"the usual clock", {{"a", 7, NO_ARRAY, 0, 0, 30, JOB_COMPLETE, "c1"}}, {7, NO_TASK, 0, 30, 15, "c1"}, "a"},
};

/* As near as each other: the later one in slurmdbd's order, which is that of submission. */
static const struct test_case tie = {"as near as each other",
                                     {{"first", 7, NO_ARRAY, 0, 30, 32, JOB_NODE_FAIL, "c1"},
                                      {"second", 7, NO_ARRAY, 0, 32, 60, JOB_COMPLETE, "c1"}},
                                     {7, NO_TASK, 31, 60, 32, "c1"},
                                     "second"};

static struct dbd_run run_of(const struct known_run *run)
{
	return (struct dbd_run){
	        .cluster = "test",
	        .job_id = run->job_id,
	        .array_job_id = run->array_job_id,
	        .array_task_id = run->array_task_id,
	        .begun = time_of(run->begun),
	        .end = time_of(run->end),
	        .at = time_of(run->at),
	        .node = run->node,
	};
}

static const char *result_name(int result, const struct row *row)
{
	static char text[32];

	if (result == 0)
		return row->job->admin_comment;
	if (result == DBD_NOT_YET)
		return NOT_YET;
	snprintf(text, sizeof(text), "%d", result);
	return result == -EEXIST ? SEVERAL : text;
}

static void case_check(const struct test_case *test)
{
	struct dbd_run run = run_of(&test->run);
	struct query query = {.selected.array_task_id = 0};
	struct row row = {0};
	struct error error = {0};
	int result = row_find(NULL, &run, &query, &row, &error), again;
	const char *name = result_name(result, &row);

	EXPECT(strcmp(name, test->found) == 0, "%s%s: '%s', not '%s'", test->what, store.backwards ? ", backwards" : "",
	       name, test->found);
	if (result == 0) {
		again = row_again(NULL, &query, &row, &error);
		EXPECT(again == 1 && strcmp(result_name(0, &row), test->found) == 0,
		       "%s: the query selects %d rows, '%s'", test->what, again, result_name(0, &row));
	}
	query_free(&query);
	row_free(&row);
}

static void store_fill(const struct known_row *rows, bool backwards, time_t base)
{
	store = (typeof(store)){.row = rows, .backwards = backwards, .base = base};
	while (store.count < ROWS_MAX && rows[store.count].name)
		store.count++;
}

static void table_check(const struct test_case *tests, size_t count, bool young)
{
	for (size_t i = 0; i < count; i++)
		for (int backwards = 0; backwards < 2; backwards++) {
			store_fill(tests[i].rows, backwards, young ? time(NULL) - tests[i].run.end : LONG_AGO);
			case_check(&tests[i]);
		}
}

/* slurmdbd is not asked for what would not be believed: a row that is far off, while the run's own may still come. */
static void test_patience(void)
{
	const struct test_case none = {"none", {{NULL}}, {7, NO_TASK, 0, 30, 15, "c1"}, NOT_YET};

	store_fill(none.rows, false, time(NULL) - 30);
	case_check(&none);
	CHECK(store.asked == 4);
	store_fill(none.rows, false, LONG_AGO);
	case_check(&none);
	CHECK(store.asked == 6);
}

/* As often as a site's script may: 64 times are followed, one more is not. */
static void resized(int times, const char *found)
{
	static struct known_row rows[ROWS_MAX + 1];
	const struct test_case test = {
	        .what = "resized many times", .run = {7, NO_TASK, 0, 10 * times + 5, 5, "c1"}, .found = found};

	memset(rows, 0, sizeof(rows));
	for (int i = 0; i <= times; i++)
		rows[i] = (struct known_row){i < times ? "part" : "last",
		                             7,
		                             NO_ARRAY,
		                             0,
		                             10 * i,
		                             10 * i + 10,
		                             i < times ? JOB_RESIZING : JOB_COMPLETE,
		                             "c1"};
	store_fill(rows, false, LONG_AGO);
	case_check(&test);
}

static void test_no_answer(void)
{
	struct dbd_run run;
	struct query query = {.selected.array_task_id = 0};
	struct row row = {0};
	struct error error = {0};

	store_fill(cases[0].rows, false, LONG_AGO);
	store.is_gone = true;
	run = run_of(&cases[0].run);
	CHECK(row_find(NULL, &run, &query, &row, &error) == -EPROTO);
	CHECK_CONTAINS(error.text, "slurmdbd does not answer");
	CHECK(store.asked == 1);
	CHECK(row_again(NULL, &query, &row, &error) == -EPROTO);
	query_free(&query);
	row_free(&row);
}

int main(void)
{
	table_check(cases, sizeof(cases) / sizeof(cases[0]), false);
	table_check(young_cases, sizeof(young_cases) / sizeof(young_cases[0]), true);
	store_fill(tie.rows, false, LONG_AGO);
	case_check(&tie);
	test_patience();
	resized(64, "last");
	resized(65, NOT_YET);
	test_no_answer();
	return CHECK_RESULT;
}
