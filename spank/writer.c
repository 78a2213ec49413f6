#include "spank/writer.h"

#include "spank/cleanup.h"
#include "spank/collection.h"
#include "spank/files.h"
#include "spank/log.h"
#include "spank/spool.h"
#include "spank/store.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define TRIES       3
#define LOCK_WAIT_S 5
#define SLOT_WAIT_S 60
#define GIVEN_UP    3 /* enough tries: left for the sweep */

static const unsigned retry_s[TRIES] = {0, 15, 45};

static void sleep_s(double seconds)
{
	struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};

	while (seconds > 0 && nanosleep(&left, &left) && errno == EINTR)
		;
}

static int store_once(const struct writer_config *config, struct spool *spool, const char *key,
                      enum store_accept accept, struct error *error)
{
	struct store store = {.site = config->site, .spool = spool};
	cleanup_close int slot = -1;
	int result;

	if (config->site->sink == SITE_SINK_SLURMDBD)
		slot = spool_slot_take(spool, SLOT_WAIT_S);
	if (slot == -EBUSY)
		return error_set(error, -EBUSY, "too many others are writing to slurmdbd");
	result = store_job(&store, key, accept, LOCK_WAIT_S, error);
	store_close(&store);
	return result;
}

/* Not all at once: the end of a large array is the end of many jobs. */
static void wait_for_end(const struct writer_config *config)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)getpid() * 2654435761u;
	sleep_s(config->first_delay_s * (1 + 0.5 * random / UINT32_MAX));
}

/* Returns 0, STORE_LEFT (nodes are missing), GIVEN_UP or -errno. */
static int write_job(const struct writer_config *config, struct spool *spool, const char *key, enum store_accept accept,
                     struct error *error)
{
	for (int i = 0; i < TRIES; i++) {
		struct error reason = {0};
		int result;

		sleep_s(config->first_delay_s ? retry_s[i] : (i > 0));
		result = store_once(config, spool, key, accept, &reason);
		if (result == 0 || result == STORE_LEFT)
			return result;
		if (result < 0 && result != -EIO && result != -EBUSY)
			return error_set(error, result, "%s", reason.text);
		if (i == TRIES - 1 && reason.text[0])
			log_error("\"%s\" is left for the sweep: %s", key, reason.text);
	}
	return GIVEN_UP;
}

/*
 * Whether the job's merging is this node's. Returns 1 with what is to be seen of it; 0: another's, or it is done;
 * -errno.
 */
static int is_mine(struct spool *spool, const char *key, const char *node, struct collection_view *ret_view,
                   struct error *error)
{
	struct collection *collection = NULL;
	int result = collection_open(spool, key, &collection, error);

	if (result)
		return result == -ENOENT ? 0 : result;
	result = collection_look(spool, collection, node, ret_view);
	collection_free(collection);
	if (result)
		return error_set(error, result, "\"%s\": %s", key, strerror(-result));
	return ret_view->has_first && strcmp(ret_view->first, node) == 0;
}

/* Without a shared spool nobody who merges can ever see the files of other nodes than the first. */
static int write_another(struct spool *spool, const char *key, const char *node, const struct collection_view *view,
                         struct error *error)
{
	struct collection *collection = NULL;

	if (spool->shared >= 0 || view->nodes_of == 0 || strcmp(view->first, node) == 0 ||
	    collection_open(spool, key, &collection, error))
		return 0;
	if (collection_lock(spool, collection, LOCK_WAIT_S) == 0)
		collection_discard(spool, collection);
	collection_free(collection);
	return 0;
}

/* On the job's first node. The others' files arrive as their epilogs end: looked for ever more seldom. */
static int write_first(const struct writer_config *config, struct spool *spool, const char *key, const char *node,
                       struct error *error)
{
	uint64_t deadline_ns = clock_monotonic_ns() + config->collect_s * UINT64_C(1000000000);
	struct collection_view view = {0};
	double pause_s = 0.25;
	int result = is_mine(spool, key, node, &view, error);

	if (result == 0)
		return write_another(spool, key, node, &view, error);
	if (result > 0 && config->site->sink == SITE_SINK_SLURMDBD)
		wait_for_end(config);
	while (result > 0) {
		bool late = spool->shared < 0 || clock_monotonic_ns() >= deadline_ns;

		result = is_mine(spool, key, node, &view, error);
		if (result <= 0)
			break;
		if (late || view.files >= view.nodes_of) {
			result = write_job(config, spool, key, late ? STORE_ALONE : STORE_COMPLETE, error);
			if (result != STORE_LEFT || late)
				break;
		}
		sleep_s(pause_s);
		pause_s = fmin(pause_s * 1.5, 5);
		result = 1;
	}
	return result > 0 ? WRITER_LEFT : result;
}

int writer_write(const struct writer_config *config, const char *key, const char *node, struct error *error)
{
	struct spool spool;
	int result = spool_open(config->site, config->outbox, &spool, error);

	if (result)
		return result;
	if (spool.shared >= 0)
		result = spool_move(&spool, key, node, error);
	if (!result && config->site->writer == SITE_WRITER_NODE)
		result = write_first(config, &spool, key, node, error);
	spool_close(&spool);
	return result;
}
