#include "spank/store/deliver.h"

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/record/node.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define RUN_OFFSET_MAX_S 10.0
#define RUNS_KEPT_MAX    1000 /* of one job */

static const struct record_node *const *nodes_of(const struct job_files *collection)
{
	return (const struct record_node *const *)collection->node;
}

static bool wanted(const struct site *site, const struct job_files *collection)
{
	if (site->record == SITE_RECORD_NONE)
		return false;
	if (site->record == SITE_RECORD_MPI && !record_has_ranks(nodes_of(collection), collection->count))
		return false;
	return record_elapsed_s(nodes_of(collection), collection->count) >= site->record_min_s;
}

/*
 * When the run was: as the nodes say that the job had at its end, from the first that began to the first that ended,
 * because one that was lost may end long after slurmctld ended the run. The time inside it is soon after it began.
 */
static void run_times(const struct job_files *collection, struct account_run *run)
{
	const struct record_node *first = collection->node[0];
	double start_s = first->start_s, end_s = first->end_s;

	for (size_t i = 1; i < collection->count && collection->node[i]->nodes == first->nodes; i++) {
		start_s = fmin(start_s, collection->node[i]->start_s);
		end_s = fmin(end_s, collection->node[i]->end_s);
	}
	run->begun = (time_t)start_s;
	run->end = (time_t)fmax(end_s, start_s);
	run->at = (time_t)(start_s + fmin(fmax(end_s - start_s, 0) / 2, RUN_OFFSET_MAX_S));
}

/* The job's run, from the first begin to the last end. */
static struct job_run run_of(const struct job_files *collection)
{
	struct job_run run = collection->node[0]->run;

	for (size_t i = 1; i < collection->count; i++) {
		run.start_s = fmin(run.start_s, collection->node[i]->run.start_s);
		run.end_s = fmax(run.end_s, collection->node[i]->run.end_s);
	}
	run.timeless = false;
	return run;
}

/* The record with its run beside it: there is no row of slurmdbd's that would say when that was. */
static char *line_of_run(const struct record *record, const struct job_run *run)
{
	unsigned failures = memory_failures();
	json_auto_t *json =
	        json_pack("{s:O, s:o}", "mpi_wait", json_object_get(record->json, "mpi_wait"), "run", run_to_json(run));

	return memory_failures() == failures ? memory_text(json, 0) : NULL;
}

/* What is kept under that key, if it is of the run; -ESTALE: of another. */
static int held_read(struct store *store, const char *key, const struct job_run *run, char **ret_held)
{
	unsigned failures = memory_failures();
	json_auto_t *json = NULL;
	struct job_run other;
	int result = spool_kept(store->spool, key, ret_held);

	if (result || !*ret_held)
		return result;
	json = memory_json(*ret_held, strlen(*ret_held), 0);
	if (memory_failures() != failures)
		return -ENOMEM;
	if (!run_read(json_object_get(json, "run"), &other) || run_is_same(run, &other))
		return 0;
	free(*ret_held);
	*ret_held = NULL;
	return -ESTALE;
}

/* Under which key the run is kept, or is to be: that of its number, or one after it that no other run has. */
static int kept_find(struct store *store, const struct job_files *collection, const struct job_run *run,
                     char ret_key[OUTBOX_KEY_MAX], char **ret_held)
{
	const struct record_node *node = collection->node[0];
	struct error error = {0};
	int result = -ESTALE;

	for (uint32_t i = 0; result == -ESTALE && i < RUNS_KEPT_MAX; i++) {
		result = outbox_key(node->cluster, node->job_id, node->restart_count + i, ret_key, &error);
		if (!result)
			result = held_read(store, ret_key, run, ret_held);
	}
	return result;
}

/* As record_combine. */
static int kept_compare(const char *held, const struct record *record)
{
	cleanup_free char *text = NULL;

	return record_combine(held, record, &text);
}

/* The record as a file. A better one, made when more nodes were there, stays. */
static int file_add(struct store *store, const struct job_files *collection, const struct record *record,
                    struct error *error)
{
	cleanup_free char *held = NULL, *dated = NULL;
	struct job_run run = run_of(collection);
	char key[OUTBOX_KEY_MAX];
	int result = kept_find(store, collection, &run, key, &held);

	if (result)
		return error_set(error, result, "the record that is kept of \"%s\": %s", collection->key,
		                 strerror(-result));
	result = kept_compare(held, record);
	if (result == -EALREADY || result == -ENOMEM)
		return result;
	dated = line_of_run(record, &run);
	if (!dated)
		return -ENOMEM;
	return spool_keep(store->spool, key, collection->node[0]->gid, dated, error);
}

/* Array ids are known on the nodes on which a step ran. */
static const struct record_node *array_node(const struct job_files *collection)
{
	for (size_t i = 0; i < collection->count; i++)
		if (collection->node[i]->array_job_id != RECORD_NODE_NONE)
			return collection->node[i];
	return collection->node[0];
}

static int account_add(struct store *store, const struct job_files *collection, const struct record *record,
                       struct error *error)
{
	const struct record_node *node = array_node(collection);
	struct account_run run = {
	        .cluster = node->cluster,
	        .job_id = node->job_id,
	        .array_job_id = node->array_job_id,
	        .array_task_id = node->array_task_id,
	        .node = collection->node[0]->node,
	};
	int result = store->account ? 0 : account_open(&store->account, error);

	if (result)
		return result;
	run_times(collection, &run);
	return account_store(store->account, &run, store->site->field, record,
	                     store->site->energy_tres && job_files_is_complete(collection) ? record->joules : -1,
	                     error);
}

static int sink_add(struct store *store, const struct job_files *collection, const char *why, struct error *error)
{
	cleanup_record struct record record = {.line = NULL};
	int result = record_merge(nodes_of(collection), collection->count, collection->nodes_of, why, &record, error);

	if (result)
		return result;
	if (store->site->sink == SITE_SINK_FILE)
		return file_add(store, collection, &record, error);
	return account_add(store, collection, &record, error);
}

void store_close(struct store *store)
{
	account_close(store->account);
	store->account = NULL;
}

/* What to say of missing nodes; NULL for none. */
static const char *why_partial(const struct job_files *collection)
{
	if (job_files_is_complete(collection))
		return NULL;
	if (collection->in_outbox)
		return "no shared spool";
	if (collection->refused > 0)
		return "records refused";
	return collection->count == 1 && collection->has_first && collection->others == 0 ? "spool not shared"
	                                                                                  : "nodes missing";
}

static bool is_acceptable(const struct job_files *collection, enum store_accept accept)
{
	if (job_files_is_complete(collection) || collection->in_outbox || accept == STORE_ANY)
		return true;
	return accept == STORE_ALONE && collection->count == 1 && collection->has_first;
}

/* A directory in which nobody has put a file, or of which somebody who was killed has removed the files. */
static int empty_remove(struct spool *spool, struct job_files *collection)
{
	struct job_files_view view;
	int result = job_files_look(spool, collection, NULL, &view);

	if (!result && view.files == 0)
		job_files_remove(spool, collection);
	return result || view.files == 0 ? result : STORE_LEFT;
}

static int store_read(struct store *store, struct job_files *collection, enum store_accept accept, struct error *error)
{
	int result = job_files_read(store->spool, collection, error);

	if (result)
		return result;
	if (collection->count == 0)
		return empty_remove(store->spool, collection);
	if (!is_acceptable(collection, accept))
		return STORE_LEFT;
	if (wanted(store->site, collection))
		result = sink_add(store, collection, why_partial(collection), error);
	if (result && result != -EALREADY)
		return result;
	job_files_remove(store->spool, collection);
	return 0;
}

int store_job(struct store *store, const char *key, enum store_accept accept, unsigned wait_s, struct error *error)
{
	struct job_files *collection = NULL;
	struct error reason = {0};
	int result = job_files_open(store->spool, key, &collection, &reason);

	if (!result)
		result = job_files_lock(store->spool, collection, wait_s);
	if (!result)
		result = store_read(store, collection, accept, &reason);
	job_files_free(collection);
	if (result < 0 && result != -ENOENT)
		error_set(error, result, "%s", reason.text[0] ? reason.text : strerror(-result));
	return result == -ENOENT ? 0 : result;
}
