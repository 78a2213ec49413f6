/* Every job of which there is something: half of writer.h. */
#include "spank/store/writer.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/store/deliver.h"
#include "spank/store/job_files.h"
#include "spank/store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUIET_S   120              /* a younger file may still have its own writer */
#define MISSING_S 900              /* nodes that have not reported by then will not */
#define EXPIRED_S (30 * 24 * 3600) /* the job will not appear in slurmdbd any more */

/* Keys to look at: gathered first, because looking removes them. */
struct keys {
	size_t count;
	size_t room;
	char (*key)[128];
};

struct sweep {
	const struct writer_config *config;
	struct spool *spool;
	struct keys keys;
	time_t now; /* by the spool's clock */
	bool stuck; /* a record is still in the outbox */
};

static int key_add(void *context, const char *key, const char *node)
{
	struct keys *keys = context;

	(void)node;
	if (keys->count > 0 && strcmp(keys->key[keys->count - 1], key) == 0)
		return 0;
	if (keys->count == keys->room) {
		size_t room = keys->room ? keys->room * 2 : 64;
		void *bigger = realloc(keys->key, room * sizeof(*keys->key));

		if (!bigger)
			return -ENOMEM;
		keys->key = bigger;
		keys->room = room;
	}
	snprintf(keys->key[keys->count++], sizeof(*keys->key), "%s", key);
	return 0;
}

static int outbox_move(void *context, const char *key, const char *node)
{
	struct sweep *sweep = context;
	struct error error = {0};
	struct stat status;
	char name[FILES_NAME_MAX + 1];

	if ((size_t)snprintf(name, sizeof(name), "%s.%s.json", key, node) >= sizeof(name) ||
	    fstatat(sweep->spool->outbox, name, &status, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!sweep->config->at_once && llabs((long long)time(NULL) - (long long)status.st_mtime) < QUIET_S)
		return 0;
	if (spool_move(sweep->spool, key, node, NULL, &error)) {
		log_error("%s", error.text);
		sweep->stuck = true;
	}
	return 0;
}

/* By the spool's clock. A file of the future is no young one: the clock that dated it was wrong. */
static long long age_s(const struct sweep *sweep, const struct job_files_view *view)
{
	return llabs((long long)sweep->now - (long long)view->newest);
}

/* Returns whether it is time for that job, and then which nodes may be missing. */
static bool is_ready(const struct sweep *sweep, const struct job_files_view *view, enum store_accept *ret_accept)
{
	bool whole = view->files == 0 || (view->nodes_of > 0 && view->files >= view->nodes_of);
	bool late = sweep->config->partial || age_s(sweep, view) >= MISSING_S;

	*ret_accept = late ? STORE_ANY : STORE_COMPLETE;
	if (sweep->config->partial || (sweep->config->at_once && (whole || sweep->spool->shared < 0)))
		return true;
	return age_s(sweep, view) >= (whole || sweep->spool->shared < 0 ? QUIET_S : MISSING_S);
}

/* What slurmdbd has not taken for so long, it never will. */
static bool expire(struct sweep *sweep, const char *key, const struct job_files_view *view, const char *why)
{
	struct job_files *collection = NULL;
	struct error error = {0};

	if (view->newest + EXPIRED_S >= sweep->now || job_files_open(sweep->spool, key, &collection, &error))
		return false;
	if (job_files_lock(sweep->spool, collection, 0) == 0) {
		log_error("\"%s\" could not be stored for a month and is removed: %s", key, why);
		job_files_discard(sweep->spool, collection);
	}
	job_files_free(collection);
	return true;
}

static int key_look(struct sweep *sweep, const char *key, struct job_files_view *ret_view)
{
	struct job_files *collection = NULL;
	struct error error = {0};
	int result = job_files_open(sweep->spool, key, &collection, &error);

	if (!result)
		result = job_files_look(sweep->spool, collection, NULL, ret_view);
	job_files_free(collection);
	return result;
}

/* Returns 0, WRITER_LEFT or -EIO (slurmdbd: no use going on). */
static int sweep_key(struct sweep *sweep, struct store *store, const char *key, struct error *error)
{
	struct job_files_view view;
	struct error reason = {0};
	enum store_accept accept;
	int result = key_look(sweep, key, &view);
	bool seen = result == 0;

	if (result == -ENOENT)
		return 0;
	if (seen)
		result = is_ready(sweep, &view, &accept) ? store_job(store, key, accept, 0, &reason) : WRITER_LEFT;
	if (result == -EIO)
		return error_set(error, result, "\"%s\" is kept: %s", key, reason.text);
	if (result && seen && expire(sweep, key, &view, reason.text))
		return 0;
	if (result < 0)
		log_error("\"%s\" is left: %s", key, reason.text[0] ? reason.text : strerror(-result));
	return result ? WRITER_LEFT : 0;
}

static int sweep_keys(struct sweep *sweep, struct error *error)
{
	struct store store = {.site = sweep->config->site, .spool = sweep->spool};
	int left = 0, result = 0;

	for (size_t i = 0; i < sweep->keys.count && result >= 0; i++) {
		result = sweep_key(sweep, &store, sweep->keys.key[i], error);
		left |= result != 0;
	}
	store_close(&store);
	return result < 0 ? result : left ? WRITER_LEFT : 0;
}

static int sweep_once(const struct writer_config *config, struct spool *spool, struct error *error)
{
	struct sweep sweep = {.config = config, .spool = spool, .now = spool_now(spool)};
	int result;

	spool_tidy(spool);
	if (spool->shared >= 0) {
		sweep.stuck |= spool_each_outbox(spool, outbox_move, &sweep) != 0;
		result = spool_each_shared(spool, key_add, &sweep.keys);
	} else {
		result = spool_each_outbox(spool, key_add, &sweep.keys);
	}
	if (!result)
		result = sweep_keys(&sweep, error);
	free(sweep.keys.key);
	return result == 0 && sweep.stuck ? WRITER_LEFT : result;
}

int writer_sweep(const struct writer_config *config, struct error *error)
{
	uint64_t deadline_ns = clock_monotonic_ns() + (config->at_once ? config->flush_s : 0) * SECOND_NS;
	struct spool spool;
	int result = spool_open(config->site, config->outbox, &spool, error);

	if (result)
		return result;
	result = sweep_once(config, &spool, error);
	while (result == WRITER_LEFT && clock_monotonic_ns() < deadline_ns) {
		sleep(1);
		result = sweep_once(config, &spool, error);
	}
	spool_close(&spool);
	return result;
}

int writer_move(const struct writer_config *config, struct error *error)
{
	struct sweep sweep = {.config = config};
	struct spool spool;
	int result = spool_open(config->site, config->outbox, &spool, error);

	if (result)
		return result;
	sweep.spool = &spool;
	spool_tidy(&spool);
	if (spool.shared >= 0)
		result = spool_each_outbox(&spool, outbox_move, &sweep);
	spool_close(&spool);
	return result == 0 && sweep.stuck ? WRITER_LEFT : result;
}
