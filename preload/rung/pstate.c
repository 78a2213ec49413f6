/*
 * pstate: the core's lowest frequency for the remainder of a wait, by a lease (preload/contract/lease.h). The thread
 * asks slurmstepd by a word, and reads the answer on the board.
 *
 * Invariant: a lowered core is restored before the call returns, wherever the thread runs by then. Lowering never
 * waits. Restoring waits until it is done, but at most 100 ms for a slurmstepd that does not answer; the core then
 * comes back by itself.
 *
 * One thread of the process at a time holds the rung, the first that asks: the grant belongs to the task. After a
 * refusal the process asks again only after a while, and after the grant's end never. After silence it asks again after
 * 10 s, and after twice as long each time, so that vain waits take less than a hundredth of the time.
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
#define AGAIN_NS   UINT64_C(200000) /* ring again after this time: a ring may be missed */

/* Result of a step. SILENT: no answer, though the thread waited for it. */
enum outcome { UNKNOWN, LOW, REFUSED, SILENT, OVER };

static const struct mpiwait_board *board;
static uint64_t *words;
static bool taken; /* a waiting thread holds the rung; the members below belong to it */
static uint64_t
        not_before_ns; /* earliest time to ask again after a refusal or silence; UINT64_MAX: the grant is over */
static uint64_t silent_ns = SILENT_NS; /* pause after the next silence */

/* Maps the board. Returns NULL if the descriptor is not that of a board of this release. */
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

/* Rings the broker, by a raw system call: an MPI call need not be a cancellation point. */
static void ring(void)
{
	syscall(SYS_futex, &board->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static uint64_t reply_read(const struct rung_thread *thread)
{
	return __atomic_load_n(&board->reply[thread->pstate.cpu], __ATOMIC_ACQUIRE);
}

/*
 * Asks for the verb. The serial follows the word's own, which another process may have written, so that an old answer
 * is not taken for ours.
 */
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

/* Returns the answer to the latest request, UNKNOWN if there is none yet. LOW also means that a RESTORE is done. */
static enum outcome answer_read(struct rung_thread *thread)
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

/* Asks for the low frequency of the thread's CPU, or again for that of the core that is low already. */
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

/* Waits until the reply changes, at most for `most_ns`. */
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

/* Asks to restore the frequency. If `waits`, waits for the answer. */
static enum outcome ask_restore(struct rung_thread *thread, bool waits)
{
	uint64_t begun_ns = clock_now_ns(), waited_ns = 0;
	enum outcome outcome = ask(thread, MPIWAIT_LEASE_RESTORE);

	while (waits && outcome == UNKNOWN && waited_ns < ANSWER_NS) {
		reply_await(thread, ANSWER_NS - waited_ns);
		outcome = answer_read(thread);
		waited_ns = clock_now_ns() - begun_ns;
		if (outcome == UNKNOWN)
			ring();
	}
	return waits && outcome == UNKNOWN ? SILENT : outcome == REFUSED ? OVER : outcome;
}

/*
 * Counts the time at low frequency. A lease that was not renewed (the process was suspended, or long inside the
 * runtime) ended by itself meanwhile.
 */
static void time_count(struct rung_thread *thread, uint64_t now_ns)
{
	uint64_t until_ns = thread->pstate.asked_ns + MPIWAIT_LEASE_HOLD_NS;

	if (until_ns > now_ns)
		until_ns = now_ns;
	if (thread->pstate.sure && until_ns > thread->pstate.counted_ns)
		thread->lane->asleep_ns[MPIWAIT_RUNG_PSTATE] += until_ns - thread->pstate.counted_ns;
	thread->pstate.counted_ns = now_ns;
}

/* Releases the rung for other threads. Nobody asks again before `before_ns`; UINT64_MAX: never. */
static void give_up(struct rung_thread *thread, uint64_t before_ns)
{
	thread->pstate.asked = thread->pstate.sure = false;
	__atomic_store_n(&not_before_ns, before_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&taken, false, __ATOMIC_RELEASE);
}

/* Takes the answer to the latest request: notes a lowered core, or gives the rung up. */
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

/* Asks for the low frequency if it is not asked for, and renews the lease when that is due. Never waits. */
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
			learn(thread, answer_read(thread), now_ns);
		if (!is_due || !thread->pstate.asked)
			return;
	}
	thread->pstate.asked_ns = now_ns;
	learn(thread, ask_low(thread), now_ns);
}

/* Has the core restored if it was lowered, and gives the rung up. If `waits`, waits for the answer. */
static void restore(struct rung_thread *thread, uint64_t now_ns, bool waits)
{
	enum outcome outcome;

	if (!thread->pstate.sure)
		learn(thread, answer_read(thread), now_ns);
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
