/* One thread: orders, expiry, a request, and again; sleep where there is none. */
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
#define IDLE_NS    (250 * MS_NS) /* a ring can be taken away from us: who maps the bell may requeue its waiters */
#define RINGS_MOST 16            /* at once; else one each millisecond */
#define SLOWS_MOST (20 * MS_NS)  /* of CPU time at once */
#define READS_MOST 4             /* of a word that is torn, */
#define TURNS_MOST 4             /* and such words, in one go */
#define WAITERS    8             /* that an answer wakes: more have no business there, and look again by themselves */

struct broker {
	struct broker_config config; /* its segment is a copy of ours */
	uint32_t cpus;               /* whose words are read */
	struct mpiwait_board *page;  /* the board, for writing; NULL: none */
	int board;                   /* for reading; -1: none */
	pthread_t thread;
	uint32_t ordered; /* orders that were given, that were obeyed, and the thread's end */
	uint32_t obeyed;
	uint32_t ended;
	uint32_t first;              /* which CPU has its turn first */
	bool waits;                  /* a request does, for its ration, or until its word holds still */
	struct ration rings;         /* that wake us */
	struct shared_ration *slows; /* CPU time for requests to be slowed */
	uint64_t expires_ns;
	uint64_t *served; /* words to which there is an answer, by CPU */
	uint64_t word[];  /* as they were read last */
};

static void futex_wake(const void *word, int most)
{
	syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

/* Of that many CPUs, from one on. */
static bool words_read(struct broker *broker, uint32_t cpu, uint32_t count)
{
	size_t size = count * sizeof(broker->word[0]);
	off_t at = (off_t)(MPIWAIT_WORDS_OFFSET + (uint64_t)cpu * sizeof(broker->word[0]));

	return pread(broker->config.segment, &broker->word[cpu], size, at) == (ssize_t)size;
}

/* In the order of their turn. Only the first is free: it comes once after each request to be slowed that was granted.
 */
enum kind { KIND_RESTORES, KIND_NOTHING_TO_RESTORE, KIND_SLOWS, KIND_NONE };

static bool is_low(const struct broker *broker, uint32_t cpu)
{
	return mpiwait_lease_verb(broker->served[cpu]) == MPIWAIT_LEASE_LOW &&
	       mpiwait_lease_answer(broker->page->reply[cpu]) == MPIWAIT_LEASE_DONE;
}

static enum kind kind_of(const struct broker *broker, uint32_t cpu)
{
	if (broker->word[cpu] == broker->served[cpu])
		return KIND_NONE;
	if (mpiwait_lease_verb(broker->word[cpu]) == MPIWAIT_LEASE_RESTORE)
		return is_low(broker, cpu) ? KIND_RESTORES : KIND_NOTHING_TO_RESTORE;
	return KIND_SLOWS;
}

/* Whose turn it is. */
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

/* Half of what may be used at once is kept for who waits for an answer to a RESTORE. */
static bool may_serve(struct broker *broker, enum kind kind)
{
	if (kind == KIND_RESTORES)
		return true;
	return shared_ration_has(broker->slows, SHARED_RATION_BROKER, kind == KIND_SLOWS ? SLOWS_MOST / 2 : SLOWS_MOST,
	                         clock_monotonic_ns());
}

/* What was said of a core that has not been lowered since holds for its restoring too. */
static enum mpiwait_lease_answer same_as_before(uint64_t reply)
{
	enum mpiwait_lease_answer before = mpiwait_lease_answer(reply);

	return before == MPIWAIT_LEASE_NOT_YOURS || before == MPIWAIT_LEASE_OVER ? before : MPIWAIT_LEASE_DONE;
}

static void board_reply(struct broker *broker, uint32_t cpu, uint64_t reply)
{
	const char *word = (const char *)&broker->page->reply[cpu];

	__atomic_store_n(&broker->page->reply[cpu], reply, __ATOMIC_RELEASE);
	futex_wake(word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0), WAITERS);
}

/* What is no request costs the core its low frequency. */
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
	broker->expires_ns = 0; /* to be asked for again */
	broker->served[cpu] = word;
	board_reply(broker, cpu, mpiwait_lease_reply(mpiwait_lease_serial(word), answer, changes));
}

/* A word that changes while it is read is read again. Returns whether it has held still; if not, it has its turn later.
 */
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

/* Returns whether a request was served. */
static bool serve_one(struct broker *broker)
{
	uint64_t began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	enum kind kind = KIND_NONE;
	bool served = false;
	uint32_t cpu = 0;

	broker->waits = false;
	if (broker->config.segment < 0 || !words_read(broker, 0, broker->cpus))
		return false;
	for (int i = 0; i < TURNS_MOST && !served; i++) {
		kind = turn_find(broker, &cpu);
		if (kind == KIND_NONE || !may_serve(broker, kind))
			break;
		broker->first = (cpu + 1) % broker->cpus;
		served = word_settle(broker, cpu) && kind_of(broker, cpu) == kind;
	}
	if (served)
		word_serve(broker, cpu, kind);
	broker->waits = !served && kind != KIND_NONE;
	if (kind != KIND_RESTORES && kind != KIND_NONE)
		shared_ration_book(broker->slows, SHARED_RATION_BROKER, clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns,
		                   clock_monotonic_ns());
	return served;
}

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

static void expire(struct broker *broker)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns >= broker->expires_ns)
		broker->expires_ns = broker->config.calls->expire(broker->config.context, now_ns);
}

/*
 * Until somebody rings, or there may be something to do. While a core is low we look by ourselves, for a ring that was
 * missed and for what expires. Who rings without end wakes us once in a millisecond.
 */
static void rest(struct broker *broker)
{
	uint64_t idle_ns = broker->expires_ns == UINT64_MAX ? IDLE_NS : MPIWAIT_LEASE_LOOK_NS, pause_ns;
	const struct timespec most = clock_timespec(broker->waits ? MS_NS : idle_ns);

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
			rest(broker);
	}
	__atomic_store_n(&broker->page->over, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&broker->ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* No child has the mapping: none of them could write by it between fork and exec. */
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
	/* another description of the same file, which can only read */
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

/* Waits until the thread has counted up to a number, looking each tenth of a millisecond: what is ordered is soon done.
 */
static bool comes(const struct broker *broker, const uint32_t *counted, uint32_t number, uint64_t most_ns)
{
	const struct timespec pause = clock_timespec(MS_NS / 10);
	uint64_t deadline_ns = clock_monotonic_ns() + most_ns;

	while ((int32_t)(__atomic_load_n(counted, __ATOMIC_ACQUIRE) - number) < 0) {
		if (clock_monotonic_ns() >= deadline_ns)
			return false;
		futex_wake(&broker->page->bell, INT_MAX); /* a ring may be missed */
		nanosleep(&pause, NULL);
	}
	return true;
}

bool broker_order(struct broker *broker, uint64_t most_ns)
{
	uint32_t ours = __atomic_add_fetch(&broker->ordered, 1, __ATOMIC_ACQ_REL);

	return comes(broker, &broker->obeyed, ours, most_ns);
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
	if (!comes(broker, &broker->ended, 1, most_ns)) {
		object_keep();
		pthread_detach(broker->thread);
		return false;
	}
	pthread_join(broker->thread, NULL);
	broker_free(broker);
	return true;
}
