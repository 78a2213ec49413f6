/* One thread: orders, expiry, requests, sleep. */
#include "spank/cpufreq/broker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/stats.h"
#include "spank/base/files.h"
#include "spank/base/ration.h"
#include "spank/base/thread.h"

#define MS_NS       UINT64_C(1000000)
#define IDLE_NS     (250 * MS_NS) /* a ring can be taken away from us: who maps the bell may requeue its waiters */
#define LOOKS_MOST  16            /* at once; else one each millisecond */
#define SLOWS_MOST  (20 * (int64_t)MS_NS)
#define SLOWS_SHARE 30
#define READS_MOST  4 /* of a word that is torn */

struct broker {
	struct broker_config config;
	int segment; /* ours */
	uint32_t cpus;
	pthread_t thread;
	uint32_t ordered; /* orders that were given, that were obeyed, and the thread's end */
	uint32_t obeyed;
	uint32_t ended;
	uint64_t *word;      /* as they were read last, by CPU */
	uint64_t *served;    /* to which there is an answer */
	uint64_t *reply;     /* that answer */
	uint32_t first;      /* which CPU has its turn first */
	struct ration looks; /* at the words */
	struct ration slows; /* CPU time for requests to be slowed */
	uint64_t expires_ns;
};

static uint64_t thread_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits until the word has changed. Returns whether it has, in time. */
static bool futex_await(const uint32_t *word, uint32_t value, uint64_t deadline_ns)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
		uint64_t now_ns = clock_monotonic_ns(), left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
		const struct timespec left = clock_timespec(left_ns);

		if (left_ns == 0)
			return false;
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &left, NULL, 0);
	}
	return true;
}

static bool word_read(const struct broker *broker, uint32_t cpu, uint64_t *ret_word)
{
	off_t at = (off_t)(MPIWAIT_WORDS_OFFSET + (uint64_t)cpu * sizeof(*ret_word));

	return pread(broker->segment, ret_word, sizeof(*ret_word), at) == (ssize_t)sizeof(*ret_word);
}

/* A word that changes while it is read is read again. Returns false where it never holds still: it is looked at later.
 */
static bool word_settle(struct broker *broker, uint32_t cpu)
{
	for (int i = 0; i < READS_MOST; i++) {
		uint64_t before = broker->word[cpu];

		if (!word_read(broker, cpu, &broker->word[cpu]))
			return false;
		if (broker->word[cpu] == before)
			return true;
	}
	return false;
}

static bool words_read(struct broker *broker)
{
	size_t size = broker->cpus * sizeof(broker->word[0]);

	return broker->segment >= 0 &&
	       pread(broker->segment, broker->word, size, (off_t)MPIWAIT_WORDS_OFFSET) == (ssize_t)size;
}

/* In the order of their turn. Only the first is free: it comes once after each request to be slowed that was granted.
 */
enum kind { KIND_RESTORES, KIND_NOTHING_TO_RESTORE, KIND_SLOWS, KIND_COUNT };

static bool is_low(const struct broker *broker, uint32_t cpu)
{
	return mpiwait_lease_verb(broker->served[cpu]) == MPIWAIT_LEASE_LOW &&
	       mpiwait_lease_answer(broker->reply[cpu]) == MPIWAIT_LEASE_DONE;
}

static enum kind kind_of(const struct broker *broker, uint32_t cpu)
{
	if (mpiwait_lease_verb(broker->word[cpu]) == MPIWAIT_LEASE_RESTORE)
		return is_low(broker, cpu) ? KIND_RESTORES : KIND_NOTHING_TO_RESTORE;
	return KIND_SLOWS;
}

/* What was said of a core that has not been lowered since holds for its restoring too. */
static enum mpiwait_lease_answer same_as_before(const struct broker *broker, uint32_t cpu)
{
	uint32_t before = mpiwait_lease_answer(broker->reply[cpu]);

	return before == MPIWAIT_LEASE_NOT_YOURS || before == MPIWAIT_LEASE_OVER ? before : MPIWAIT_LEASE_DONE;
}

/* What is no request costs the core its low frequency. */
static void word_serve(struct broker *broker, uint32_t cpu)
{
	const struct broker_calls *calls = broker->config.calls;
	void *context = broker->config.context;
	uint64_t word = broker->word[cpu];
	uint32_t changes = mpiwait_lease_changes(broker->reply[cpu]);
	enum mpiwait_lease_answer answer = MPIWAIT_LEASE_OVER;

	if (mpiwait_lease_verb(word) == MPIWAIT_LEASE_LOW)
		answer = calls->lower(context, cpu, (pid_t)mpiwait_lease_tid(word), &changes);
	else if (kind_of(broker, cpu) == KIND_RESTORES)
		answer = calls->restore(context, cpu, &changes);
	else if (kind_of(broker, cpu) == KIND_NOTHING_TO_RESTORE)
		answer = same_as_before(broker, cpu);
	else
		calls->restore(context, cpu, &changes);
	broker->expires_ns = 0; /* to be asked for again */
	broker->served[cpu] = word;
	broker->reply[cpu] = mpiwait_lease_reply(mpiwait_lease_serial(word), answer, changes);
	board_reply(broker->config.board, cpu, broker->reply[cpu]);
}

static bool obey(struct broker *broker)
{
	uint32_t ordered = __atomic_load_n(&broker->ordered, __ATOMIC_ACQUIRE);
	bool goes_on;

	if (ordered == broker->obeyed)
		return true;
	goes_on = broker->config.calls->obey(broker->config.context);
	__atomic_store_n(&broker->obeyed, ordered, __ATOMIC_RELEASE);
	futex_wake(&broker->obeyed);
	return goes_on;
}

static void expire(struct broker *broker)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns >= broker->expires_ns)
		broker->expires_ns = broker->config.calls->expire(broker->config.context, now_ns);
}

/* What comes before each request. */
static bool attend(struct broker *broker)
{
	bool goes_on = obey(broker);

	expire(broker);
	return goes_on;
}

/* Half of what may be used at once is kept for who waits for an answer to a RESTORE. */
static bool may_serve(struct broker *broker, enum kind kind)
{
	if (kind == KIND_RESTORES)
		return true;
	ration_fill(&broker->slows, clock_monotonic_ns());
	return broker->slows.left > (kind == KIND_SLOWS ? broker->slows.most / 2 : 0);
}

static void word_serve_counted(struct broker *broker, uint32_t cpu, enum kind kind)
{
	uint64_t before_ns = thread_ns();

	word_serve(broker, cpu);
	if (kind != KIND_RESTORES)
		ration_use(&broker->slows, thread_ns() - before_ns);
}

/* What a look at the words has come to. */
struct outcome {
	bool ends;
	bool served; /* something was, so that there may be more */
	bool left;   /* something has to wait */
};

static void leave(struct broker *broker, uint32_t cpu, struct outcome *outcome)
{
	if (!outcome->left)
		broker->first = cpu;
	outcome->left = true;
}

/* Requests of one kind. */
static void serve(struct broker *broker, enum kind kind, struct outcome *outcome)
{
	bool may = true;

	for (uint32_t i = 0, first = broker->first; i < broker->cpus && !outcome->ends; i++) {
		uint32_t cpu = (first + i) % broker->cpus;

		if (broker->word[cpu] == broker->served[cpu] || kind_of(broker, cpu) != kind)
			continue;
		may = may && may_serve(broker, kind);
		if (!may || !word_settle(broker, cpu)) {
			leave(broker, cpu, outcome);
			continue;
		}
		outcome->ends = !attend(broker);
		if (outcome->ends || broker->word[cpu] == broker->served[cpu])
			continue;
		if (kind_of(broker, cpu) > kind) { /* it has become another since, whose turn comes */
			leave(broker, cpu, outcome);
			continue;
		}
		word_serve_counted(broker, cpu, kind);
		outcome->served = true;
	}
}

static struct outcome look(struct broker *broker)
{
	struct outcome outcome = {.served = false};

	if (words_read(broker))
		for (enum kind kind = 0; kind < KIND_COUNT; kind++)
			serve(broker, kind, &outcome);
	return outcome;
}

/* How long to sleep if nobody rings. */
static uint64_t sleep_ns(struct broker *broker, bool left)
{
	uint64_t now_ns = clock_monotonic_ns(), most_ns = IDLE_NS, wait_ns = MS_NS;

	if (broker->expires_ns != UINT64_MAX) {
		most_ns = broker->expires_ns > now_ns ? broker->expires_ns - now_ns : 1;
		most_ns = most_ns < MPIWAIT_LEASE_LOOK_NS ? most_ns : MPIWAIT_LEASE_LOOK_NS;
	}
	if (left && broker->slows.left <= broker->slows.most / 2)
		wait_ns = (uint64_t)(broker->slows.most / 2 + 1 - broker->slows.left) * SLOWS_SHARE;
	return left && wait_ns < most_ns ? wait_ns : most_ns;
}

/* Who rings without end is looked at once in a millisecond. */
static void look_in_turn(struct broker *broker)
{
	uint64_t wait_ns;

	ration_fill(&broker->looks, clock_monotonic_ns());
	wait_ns = ration_wait_ns(&broker->looks);
	if (wait_ns > 0)
		nanosleep(&(struct timespec){0, (long)wait_ns}, NULL);
	ration_use(&broker->looks, 1);
}

/* Whether there is anything by now that was rung for while we were awake. */
static bool is_asked(struct broker *broker)
{
	return words_read(broker) && memcmp(broker->word, broker->served, broker->cpus * sizeof(broker->word[0])) != 0;
}

static bool is_ordered(const struct broker *broker)
{
	return __atomic_load_n(&broker->ordered, __ATOMIC_ACQUIRE) != broker->obeyed;
}

static void *broker_main(void *argument)
{
	struct broker *broker = argument;
	struct outcome outcome;

	do {
		look_in_turn(broker);
		outcome = look(broker);
		expire(broker);
		if (outcome.served && !outcome.left && is_asked(broker))
			continue;
		if (!outcome.ends && !is_ordered(broker))
			board_wait(broker->config.board, sleep_ns(broker, outcome.left));
	} while (!outcome.ends && attend(broker));
	board_close(broker->config.board);
	__atomic_store_n(&broker->ended, 1, __ATOMIC_RELEASE);
	futex_wake(&broker->ended);
	return NULL;
}

static void broker_free(struct broker *broker)
{
	if (broker->segment >= 0)
		close(broker->segment);
	free(broker->word);
	free(broker->served);
	free(broker->reply);
	free(broker);
}

int broker_start(const struct broker_config *config, struct broker **ret_broker, struct error *error)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct broker *broker = calloc(1, sizeof(*broker));
	int rc = -ENOMEM;

	if (!broker)
		return error_set(error, -ENOMEM, "no lease: no memory");
	broker->config = *config;
	broker->cpus = config->board->page->cpus < MPIWAIT_WORDS ? config->board->page->cpus : MPIWAIT_WORDS;
	broker->word = calloc(broker->cpus + 1, sizeof(broker->word[0]));
	broker->served = calloc(broker->cpus + 1, sizeof(broker->served[0]));
	broker->reply = calloc(broker->cpus + 1, sizeof(broker->reply[0]));
	broker->segment = config->segment < 0 ? -1 : fcntl(config->segment, F_DUPFD_CLOEXEC, 3);
	broker->looks = ration_begin(LOOKS_MOST, MS_NS, now_ns);
	broker->slows = ration_begin(SLOWS_MOST, SLOWS_SHARE, now_ns);
	broker->expires_ns = UINT64_MAX;
	if (broker->word && broker->served && broker->reply)
		rc = config->segment >= 0 && broker->segment < 0 ? -errno
		                                                 : thread_start(&broker->thread, broker_main, broker);
	if (rc < 0) {
		broker_free(broker);
		return error_set(error, rc, "no lease: %s", strerror(-rc));
	}
	*ret_broker = broker;
	return 0;
}

bool broker_order(struct broker *broker, uint64_t most_ns)
{
	uint64_t deadline_ns = clock_monotonic_ns() + most_ns;
	uint32_t ours = __atomic_add_fetch(&broker->ordered, 1, __ATOMIC_ACQ_REL);
	uint32_t obeyed = __atomic_load_n(&broker->obeyed, __ATOMIC_ACQUIRE);

	while ((int32_t)(obeyed - ours) < 0 && clock_monotonic_ns() < deadline_ns) {
		board_ring(broker->config.board);
		futex_await(&broker->obeyed, obeyed, clock_monotonic_ns() + 2 * MS_NS); /* a ring may be missed */
		obeyed = __atomic_load_n(&broker->obeyed, __ATOMIC_ACQUIRE);
	}
	return (int32_t)(obeyed - ours) >= 0;
}

/* The plugin is unloaded soon: code that a thread is in must stay. */
static void object_keep(void)
{
	Dl_info here;
	void *kept = NULL;

	if (dladdr((const void *)(uintptr_t)broker_main, &here) && here.dli_fname)
		kept = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	(void)kept; /* never closed */
}

bool broker_end(struct broker *broker, uint64_t most_ns)
{
	if (!broker)
		return true;
	if (!futex_await(&broker->ended, 0, clock_monotonic_ns() + most_ns)) {
		object_keep();
		pthread_detach(broker->thread);
		return false;
	}
	pthread_join(broker->thread, NULL);
	broker_free(broker);
	return true;
}
