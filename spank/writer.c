#include "spank/writer.h"

#include "spank/cleanup.h"
#include "spank/files.h"
#include "spank/log.h"
#include "spank/spool.h"
#include "spank/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define TRIES       3
#define LOCK_WAIT_S 30
#define QUIET_S     120              /* a younger file may still have its own writer */
#define MISSING_S   900              /* nodes that have not reported by then will not */
#define EXPIRED_S   (30 * 24 * 3600) /* the job will not appear in slurmdbd any more */

static const unsigned retry_s[TRIES] = {0, 15, 45};

static void sleep_s(double seconds)
{
	struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};

	while (seconds > 0 && nanosleep(&left, &left) && errno == EINTR)
		;
}

static bool is_complete(const struct collection *collection)
{
	return collection->count > 0 && collection->count == collection->nodes_of;
}

/* What to say of missing nodes; NULL for none. */
static const char *why_partial(const struct collection *collection)
{
	if (is_complete(collection))
		return NULL;
	if (collection->in_outbox)
		return "no shared spool";
	return collection->count == 1 && collection->has_first ? "spool not shared" : "nodes missing";
}

/* Locks, reads again, stores. Returns 0 (also where it is gone: another was faster), ACCOUNT_NOT_YET, -EBUSY, -errno.
 */
static int store_locked(struct store *store, struct collection *seen, unsigned wait_s, struct error *error)
{
	struct collection *collection = NULL;
	int result = collection_lock(store->spool, seen, wait_s);

	if (result)
		return result;
	result = spool_collect(store->spool, seen->key, &collection, error);
	if (result)
		return result;
	if (collection->count == 0) {
		collection_free(collection);
		return 0;
	}
	collection->lock = take_descriptor(&seen->lock);
	result = store_add(store, collection, why_partial(collection), error);
	if (result)
		collection_free(collection);
	return result;
}

static int store_once(const struct writer_config *config, struct spool *spool, struct collection *seen,
                      struct error *error)
{
	struct store store = {.site = config->site, .spool = spool};
	int result = store_locked(&store, seen, LOCK_WAIT_S, error);

	if (result == 0)
		result = store_commit(&store, error);
	store_close(&store);
	return result;
}

/* The others' files arrive as their epilogs end: looked for ever more seldom. */
static int wait_for_nodes(const struct writer_config *config, struct spool *spool, const char *key, const char *node,
                          struct collection **ret_collection, struct error *error)
{
	double deadline_s = clock_wall_s() + config->collect_s, pause_s = 0.25;

	for (;;) {
		struct collection *collection = NULL;
		int result = spool_collect(spool, key, &collection, error);
		bool mine = !result && collection->has_first && strcmp(collection->node[0]->node, node) == 0;

		if (result)
			return result;
		if (!mine || is_complete(collection) || collection->in_outbox || clock_wall_s() >= deadline_s) {
			*ret_collection = collection;
			return 0;
		}
		collection_free(collection);
		sleep_s(fmin(pause_s, fmax(deadline_s - clock_wall_s(), 0.01)));
		pause_s = fmin(pause_s * 1.5, 5);
	}
}

/* Not all at once: the end of a large array is the end of many jobs. */
static void wait_for_end(const struct writer_config *config, const struct collection *collection)
{
	double end_s = collection->node[0]->end_s, delay_s;
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)getpid() * 2654435761u;
	delay_s = config->first_delay_s * (1 + 0.5 * random / UINT32_MAX);
	sleep_s(fmin(fmax(end_s + delay_s - clock_wall_s(), 0), delay_s));
}

static int write_collected(const struct writer_config *config, struct spool *spool, struct collection *collection,
                           struct error *error)
{
	int result = WRITER_LEFT;

	if (config->site->sink == SITE_SINK_SLURMDBD)
		wait_for_end(config, collection);
	for (int i = 0; i < TRIES; i++) {
		struct error reason = {0};

		sleep_s(config->first_delay_s ? retry_s[i] : (i > 0));
		result = store_once(config, spool, collection, &reason);
		if (result == 0)
			return 0;
		if (result < 0 && result != -EIO && result != -EBUSY)
			return error_set(error, result, "%s", reason.text);
		if (i == TRIES - 1 && reason.text[0])
			log_error("\"%s\" is left for the sweep: %s", collection->key, reason.text);
	}
	return WRITER_LEFT;
}

int writer_write(const struct writer_config *config, const char *key, const char *node, struct error *error)
{
	struct collection *collection = NULL;
	struct spool spool;
	int result = spool_open(config->site, config->outbox, &spool, error);

	if (result)
		return result;
	if (spool.shared >= 0)
		result = spool_move(&spool, key, node, error);
	if (!result && config->site->writer == SITE_WRITER_NODE)
		result = wait_for_nodes(config, &spool, key, node, &collection, error);
	if (!result && collection && collection->count > 0) {
		bool mine = collection->has_first && strcmp(collection->node[0]->node, node) == 0;
		bool some_missing = !is_complete(collection) && collection->count > 1 && !collection->in_outbox;

		if (mine && !some_missing)
			result = write_collected(config, &spool, collection, error);
		else if (mine)
			result = WRITER_LEFT;
		else if (collection->in_outbox && !collection->has_first)
			collection_remove(&spool, collection); /* nobody who merges can ever see it */
	}
	collection_free(collection);
	spool_close(&spool);
	return result;
}

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
	if (!sweep->config->at_once && status.st_mtime + QUIET_S > time(NULL))
		return 0;
	if (spool_move(sweep->spool, key, node, &error))
		log_error("%s", error.text);
	return 0;
}

static bool is_ready(const struct writer_config *config, const struct collection *collection)
{
	time_t age_s = time(NULL) - collection->newest;

	if (config->partial)
		return true;
	if (is_complete(collection) || collection->in_outbox)
		return config->at_once || age_s >= QUIET_S;
	return age_s >= MISSING_S;
}

/* Returns 0, WRITER_LEFT or -EIO (slurmdbd: no use going on). */
static int sweep_key(struct sweep *sweep, struct store *store, const char *key, struct error *error)
{
	struct collection *collection = NULL;
	struct error reason = {0};
	int result = spool_collect(sweep->spool, key, &collection, &reason);

	if (!result && collection->count > 0) {
		result =
		        is_ready(sweep->config, collection) ? store_locked(store, collection, 0, &reason) : WRITER_LEFT;
		if (result && collection->newest + EXPIRED_S < time(NULL)) {
			log_error("\"%s\" could not be stored for a month and is removed: %s", key, reason.text);
			collection_remove(sweep->spool, collection);
			result = 0;
		}
	}
	collection_free(collection);
	if (result == -EIO)
		return error_set(error, result, "%s", reason.text);
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
	if (store_commit(&store, error))
		result = -EIO;
	store_close(&store);
	return result < 0 ? result : left ? WRITER_LEFT : 0;
}

static int sweep_once(const struct writer_config *config, struct spool *spool, struct error *error)
{
	struct sweep sweep = {.config = config, .spool = spool};
	int result;

	if (spool->shared >= 0) {
		spool_each_outbox(spool, outbox_move, &sweep);
		result = spool_each_shared(spool, key_add, &sweep.keys);
	} else {
		result = spool_each_outbox(spool, key_add, &sweep.keys);
	}
	if (!result)
		result = sweep_keys(&sweep, error);
	free(sweep.keys.key);
	return result;
}

int writer_sweep(const struct writer_config *config, struct error *error)
{
	double deadline_s = clock_wall_s() + (config->at_once ? config->flush_s : 0);
	struct spool spool;
	int result = spool_open(config->site, config->outbox, &spool, error);

	if (result)
		return result;
	result = sweep_once(config, &spool, error);
	while (result == WRITER_LEFT && clock_wall_s() < deadline_s) {
		sleep_s(1);
		result = sweep_once(config, &spool, error);
	}
	spool_close(&spool);
	return result;
}
