#include "spank/store/deliver.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/record/parse.h"
#include "spank/store/job_files.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define RUN_OFFSET_MAX_S 10.0 /* longest time from a run's begin to the time at which its row is searched for */
#define RUNS_KEPT_MAX    1000 /* runs of one job that are kept as files */

static bool is_complete(const struct job_entries *entries)
{
	return entries->count == entries->nodes_of;
}

/* Returns true if the site wants a record of the job. */
static bool wanted(const struct site *site, const struct job_entries *entries)
{
	if (site->record == SITE_RECORD_NONE ||
	    (site->record == SITE_RECORD_MPI && !record_has_ranks(entries->node, entries->count)))
		return false;
	return record_elapsed_s(entries->node, entries->count) >= site->record_min_s;
}

/*
 * Sets when the run was, by the nodes that the job had at its end: from the first begin to the first end, because a
 * lost node may end long after slurmctld ended the run. run->at is soon after the begin.
 */
static void run_times(const struct job_entries *entries, struct dbd_run *run)
{
	const struct record_node *first = entries->node[0];
	double start_s = first->start_s, end_s = first->end_s;

	for (size_t i = 1; i < entries->count && entries->node[i]->nodes == first->nodes; i++) {
		start_s = fmin(start_s, entries->node[i]->start_s);
		end_s = fmin(end_s, entries->node[i]->end_s);
	}
	run->begun = (time_t)start_s;
	run->end = (time_t)fmax(end_s, start_s);
	run->at = (time_t)(start_s + fmin(fmax(end_s - start_s, 0) / 2, RUN_OFFSET_MAX_S));
}

/* Returns the job's run, from the first begin to the last end of its nodes. */
static struct job_run run_of(const struct job_entries *entries)
{
	struct job_run run = entries->node[0]->run;

	for (size_t i = 1; i < entries->count; i++) {
		run.start_s = fmin(run.start_s, entries->node[i]->run.start_s);
		run.end_s = fmax(run.end_s, entries->node[i]->run.end_s);
	}
	run.timeless = false;
	return run;
}

/* Returns the record with its run beside it, since a file, unlike a row of slurmdbd, has no times. NULL: no memory. */
static char *line_of_run(const struct record *record, const struct job_run *run)
{
	unsigned failures = memory_failures();
	json_auto_t *json =
	        json_pack("{s:O, s:o}", "mpi_wait", json_object_get(record->json, "mpi_wait"), "run", run_to_json(run));

	return memory_failures() == failures ? memory_text(json, 0) : NULL;
}

int store_done_open(const struct spool *spool, mode_t mode)
{
	return spool->shared >= 0 ? files_directory(spool->shared, "done", mode)
	                          : files_directory(spool->outbox, "../done", mode);
}

/* As store_done_open. Writes the key's file name too. */
static int done_open(const struct spool *spool, const char *key, mode_t mode, char name[FILES_NAME_MAX + 1])
{
	snprintf(name, FILES_NAME_MAX + 1, "%s.json", key);
	return store_done_open(spool, mode);
}

/*
 * Reads the record that is kept under the key. Returns 0, with *ret_text untouched if there is none; -ESTALE: it is
 * another run's; or another -errno.
 */
static int kept_read(const struct spool *spool, const char *key, const struct job_run *run, char **ret_text)
{
	cleanup_leave const struct spool *as_user = spool_enter(spool);
	char name[FILES_NAME_MAX + 1];
	cleanup_close int directory = done_open(spool, key, 0, name);
	json_auto_t *json = NULL;
	struct job_run other;
	int result = directory < 0 ? directory : files_read_json(directory, name, RECORD_MAX, &json);

	if (result)
		return files_is_bad(result) ? 0 : result;
	if (run_read(json_object_get(json, "run"), &other) && !run_is_same(run, &other))
		return -ESTALE;
	*ret_text = memory_text(json, 0);
	return *ret_text ? 0 : -ENOMEM;
}

/* Finds the key under which the run is kept, or will be: its own number, or the next one that no other run has. */
static int kept_find(const struct spool *spool, const struct record_node *node, const struct job_run *run,
                     char ret_key[OUTBOX_KEY_MAX], char **ret_held)
{
	int result = -ESTALE;

	for (uint32_t i = 0; result == -ESTALE && i < RUNS_KEPT_MAX; i++) {
		result = outbox_key(node->cluster, node->job_id, node->restart_count + i, ret_key, NULL);
		if (!result)
			result = kept_read(spool, ret_key, run, ret_held);
	}
	return result;
}

/*
 * Gives the file to the job's group, as root in a directory where spool_user may have put anything by now. So only a
 * regular file of the owner's that has no second name is changed, and O_NONBLOCK keeps a FIFO from blocking. If the
 * file system refuses, the file keeps its writer's group.
 */
static void group_set(int directory, const char *name, uid_t owner, gid_t group)
{
	cleanup_close int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	if (file < 0 || fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_uid != owner ||
	    status.st_nlink != 1)
		return;
	if (fchown(file, (uid_t)-1, group))
		log_debug("\"%s\" could not be given to group %u: %s", name, (unsigned)group, strerror(errno));
}

/* Keeps the record as a file, readable by the job's group. */
static int kept_write(const struct spool *spool, const char *key, gid_t group, const char *line, struct error *error)
{
	const struct spool *as_user = spool_enter(spool);
	char name[FILES_NAME_MAX + 1];
	cleanup_close int directory = done_open(spool, key, 0711, name);
	int result = directory;

	if (directory >= 0)
		result = files_write(directory, name, 0640, line, strlen(line), true);
	spool_leave(&as_user);
	if (result < 0)
		return error_set(error, result, "\"%s/%sdone/%s\": %s",
		                 spool->shared >= 0 ? spool->site->spool : spool->outbox_path,
		                 spool->shared >= 0 ? "" : "../", name, strerror(-result));
	group_set(directory, name, spool->user ? spool->user : geteuid(), group);
	return 0;
}

/* Keeps the record as a file. A better record, made when more nodes had reported, stays (record_combine). */
static int file_add(const struct job_files *files, const struct record *record, struct error *error)
{
	cleanup_free char *held = NULL, *combined = NULL, *dated = NULL;
	struct job_run run = run_of(&files->entries);
	char key[OUTBOX_KEY_MAX];
	int result = kept_find(files->spool, files->entries.node[0], &run, key, &held);

	if (result)
		return error_set(error, result, "the kept record of \"%s\": %s", files->key, strerror(-result));
	result = record_combine(held, record, &combined);
	if (result == -EALREADY || result == -ENOMEM)
		return result;
	dated = line_of_run(record, &run);
	return dated ? kept_write(files->spool, key, files->entries.node[0]->gid, dated, error) : -ENOMEM;
}

/* Returns a node's record that has the array ids, if there is one: only nodes on which a step ran know them. */
static const struct record_node *array_node(const struct job_entries *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		if (entries->node[i]->array_job_id != RECORD_NODE_NONE)
			return entries->node[i];
	return entries->node[0];
}

/* Stores the record in slurmdbd, over *dbd, which is opened if it is NULL. Returns as dbd_store. */
static int dbd_add(struct dbd **dbd, const struct job_files *files, const struct record *record, struct error *error)
{
	const struct record_node *node = array_node(&files->entries);
	const struct site *site = files->spool->site;
	struct dbd_run run = {
	        .cluster = node->cluster,
	        .job_id = node->job_id,
	        .array_job_id = node->array_job_id,
	        .array_task_id = node->array_task_id,
	        .node = files->entries.node[0]->node,
	};
	int result = *dbd ? 0 : dbd_open(dbd, error);

	if (result)
		return result;
	run_times(&files->entries, &run);
	result = dbd_store(*dbd, &run, site->field, record,
	                   site->energy_tres && is_complete(&files->entries) ? record->joules : -1, error);
	if (result == -EPROTO) { /* a transaction may be open, so the next job opens a new connection */
		dbd_close(*dbd);
		*dbd = NULL;
	}
	return result;
}

/* Returns the record's reason why nodes are missing; NULL: none are. */
static const char *why_partial(const struct job_files *files)
{
	const struct job_entries *entries = &files->entries;

	if (is_complete(entries))
		return NULL;
	if (files->spool->shared < 0)
		return "no shared spool";
	if (files->refused > 0)
		return "records refused";
	return entries->count == 1 && entries->has_first && entries->others == 0 ? "spool not shared" : "nodes missing";
}

/* Merges the entries into the job's record, and adds it to slurmdbd or to the kept files. */
static int sink_add(struct dbd **dbd, const struct job_files *files, struct error *error)
{
	cleanup_record struct record record = {.line = NULL};
	const struct job_entries *entries = &files->entries;
	int result = record_merge(entries->node, entries->count, entries->nodes_of, why_partial(files), &record, error);

	if (result)
		return result;
	return files->spool->site->sink == SITE_SINK_FILE ? file_add(files, &record, error)
	                                                  : dbd_add(dbd, files, &record, error);
}

/* Returns true if the job may be stored although nodes may be missing. */
static bool is_acceptable(const struct job_files *files, enum store_accept accept)
{
	if (is_complete(&files->entries) || files->spool->shared < 0 || accept == STORE_ANY)
		return true;
	return accept == STORE_ALONE && files->entries.count == 1 && files->entries.has_first;
}

int store_job(struct spool *spool, struct dbd **dbd, const char *key, enum store_accept accept, unsigned wait_s,
              struct error *error)
{
	cleanup_job_files struct job_files files;
	int result = job_files_take(spool, key, wait_s, &files, error);

	if (result)
		return result == -ENOENT ? 0 : result;
	/* no entries and none refused: an empty directory, which is removed below */
	if (files.entries.count == 0 && files.refused > 0)
		return error_set(error, STORE_LEFT, "none of its files is a node's record of the job");
	if (files.entries.count > 0 && !is_acceptable(&files, accept))
		return error_set(error, STORE_LEFT, "%zu of %u nodes have reported", files.entries.count,
		                 files.entries.nodes_of);
	if (files.entries.count > 0 && wanted(spool->site, &files.entries))
		result = sink_add(dbd, &files, error);
	if (result < 0 && result != -EALREADY)
		return error_set(error, result, "%s", strerror(-result));
	if (result > 0)
		return error_set(error, result, "slurmdbd has no row with an end time for this run of the job");
	job_files_remove(&files);
	return 0;
}
