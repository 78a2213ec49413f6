/* The thread's loop: obey orders, restore expired cores, serve one request; if there was none, sleep. */
#include "spank/cpufreq/broker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/contract/stats.h"
#include "spank/base/cleanup.h"
#include "spank/base/descriptor.h"
#include "spank/base/files.h"
#include "spank/base/ration.h"
#include "spank/base/thread.h"

#define MS_NS      UINT64_C(1000000)
#define IDLE_NS    (250 * MS_NS) /* longest sleep: a ring is lost if a task that maps the bell requeues its waiters */
#define RINGS_MOST 16            /* rings that may wake the thread at once; in the long run one a millisecond */
#define SLOWS_MOST (20 * MS_NS)  /* CPU time for LOW requests that may be used at once */
#define READS_MOST 4             /* reads of a word that changes while it is read */
#define TURNS_MOST 4             /* words that are tried in one call of serve_one */
#define WAITERS    8             /* threads that an answer wakes; further ones read it after their timeout */

struct broker {
	struct broker_config config; /* the caller's, with a copy of the segment's descriptor */
	uint32_t cpus;               /* number of CPUs whose words are read */
	struct mpiwait_board *page;  /* the board's writable mapping; NULL: none */
	int board;                   /* the board's read-only descriptor; -1: none */
	pthread_t thread;
	uint32_t ordered;            /* orders that were given so far */
	uint32_t obeyed;             /* orders that were obeyed so far */
	uint32_t ended;              /* 1: the thread has ended */
	uint32_t first;              /* the CPU whose word is read first in the next turn */
	uint64_t waits_ns;           /* how long a request waits for ration or settled word; 0: none waits */
	struct ration rings;         /* rings that may wake the thread */
	struct shared_ration *slows; /* CPU time for LOW requests */
	uint64_t expires_ns;         /* when `expire` is called again */
	uint64_t *served;            /* by CPU, the last word that was answered */
	uint64_t word[];             /* by CPU, the word as it was read last */
};

static void futex_wake(const void *word, int most)
{
	syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

/* Reads the words of `count` CPUs from `cpu` on. Returns false if the segment cannot be read. */
static bool words_read(struct broker *broker, uint32_t cpu, uint32_t count)
{
	size_t size = count * sizeof(broker->word[0]);
	off_t at = (off_t)(MPIWAIT_WORDS_OFFSET + (uint64_t)cpu * sizeof(broker->word[0]));

	return pread(broker->config.segment, &broker->word[cpu], size, at) == (ssize_t)size;
}

/*
 * Kinds of requests, highest priority first. Only KIND_RESTORES is exempt from the CPU ration: it is served at most
 * once after each LOW request that was granted.
 */
enum kind { KIND_RESTORES, KIND_NOTHING_TO_RESTORE, KIND_SLOWS, KIND_NONE };

/* Returns true if the CPU's latest request was LOW and was granted. */
static bool is_low(const struct broker *broker, uint32_t cpu)
{
	return mpiwait_lease_verb(broker->served[cpu]) == MPIWAIT_LEASE_LOW &&
	       mpiwait_lease_answer(broker->page->reply[cpu]) == MPIWAIT_LEASE_DONE;
}

/* Returns the kind of the CPU's request. KIND_NONE: the word was answered already. */
static enum kind kind_of(const struct broker *broker, uint32_t cpu)
{
	if (broker->word[cpu] == broker->served[cpu])
		return KIND_NONE;
	if (mpiwait_lease_verb(broker->word[cpu]) == MPIWAIT_LEASE_RESTORE)
		return is_low(broker, cpu) ? KIND_RESTORES : KIND_NOTHING_TO_RESTORE;
	return KIND_SLOWS;
}

/* Returns the kind of the request that is served next, with its CPU in *ret_cpu; KIND_NONE: there is no request. */
static enum kind turn_find(const struct broker *broker, uint32_t *ret_cpu)
{
	enum kind best = KIND_NONE;

	for (uint32_t i = 0; i < broker->cpus && best != KIND_RESTORES; i++) {
		uint32_t cpu = (broker->first + i) % broker->cpus;
		enum kind kind = kind_of(broker, cpu);

		if (kind >= best)
			continue;
		best = kind;
		*ret_cpu = cpu;
	}
	return best;
}

/*
 * Returns after how long the ration allows that kind; 0: now. LOW requests get half of it; a rank waits for the answer
 * to RESTORE.
 */
static uint64_t ration_lacks_ns(const struct broker *broker, enum kind kind)
{
	if (kind == KIND_RESTORES)
		return 0;
	return shared_ration_wait_ns(broker->slows, SHARED_RATION_BROKER,
	                             kind == KIND_SLOWS ? SLOWS_MOST / 2 : SLOWS_MOST, clock_monotonic_ns());
}

/* Returns the answer to a RESTORE of a core that is not low: if the last LOW was refused for good, so is this. */
static enum mpiwait_lease_answer same_as_before(uint64_t reply)
{
	enum mpiwait_lease_answer before = mpiwait_lease_answer(reply);

	return before == MPIWAIT_LEASE_NOT_YOURS || before == MPIWAIT_LEASE_OVER ? before : MPIWAIT_LEASE_DONE;
}

/* Writes an answer on the board, and wakes the threads that wait on its lower half, the serial. */
static void board_reply(struct broker *broker, uint32_t cpu, uint64_t reply)
{
	const char *word = (const char *)&broker->page->reply[cpu];

	__atomic_store_n(&broker->page->reply[cpu], reply, __ATOMIC_RELEASE);
	futex_wake(word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0), WAITERS);
}

/* Serves a word and answers it. A word that is no request restores the core and is answered OVER. */
static void word_serve(struct broker *broker, uint32_t cpu, enum kind kind)
{
	const struct broker_calls *calls = broker->config.calls;
	void *context = broker->config.context;
	uint64_t word = broker->word[cpu];
	uint32_t changes = mpiwait_lease_changes(broker->page->reply[cpu]);
	enum mpiwait_lease_answer answer = MPIWAIT_LEASE_OVER;

	if (mpiwait_lease_verb(word) == MPIWAIT_LEASE_LOW)
		answer = calls->lower(context, cpu, (pid_t)mpiwait_lease_tid(word), &changes);
	else if (kind == KIND_RESTORES)
		answer = calls->restore(context, cpu, &changes);
	else if (kind == KIND_NOTHING_TO_RESTORE)
		answer = same_as_before(broker->page->reply[cpu]);
	else
		calls->restore(context, cpu, &changes);
	broker->expires_ns = 0; /* call `expire` again */
	broker->served[cpu] = word;
	board_reply(broker, cpu, mpiwait_lease_reply(mpiwait_lease_serial(word), answer, changes));
}

/* Reads a word until two reads in a row agree. Returns true if they do; if not, the word gets its turn later. */
static bool word_settle(struct broker *broker, uint32_t cpu)
{
	for (int i = 0; i < READS_MOST; i++) {
		uint64_t before = broker->word[cpu];

		if (!words_read(broker, cpu, 1))
			return false;
		if (broker->word[cpu] == before)
			return true;
	}
	return false;
}

/*
 * Serves the request whose turn it is. Returns true if one was served. A request that waits for the ration is not
 * booked: on a slow processor the broker would else use up what it waits for.
 */
static bool serve_one(struct broker *broker)
{
	uint64_t began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	enum kind kind = KIND_NONE;
	bool tried = false, served = false;
	uint32_t cpu = 0;

	broker->waits_ns = 0;
	if (broker->config.segment < 0 || !words_read(broker, 0, broker->cpus))
		return false;
	for (int i = 0; i < TURNS_MOST && !served; i++) {
		kind = turn_find(broker, &cpu);
		if (kind == KIND_NONE)
			break;
		broker->waits_ns = ration_lacks_ns(broker, kind);
		if (broker->waits_ns > 0)
			break;
		tried = true;
		broker->first = (cpu + 1) % broker->cpus;
		served = word_settle(broker, cpu) && kind_of(broker, cpu) == kind;
	}
	if (served)
		word_serve(broker, cpu, kind);
	else if (kind != KIND_NONE && broker->waits_ns == 0)
		broker->waits_ns = MS_NS;
	if (tried && kind != KIND_RESTORES && kind != KIND_NONE)
		shared_ration_book(broker->slows, SHARED_RATION_BROKER, clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns,
		                   clock_monotonic_ns());
	return served;
}

/* Calls obey if an order was given since. Returns false if the thread shall end. */
static bool obey(struct broker *broker)
{
	uint32_t ordered = __atomic_load_n(&broker->ordered, __ATOMIC_ACQUIRE);
	bool goes_on;

	if (ordered == broker->obeyed)
		return true;
	goes_on = broker->config.calls->obey(broker->config.context);
	__atomic_store_n(&broker->obeyed, ordered, __ATOMIC_RELEASE);
	return goes_on;
}

/* Restores the cores whose lease has expired, if one may have expired by now. */
static void expire(struct broker *broker)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns >= broker->expires_ns)
		broker->expires_ns = broker->config.calls->expire(broker->config.context, now_ns);
}

/*
 * Sleeps until the bell is rung, or until something may have to be done. While a core is low the thread wakes each
 * MPIWAIT_LEASE_POLL_NS, for rings that it missed and leases that expire. A task that rings without end wakes it once a
 * millisecond.
 */
static void bell_wait(struct broker *broker)
{
	uint64_t idle_ns = broker->expires_ns == UINT64_MAX ? IDLE_NS : MPIWAIT_LEASE_POLL_NS, pause_ns;
	bool waits = broker->waits_ns > 0 && broker->waits_ns < idle_ns;
	const struct timespec most = clock_timespec(waits ? broker->waits_ns : idle_ns);

	syscall(SYS_futex, &broker->page->bell, FUTEX_WAIT, 0, &most, NULL, 0);
	ration_fill(&broker->rings, clock_monotonic_ns());
	pause_ns = ration_wait_ns(&broker->rings);
	if (pause_ns > 0)
		nanosleep(&(struct timespec){0, (long)pause_ns}, NULL);
	ration_use(&broker->rings, 1);
}

static void *broker_main(void *argument)
{
	struct broker *broker = argument;

	while (obey(broker)) {
		expire(broker);
		if (!serve_one(broker))
			bell_wait(broker);
	}
	__atomic_store_n(&broker->page->over, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&broker->ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Makes the board. Forked children do not get its mapping, so that no task can write to it between fork and exec. */
static int board_make(struct broker *broker)
{
	size_t size = mpiwait_board_size(broker->config.cpus);
	cleanup_close int writes = memory_file("mpi-wait-board");
	char path[32];
	void *page;

	if (writes < 0 || ftruncate(writes, (off_t)size) < 0 || fchmod(writes, 0444) < 0 ||
	    fcntl(writes, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, writes, 0);
	if (page == MAP_FAILED)
		return -errno;
	broker->page = page;
	if (madvise(page, size, MADV_DONTFORK) < 0)
		return -errno;
	broker->page->cpus = broker->config.cpus;
	broker->page->magic = MPIWAIT_BOARD_MAGIC;
	/* a second open file description of the memfd, read-only */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", writes);
	broker->board = open(path, O_RDONLY | O_CLOEXEC);
	return broker->board < 0 ? -errno : 0;
}

static void broker_free(struct broker *broker)
{
	if (broker->page)
		munmap(broker->page, mpiwait_board_size(broker->config.cpus));
	if (broker->board >= 0)
		close(broker->board);
	shared_ration_free(broker->slows);
	if (broker->config.segment >= 0)
		close(broker->config.segment);
	free(broker);
}

int broker_start(const struct broker_config *config, struct broker **ret_broker, struct error *error)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct broker *broker = calloc(1, sizeof(*broker) + 2 * config->cpus * sizeof(broker->word[0]));
	int rc;

	if (!broker)
		return error_set(error, -ENOMEM, "no lease: no memory");
	broker->config = *config;
	broker->cpus = config->cpus < MPIWAIT_WORDS ? config->cpus : MPIWAIT_WORDS;
	broker->served = broker->word + config->cpus;
	broker->board = -1;
	broker->rings = ration_begin(RINGS_MOST, MS_NS, now_ns);
	broker->slows = shared_ration_open(config->directory, SHARED_RATION_FILE);
	broker->expires_ns = UINT64_MAX;
	if (config->segment >= 0)
		broker->config.segment = fcntl(config->segment, F_DUPFD_CLOEXEC, 3);
	rc = config->segment >= 0 && broker->config.segment < 0 ? -errno : board_make(broker);
	if (rc == 0 && !broker->slows)
		rc = -ENOMEM;
	if (rc == 0)
		rc = thread_start(&broker->thread, broker_main, broker);
	if (rc < 0) {
		broker_free(broker);
		return error_set(error, rc, "no lease: %s", strerror(-rc));
	}
	*ret_broker = broker;
	return 0;
}

int broker_board(const struct broker *broker)
{
	return broker->board;
}

/* Waits, most_ns at most, until the thread has counted up to a number. Polls each 0.1 ms: orders are soon obeyed. */
static bool count_await(const struct broker *broker, const uint32_t *counted, uint32_t number, uint64_t most_ns)
{
	const struct timespec pause = clock_timespec(MS_NS / 10);
	uint64_t deadline_ns = clock_monotonic_ns() + most_ns;

	while ((int32_t)(__atomic_load_n(counted, __ATOMIC_ACQUIRE) - number) < 0) {
		if (clock_monotonic_ns() >= deadline_ns)
			return false;
		futex_wake(&broker->page->bell, INT_MAX); /* again each time: the thread may miss a ring */
		nanosleep(&pause, NULL);
	}
	return true;
}

bool broker_order(struct broker *broker, uint64_t most_ns)
{
	uint32_t ours = __atomic_add_fetch(&broker->ordered, 1, __ATOMIC_ACQ_REL);

	return count_await(broker, &broker->obeyed, ours, most_ns);
}

/* Keeps this shared object loaded after Slurm unloads the plugin: the thread still runs its code. */
static void object_keep(void)
{
	Dl_info here;
	void *kept = NULL;

	if (dladdr((const void *)(uintptr_t)broker_main, &here) && here.dli_fname)
		kept = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	(void)kept; /* stays open for good */
}

bool broker_end(struct broker *broker, uint64_t most_ns)
{
	if (!broker)
		return true;
	if (!count_await(broker, &broker->ended, 1, most_ns)) {
		object_keep();
		pthread_detach(broker->thread);
		return false;
	}
	pthread_join(broker->thread, NULL);
	broker_free(broker);
	return true;
}
