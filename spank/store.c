#include "spank/store.h"

#include "spank/cleanup.h"
#include "spank/log.h"
#include "spank/record.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define RUN_OFFSET_MAX_S 10.0

static const struct record_node *const *nodes_of(const struct collection *collection)
{
	return (const struct record_node *const *)collection->node;
}

static bool wanted(const struct site *site, const struct collection *collection)
{
	if (site->record == SITE_RECORD_NONE)
		return false;
	if (site->record == SITE_RECORD_MPI && !record_has_ranks(nodes_of(collection), collection->count))
		return false;
	return record_elapsed_s(nodes_of(collection), collection->count) >= site->record_min_s;
}

/* A time inside the run: soon after it began here, because what ends the run may be long in coming. */
static time_t run_time(const struct collection *collection)
{
	double start_s = collection->node[0]->start_s;

	for (size_t i = 1; i < collection->count; i++)
		start_s = fmin(start_s, collection->node[i]->start_s);
	return (time_t)(start_s +
	                fmin(record_elapsed_s(nodes_of(collection), collection->count) / 2, RUN_OFFSET_MAX_S));
}

static double joules_in(const char *line)
{
	json_auto_t *record = json_loads(line, 0, NULL);
	const json_t *energy = json_object_get(json_object_get(record, "mpi_wait"), "energy");
	const json_t *joules = json_object_get(energy, "joules");

	return json_is_number(joules) ? json_number_value(joules) : -1;
}

static int account_add(struct store *store, const struct collection *collection, const char *line, struct error *error)
{
	const struct record_node *node = collection->node[0];
	const struct account_run run = {
	        .cluster = node->cluster,
	        .job_id = node->job_id,
	        .array_job_id = node->array_job_id,
	        .array_task_id = node->array_task_id,
	        .at = run_time(collection),
	};
	int result = store->account ? 0 : account_open(&store->account, error);

	if (result)
		return result;
	return account_store(store->account, &run, store->site->field, line,
	                     store->site->energy_tres ? joules_in(line) : -1, error);
}

static int sink_add(struct store *store, const struct collection *collection, const char *why, struct error *error)
{
	cleanup_free char *line = NULL;
	int result = record_merge(nodes_of(collection), collection->count, collection->nodes_of, why, &line, error);

	if (result)
		return result;
	if (store->site->sink == SITE_SINK_FILE)
		return spool_keep(store->spool, collection->key, collection->node[0]->gid, line, error);
	return account_add(store, collection, line, error);
}

int store_add(struct store *store, struct collection *collection, const char *why, struct error *error)
{
	int result = wanted(store->site, collection) ? sink_add(store, collection, why, error) : 0;

	if (result && result != -EALREADY)
		return result;
	store->pending[store->count++] = collection;
	if (store->count < STORE_BATCH)
		return 0;
	/* where it fails they are kept, and the next sweep finds them */
	store_commit(store, error);
	return 0;
}

int store_commit(struct store *store, struct error *error)
{
	int result = store->account ? account_commit(store->account, error) : 0;

	for (size_t i = 0; i < store->count; i++) {
		if (!result)
			collection_remove(store->spool, store->pending[i]);
		else
			log_error("\"%s\" is kept: %s", store->pending[i]->key, error->text);
		collection_free(store->pending[i]);
	}
	store->count = 0;
	return result;
}

void store_close(struct store *store)
{
	for (size_t i = 0; i < store->count; i++)
		collection_free(store->pending[i]);
	store->count = 0;
	account_close(store->account);
	store->account = NULL;
}
