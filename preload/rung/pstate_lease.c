/*
 * pstate by a lease: asks slurmstepd by a word, and reads the answer on the board. Invariant: lowering never waits;
 * restoring waits until it is done, but for a slurmstepd that does not answer for 100 ms: the core comes back by
 * itself.
 */
#include "preload/rung/pstate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/lease.h"
#include "preload/process/clock.h"
#include "preload/process/inherited.h"
#include "preload/process/segment.h"

#define ANSWER_NS UINT64_C(100000000)
#define AGAIN_NS  UINT64_C(200000) /* a ring may be missed */

static const struct mpiwait_board *board;
static uint64_t *words;

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

static bool lease_probe(const struct config *config)
{
	const struct inherited given = {.number = config->cpufreq_fd,
	                                .device = config->cpufreq_dev,
	                                .inode = config->cpufreq_ino,
	                                .task = config->task_pid,
	                                .flags = O_RDONLY};
	bool opened;
	int fd = inherited_find(&given, &opened);

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
static enum pstate_outcome ask(struct rung_thread *thread, enum mpiwait_lease_verb verb)
{
	uint64_t *word = &words[thread->pstate.cpu];
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	if (__atomic_load_n(&board->over, __ATOMIC_ACQUIRE))
		return PSTATE_OVER;
	if (!thread->pstate.counts)
		thread->pstate.changes = mpiwait_lease_changes(reply_read(thread));
	thread->pstate.counts = true;
	thread->pstate.serial = mpiwait_lease_serial(__atomic_load_n(word, __ATOMIC_RELAXED)) + 1;
	__atomic_store_n(word, mpiwait_lease_request(verb, tid, thread->pstate.serial), __ATOMIC_SEQ_CST);
	ring();
	return PSTATE_UNKNOWN;
}

/* DONE is also what was asked for by RESTORE. */
static enum pstate_outcome outcome_of(uint32_t answer)
{
	if (answer == MPIWAIT_LEASE_DONE)
		return PSTATE_LOW;
	return answer == MPIWAIT_LEASE_NOT_NOW || answer == MPIWAIT_LEASE_BUSY ? PSTATE_REFUSED : PSTATE_OVER;
}

/* The answer to the latest request, if it is there. */
static enum pstate_outcome lease_look(struct rung_thread *thread)
{
	uint64_t reply = reply_read(thread);
	uint32_t changes = mpiwait_lease_changes(reply);

	if (mpiwait_lease_serial(reply) != thread->pstate.serial)
		return __atomic_load_n(&board->over, __ATOMIC_ACQUIRE) ? PSTATE_OVER : PSTATE_UNKNOWN;
	thread->lane->transitions += (changes - thread->pstate.changes) & MPIWAIT_LEASE_CHANGES_MASK;
	thread->pstate.changes = changes;
	return outcome_of(mpiwait_lease_answer(reply));
}

static enum pstate_outcome lease_lower(struct rung_thread *thread)
{
	unsigned int cpu;

	if (!thread->pstate.sure) {
		if (syscall(SYS_getcpu, &cpu, NULL, NULL) != 0 || cpu >= board->cpus)
			return PSTATE_REFUSED;
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

static enum pstate_outcome lease_restore(struct rung_thread *thread, bool waits)
{
	uint64_t begun_ns = clock_now_ns(), waited_ns = 0;
	enum pstate_outcome outcome = ask(thread, MPIWAIT_LEASE_RESTORE);

	while (waits && outcome == PSTATE_UNKNOWN && waited_ns < ANSWER_NS) {
		reply_await(thread, ANSWER_NS - waited_ns);
		outcome = lease_look(thread);
		waited_ns = clock_now_ns() - begun_ns;
		if (outcome == PSTATE_UNKNOWN)
			ring();
	}
	if (outcome == PSTATE_UNKNOWN)
		return waits ? PSTATE_SILENT : PSTATE_UNKNOWN;
	return outcome == PSTATE_LOW ? PSTATE_FOUND : PSTATE_OVER;
}

const struct pstate_way pstate_lease = {
        .probe = lease_probe, .lower = lease_lower, .look = lease_look, .restore = lease_restore};
