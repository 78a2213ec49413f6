/* Every job of which there is something: half of writer.h. */
#include "spank/store/writer.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/store/deliver.h"
#include "spank/store/job_files.h"
#include "spank/store/outbox.h"
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

struct sweep {
	const struct writer_config *config;
	struct spool *spool;
	struct store store;
	size_t count; /* of keys to look at: gathered first, because looking removes them */
	char (*key)[OUTBOX_KEY_MAX];
	time_t now; /* by the spool's clock */
	bool stuck; /* a record is still in the outbox */
};

static int key_add(void *context, const char *key, const char *node)
{
	struct sweep *sweep = context;
	void *bigger;

	(void)node;
	if (sweep->count > 0 && strcmp(sweep->key[sweep->count - 1], key) == 0)
		return 0;
	bigger = memory_more(sweep->key, sweep->count, sizeof(*sweep->key));
	if (!bigger)
		return -ENOMEM;
	sweep->key = bigger;
	strcpy(sweep->key[sweep->count++], key);
	return 0;
}

static int outbox_move(void *context, const char *key, const char *node)
{
	struct sweep *sweep = context;
	struct error error = {0};
	struct stat status;
	char name[FILES_NAME_MAX + 1];

	if (outbox_name(key, node, name) || fstatat(sweep->spool->outbox, name, &status, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!sweep->config->at_once && llabs((long long)time(NULL) - (long long)status.st_mtime) < QUIET_S)
		return 0;
	if (spool_move(sweep->spool, key, node, NULL, &error)) {
		log_error("%s", error.text);
		sweep->stuck = true;
	}
	return 0;
}

/*
 * Whether it is time for that job, and then which nodes may be missing. Its age is by the spool's clock; a file of the
 * future is no young one: the clock that dated it was wrong.
 */
static bool is_ready(const struct sweep *sweep, const struct job_files_view *view, enum store_accept *ret_accept)
{
	bool whole =
	        view->files == 0 || sweep->spool->shared < 0 || (view->nodes_of > 0 && view->files >= view->nodes_of);
	long long age_s = llabs((long long)sweep->now - (long long)view->newest);

	*ret_accept = sweep->config->partial || age_s >= MISSING_S ? STORE_ANY : STORE_COMPLETE;
	return sweep->config->partial || (sweep->config->at_once && whole) || age_s >= (whole ? QUIET_S : MISSING_S);
}

/* Returns 0, WRITER_LEFT or -EIO (slurmdbd: no use going on). */
static int sweep_key(struct sweep *sweep, const char *key, struct error *error)
{
	struct job_files_view view = {.newest = sweep->now};
	struct error reason = {0};
	enum store_accept accept;
	int result = job_files_look(sweep->spool, key, NULL, &view, &reason);

	if (result == -ENOENT)
		return 0;
	if (!result)
		result = is_ready(sweep, &view, &accept) ? store_job(&sweep->store, key, accept, 0, &reason)
		                                         : WRITER_LEFT;
	if (result == -EIO)
		return error_set(error, result, "\"%s\" is kept: %s", key, reason.text);
	/* what slurmdbd has not taken for so long, it never will */
	if (result && view.newest + EXPIRED_S < sweep->now && job_files_discard(sweep->spool, key, 0) == 0) {
		log_error("\"%s\" could not be stored for a month and is removed: %s", key, reason.text);
		return 0;
	}
	if (result < 0)
		log_error("\"%s\" is left: %s", key, reason.text);
	return result ? WRITER_LEFT : 0;
}

static int sweep_once(const struct writer_config *config, struct spool *spool, struct error *error)
{
	struct sweep sweep = {.config = config, .spool = spool, .now = spool_now(spool)};
	int result = 0, left = 0;

	sweep.store = (struct store){.site = config->site, .spool = spool};
	spool_tidy(spool);
	if (spool->shared >= 0)
		sweep.stuck |= spool_each(spool, spool->outbox, outbox_move, &sweep) != 0;
	if (!config->only_moves)
		result = spool_each(spool, spool->shared >= 0 ? spool->shared : spool->outbox, key_add, &sweep);
	for (size_t i = 0; i < sweep.count && result >= 0; i++) {
		result = sweep_key(&sweep, sweep.key[i], error);
		left |= result != 0;
	}
	store_close(&sweep.store);
	free(sweep.key);
	return result < 0 ? result : left || sweep.stuck ? WRITER_LEFT : 0;
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
