/*
 * pstate: the core's lowest frequency for the rest of a wait, by a lease (preload/contract/lease.h): asks slurmstepd by
 * a word, and reads the answer on the board. Invariant: what is lowered is restored before the call returns, and it is
 * the core that was lowered, wherever the thread is by then. Lowering never waits; restoring waits until it is done,
 * but for a slurmstepd that does not answer for 100 ms: the core comes back by itself.
 *
 * One thread of the process at a time, the first that asks: what is granted belongs to the task. A refusal is not
 * asked about again for a while; an end of the grant never. Who was silent is asked again after 10 s, and after twice
 * as long each time: what is waited for it in vain stays below a hundredth of the time.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/contract/lease.h"
#include "preload/process/clock.h"
#include "preload/process/inherited.h"
#include "preload/process/segment.h"
#include "preload/rung/rung.h"

#define REFUSED_NS UINT64_C(100000000)
#define SILENT_NS  UINT64_C(10000000000)
#define ANSWER_NS  UINT64_C(100000000)
#define AGAIN_NS   UINT64_C(200000) /* a ring may be missed */

/* What is known of the core after a step. SILENT: nothing, though it was waited for. */
enum outcome { UNKNOWN, LOW, REFUSED, SILENT, OVER };

static const struct mpiwait_board *board;
static uint64_t *words;
static bool taken;                     /* by a thread in a wait, which the rest is of */
static uint64_t not_before_ns;         /* after a refusal, or a silence; UINT64_MAX: the grant is over */
static uint64_t silent_ns = SILENT_NS; /* how long the next silence is left alone */

static const struct mpiwait_board *board_map(int fd)
{
	const struct mpiwait_board *mapped;
	struct stat status;
	size_t size;

	if (syscall(SYS_fstat, fd, &status) != 0 || status.st_size < (long)sizeof(*mapped))
		return NULL;
	size = (size_t)status.st_size;
	mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return NULL;
	if (mapped->magic == MPIWAIT_BOARD_MAGIC && size >= mpiwait_board_size(mapped->cpus))
		return mapped;
	munmap((void *)mapped, size);
	return NULL;
}

bool rung_pstate_probe(const struct config *config)
{
	const struct inherited given = {.number = config->cpufreq_fd,
	                                .device = config->cpufreq_dev,
	                                .inode = config->cpufreq_ino,
	                                .task = config->task_pid,
	                                .flags = O_RDONLY};
	bool opened;
	int fd;

	if (config->pstate_after_ns == 0 || config->cpufreq_fd < 0)
		return false;
	fd = inherited_find(&given, &opened);
	board = fd < 0 ? NULL : board_map(fd);
	if (opened)
		close(fd);
	words = board ? segment_words(config, board->cpus) : NULL;
	return words != NULL;
}

/* A system call has no cancellation point, which an MPI call need not be. */
static void ring(void)
{
	syscall(SYS_futex, &board->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static uint64_t reply_read(const struct rung_thread *thread)
{
	return __atomic_load_n(&board->reply[thread->pstate.cpu], __ATOMIC_ACQUIRE);
}

/* The serial follows the word's own, which another process may have written: an old answer is not taken for ours. */
static enum outcome ask(struct rung_thread *thread, enum mpiwait_lease_verb verb)
{
	uint64_t *word = &words[thread->pstate.cpu];
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	if (__atomic_load_n(&board->over, __ATOMIC_ACQUIRE))
		return OVER;
	if (!thread->pstate.counts)
		thread->pstate.changes = mpiwait_lease_changes(reply_read(thread));
	thread->pstate.counts = true;
	thread->pstate.serial = mpiwait_lease_serial(__atomic_load_n(word, __ATOMIC_RELAXED)) + 1;
	__atomic_store_n(word, mpiwait_lease_request(verb, tid, thread->pstate.serial), __ATOMIC_SEQ_CST);
	ring();
	return UNKNOWN;
}

/* The answer to the latest request, if it is there. LOW is also what was asked for by RESTORE. */
static enum outcome look(struct rung_thread *thread)
{
	uint64_t reply = reply_read(thread);
	uint32_t changes = mpiwait_lease_changes(reply), answer = mpiwait_lease_answer(reply);

	if (mpiwait_lease_serial(reply) != thread->pstate.serial)
		return __atomic_load_n(&board->over, __ATOMIC_ACQUIRE) ? OVER : UNKNOWN;
	thread->lane->transitions += (changes - thread->pstate.changes) & MPIWAIT_LEASE_CHANGES_MASK;
	thread->pstate.changes = changes;
	if (answer == MPIWAIT_LEASE_DONE)
		return LOW;
	return answer == MPIWAIT_LEASE_NOT_NOW || answer == MPIWAIT_LEASE_BUSY ? REFUSED : OVER;
}

static enum outcome ask_low(struct rung_thread *thread)
{
	unsigned int cpu;

	if (!thread->pstate.sure) {
		if (syscall(SYS_getcpu, &cpu, NULL, NULL) != 0 || cpu >= board->cpus)
			return REFUSED;
		thread->pstate.counts &= thread->pstate.cpu == cpu;
		thread->pstate.cpu = cpu;
	}
	return ask(thread, MPIWAIT_LEASE_LOW);
}

/* Until the reply is another one, or for so long. */
static void reply_await(const struct rung_thread *thread, uint64_t most_ns)
{
	const uint64_t *reply = &board->reply[thread->pstate.cpu];
	uint64_t seen = reply_read(thread);
	struct timespec left = {0, (long)(most_ns < AGAIN_NS ? most_ns : AGAIN_NS)};

	if (mpiwait_lease_serial(seen) == thread->pstate.serial)
		return;
	syscall(SYS_futex, (const char *)reply + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0), FUTEX_WAIT,
	        mpiwait_lease_serial(seen), &left, NULL, 0);
}

/* Back to what was found; surely done at the return if it waits. */
static enum outcome ask_restore(struct rung_thread *thread, bool waits)
{
	uint64_t begun_ns = clock_now_ns(), waited_ns = 0;
	enum outcome outcome = ask(thread, MPIWAIT_LEASE_RESTORE);

	while (waits && outcome == UNKNOWN && waited_ns < ANSWER_NS) {
		reply_await(thread, ANSWER_NS - waited_ns);
		outcome = look(thread);
		waited_ns = clock_now_ns() - begun_ns;
		if (outcome == UNKNOWN)
			ring();
	}
	return waits && outcome == UNKNOWN ? SILENT : outcome == REFUSED ? OVER : outcome;
}

/* A lease that was not asked for again (suspended, or long inside the runtime) came back by itself meanwhile. */
static void time_count(struct rung_thread *thread, uint64_t now_ns)
{
	uint64_t until_ns = thread->pstate.asked_ns + MPIWAIT_LEASE_HOLD_NS;

	if (until_ns > now_ns)
		until_ns = now_ns;
	if (thread->pstate.sure && until_ns > thread->pstate.counted_ns)
		thread->lane->asleep_ns[MPIWAIT_RUNG_PSTATE] += until_ns - thread->pstate.counted_ns;
	thread->pstate.counted_ns = now_ns;
}

static void give_up(struct rung_thread *thread, uint64_t before_ns)
{
	thread->pstate.asked = thread->pstate.sure = false;
	__atomic_store_n(&not_before_ns, before_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&taken, false, __ATOMIC_RELEASE);
}

static void learn(struct rung_thread *thread, enum outcome outcome, uint64_t now_ns)
{
	if (outcome == LOW && !thread->pstate.sure) {
		thread->pstate.sure = true;
		thread->pstate.counted_ns = thread->pstate.asked_ns;
		thread->lane->naps[MPIWAIT_RUNG_PSTATE]++;
	} else if (outcome == REFUSED) {
		time_count(thread, now_ns);
		give_up(thread, now_ns + REFUSED_NS);
	} else if (outcome == OVER) {
		give_up(thread, UINT64_MAX);
	}
	time_count(thread, now_ns);
}

static void lower(struct rung_thread *thread, uint64_t now_ns)
{
	if (!thread->pstate.asked) {
		if (now_ns < __atomic_load_n(&not_before_ns, __ATOMIC_RELAXED) ||
		    __atomic_exchange_n(&taken, true, __ATOMIC_ACQ_REL))
			return;
		thread->pstate.asked = true;
	} else {
		bool is_due = now_ns - thread->pstate.asked_ns >= MPIWAIT_LEASE_RENEW_NS;

		if (is_due || !thread->pstate.sure)
			learn(thread, look(thread), now_ns);
		if (!is_due || !thread->pstate.asked)
			return;
	}
	thread->pstate.asked_ns = now_ns;
	learn(thread, ask_low(thread), now_ns);
}

static void restore(struct rung_thread *thread, uint64_t now_ns, bool waits)
{
	enum outcome outcome;

	if (!thread->pstate.sure)
		learn(thread, look(thread), now_ns);
	if (!thread->pstate.asked)
		return;
	outcome = ask_restore(thread, waits);
	time_count(thread, now_ns);
	give_up(thread, outcome == OVER ? UINT64_MAX : outcome == SILENT ? now_ns + silent_ns : 0);
	if (outcome == SILENT)
		silent_ns *= 2;
}

void rung_pstate_hold(struct rung_thread *thread, uint64_t now_ns, bool low)
{
	int saved = errno;

	if (low)
		lower(thread, now_ns);
	else if (thread->pstate.asked)
		restore(thread, now_ns, false);
	errno = saved;
}

void rung_pstate_leave(struct rung_thread *thread)
{
	int saved = errno;

	if (!thread->pstate.asked)
		return;
	restore(thread, clock_now_ns(), true);
	errno = saved;
}
