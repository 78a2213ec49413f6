/*
 * The broker, with the calls of the test: what is heard, in which order, and that neither forged words nor rings
 * without end keep it from orders and expiry. What the calls do to a frequency is tested on a simulated node.
 */
#include "spank/cpufreq/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/contract/stats.h"
#include "spank/base/descriptor.h"
#include "spank/base/files.h"
#include "spank/base/ration.h"
#include "tests/lib/check.h"

#define CPUS      1024
#define ANSWER_NS (20 * SECOND_NS) /* a machine that is busy, not one that is slow */
#define SECOND_NS UINT64_C(1000000000)
#define MS_NS     UINT64_C(1000000)
#define NEVER     UINT64_MAX

/* What the broker has called for, by the broker's thread. */
static struct {
	unsigned lowered, restored, expired, obeyed;
	unsigned lowered_before; /* the latest restore */
	uint32_t cpu, thread;
	uint64_t took_ns; /* each lower, of CPU time */
	bool ends;
	unsigned hangs_at; /* the lower of that number hangs, for as long as this is so */
	uint64_t expires_ns;
} called;

static struct broker *broker;
static const struct mpiwait_board *board; /* as a task has it */
static uint64_t *words;
static int segment;

static unsigned count(const unsigned *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static void more(unsigned *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static enum mpiwait_lease_answer lower(void *context, uint32_t cpu, pid_t thread, uint32_t *ret_changes)
{
	uint64_t until_ns = cpu_ns() + called.took_ns;

	(void)context;
	called.cpu = cpu;
	called.thread = (uint32_t)thread;
	*ret_changes = 3;
	more(&called.lowered);
	while (cpu_ns() < until_ns || count(&called.hangs_at) == called.lowered)
		;
	return cpu == 5 ? MPIWAIT_LEASE_DONE : MPIWAIT_LEASE_NOT_NOW;
}

static enum mpiwait_lease_answer restore(void *context, uint32_t cpu, uint32_t *ret_changes)
{
	(void)context;
	called.cpu = cpu;
	called.lowered_before = count(&called.lowered);
	*ret_changes = 4;
	more(&called.restored);
	return MPIWAIT_LEASE_DONE;
}

static uint64_t expire(void *context, uint64_t now_ns)
{
	(void)context;
	if (__atomic_load_n(&called.expires_ns, __ATOMIC_ACQUIRE) > now_ns)
		return called.expires_ns;
	more(&called.expired);
	__atomic_store_n(&called.expires_ns, NEVER, __ATOMIC_RELEASE);
	return NEVER;
}

static bool obey(void *context)
{
	(void)context;
	more(&called.obeyed);
	return !__atomic_load_n(&called.ends, __ATOMIC_ACQUIRE);
}

static const struct broker_calls calls = {lower, restore, expire, obey};

static void begin_in(int directory)
{
	struct broker_config config = {.calls = &calls, .cpus = CPUS, .directory = directory};
	struct error error = {""};

	memset(&called, 0, sizeof(called));
	called.expires_ns = NEVER;
	segment = memory_file("test");
	CHECK(segment >= 0 && ftruncate(segment, MPIWAIT_SLOTS_OFFSET) == 0);
	words = mmap(NULL, CPUS * sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, segment, MPIWAIT_WORDS_OFFSET);
	config.segment = segment;
	CHECK(words != MAP_FAILED && broker_start(&config, &broker, &error) == 0);
	board = mmap(NULL, mpiwait_board_size(CPUS), PROT_READ, MAP_SHARED, broker_board(broker), 0);
	CHECK(board != MAP_FAILED && board->magic == MPIWAIT_BOARD_MAGIC && board->cpus == CPUS);
}

static void begin(void)
{
	begin_in(-1);
}

static void ring(void)
{
	syscall(SYS_futex, &board->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void end(void)
{
	__atomic_store_n(&called.ends, true, __ATOMIC_RELEASE);
	CHECK(broker_order(broker, ANSWER_NS) && broker_end(broker, ANSWER_NS));
	CHECK(board->over == 1);
	munmap((void *)(uintptr_t)board, mpiwait_board_size(CPUS));
	munmap(words, CPUS * sizeof(*words));
	close(segment);
}

static void say(uint32_t cpu, uint32_t verb, uint32_t serial)
{
	__atomic_store_n(&words[cpu], mpiwait_lease_request(verb, 77, serial), __ATOMIC_SEQ_CST);
	ring();
}

static uint64_t reply_of(uint32_t cpu)
{
	return __atomic_load_n(&board->reply[cpu], __ATOMIC_ACQUIRE);
}

/* Waits until that CPU's request has its answer, ringing; returns the answer. */
static int hear(uint32_t cpu, uint32_t serial)
{
	uint64_t until_ns = clock_monotonic_ns() + ANSWER_NS;

	while (mpiwait_lease_serial(reply_of(cpu)) != serial) {
		if (clock_monotonic_ns() > until_ns)
			return -1;
		ring();
		usleep(100);
	}
	return (int)mpiwait_lease_answer(reply_of(cpu));
}

static void answers(void)
{
	begin();
	say(5, MPIWAIT_LEASE_LOW, 41);
	CHECK(hear(5, 41) == MPIWAIT_LEASE_DONE && mpiwait_lease_changes(reply_of(5)) == 3);
	CHECK(called.lowered == 1 && called.cpu == 5 && called.thread == 77);
	say(5, MPIWAIT_LEASE_RESTORE, 42);
	CHECK(hear(5, 42) == MPIWAIT_LEASE_DONE && mpiwait_lease_changes(reply_of(5)) == 4 && called.restored == 1);
	say(CPUS - 1, MPIWAIT_LEASE_LOW, UINT32_MAX);
	CHECK(hear(CPUS - 1, UINT32_MAX) == MPIWAIT_LEASE_NOT_NOW && called.cpu == CPUS - 1);
	end();
}

/* A core that was not lowered is as it was: nothing is called for it, so that such requests are cheap. */
static void restores_what_is_low_only(void)
{
	begin();
	say(6, MPIWAIT_LEASE_RESTORE, 1);
	CHECK(hear(6, 1) == MPIWAIT_LEASE_DONE && called.restored == 0);
	say(6, MPIWAIT_LEASE_LOW, 2);
	CHECK(hear(6, 2) == MPIWAIT_LEASE_NOT_NOW);
	say(6, MPIWAIT_LEASE_RESTORE, 3);
	CHECK(hear(6, 3) == MPIWAIT_LEASE_DONE && called.restored == 0);
	end();
}

/* What is no request costs that core its low frequency, and no other. */
static void restores_for_no_request(void)
{
	begin();
	say(5, MPIWAIT_LEASE_LOW, 1);
	CHECK(hear(5, 1) == MPIWAIT_LEASE_DONE);
	say(5, 99, 2);
	CHECK(hear(5, 2) == MPIWAIT_LEASE_OVER && called.restored == 1 && called.cpu == 5);
	say(5, MPIWAIT_LEASE_LOW, 3);
	CHECK(hear(5, 3) == MPIWAIT_LEASE_DONE);
	end();
}

static bool comes(const unsigned *counter, unsigned least)
{
	uint64_t until_ns = clock_monotonic_ns() + ANSWER_NS;

	while (count(counter) < least && clock_monotonic_ns() < until_ns)
		usleep(500);
	return count(counter) >= least;
}

static void hang_at(unsigned number)
{
	__atomic_store_n(&called.hangs_at, number, __ATOMIC_RELEASE);
}

/* Who is to be restored waits for the request that is served just then, and not for the others that are there. */
static void restores_before_it_slows(void)
{
	begin();
	say(5, MPIWAIT_LEASE_LOW, 1);
	CHECK(hear(5, 1) == MPIWAIT_LEASE_DONE);
	hang_at(2);
	for (uint32_t cpu = 10; cpu < 20; cpu++)
		say(cpu, MPIWAIT_LEASE_LOW, 1);
	CHECK(comes(&called.lowered, 2));
	hang_at(3);
	CHECK(comes(&called.lowered, 3));
	say(5, MPIWAIT_LEASE_RESTORE, 2);
	hang_at(0);
	CHECK(hear(5, 2) == MPIWAIT_LEASE_DONE && called.restored == 1 && called.lowered_before == 3);
	end();
}

static void *write_without_end(void *argument)
{
	uint32_t serial = 0;

	while (!__atomic_load_n((bool *)argument, __ATOMIC_ACQUIRE)) {
		serial++;
		for (uint32_t cpu = 10; cpu < CPUS; cpu++)
			__atomic_store_n(&words[cpu], mpiwait_lease_request(serial % 2, 77, serial), __ATOMIC_RELAXED);
		ring();
	}
	return NULL;
}

/*
 * One that forges all words and rings without end, for requests that are dear: orders, expiry and restoring go on, and
 * what is done for it is within the ration.
 */
static void bounds_a_flood(void)
{
	const uint64_t dear_ns = MS_NS / 2;
	uint64_t began_ns, most;
	bool enough = false;
	pthread_t flood;

	begin();
	say(5, MPIWAIT_LEASE_LOW, 1);
	CHECK(hear(5, 1) == MPIWAIT_LEASE_DONE);
	called.took_ns = dear_ns;
	began_ns = clock_monotonic_ns();
	CHECK(pthread_create(&flood, NULL, write_without_end, &enough) == 0);
	CHECK(comes(&called.lowered, 10));
	say(5, MPIWAIT_LEASE_RESTORE, 2);
	CHECK(hear(5, 2) == MPIWAIT_LEASE_DONE && count(&called.restored) >= 1);
	__atomic_store_n(&called.expires_ns, clock_monotonic_ns(), __ATOMIC_RELEASE);
	CHECK(comes(&called.expired, 1));
	for (unsigned i = 0; i < 100; i++)
		CHECK(broker_order(broker, ANSWER_NS) && count(&called.obeyed) == i + 1);
	CHECK(comes(&called.lowered, 100));
	most = (clock_monotonic_ns() - began_ns) / 40 / dear_ns + 20 * MS_NS / dear_ns + 2;
	EXPECT(count(&called.lowered) <= most, "%u of at most %lu", count(&called.lowered), (unsigned long)most);
	__atomic_store_n(&enough, true, __ATOMIC_RELEASE);
	pthread_join(flood, NULL);
	end();
}

/* A request that waits for the ration uses none of it, however often the broker looks. Root alone has the file. */
static void waiting_uses_no_ration(void)
{
	char path[] = "/tmp/test-broker-XXXXXX";
	int directory = mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct shared_ration *ration = shared_ration_open(directory, SHARED_RATION_FILE);
	uint64_t until_ns;

	CHECK(directory >= 0 && ration);
	shared_ration_book(ration, SHARED_RATION_BROKER, 100 * SECOND_NS, clock_monotonic_ns());
	until_ns = shared_ration_wait_ns(ration, SHARED_RATION_BROKER, 0, 0);
	CHECK(shared_ration_wait_ns(ration, SHARED_RATION_BROKER, SECOND_NS, until_ns - 41 * SECOND_NS) == SECOND_NS);
	CHECK(shared_ration_wait_ns(ration, SHARED_RATION_BROKER, SECOND_NS, until_ns - 40 * SECOND_NS) == 0);
	begin_in(directory);
	say(5, MPIWAIT_LEASE_LOW, 1);
	for (unsigned i = 0; i < 20; i++) /* each wakes the thread, which then looks for a request */
		CHECK(broker_order(broker, ANSWER_NS));
	CHECK(count(&called.lowered) == 0 && shared_ration_wait_ns(ration, SHARED_RATION_BROKER, 0, 0) == until_ns);
	end();
	shared_ration_free(ration);
	CHECK(unlinkat(directory, SHARED_RATION_FILE, 0) == 0 && rmdir(path) == 0);
	close(directory);
}

/* A thread that does not come back is waited for as long as was said, and no longer; what it uses stays. */
static void gives_up(void)
{
	uint64_t began_ns;

	begin();
	hang_at(1);
	say(7, MPIWAIT_LEASE_LOW, 1);
	CHECK(comes(&called.lowered, 1));
	called.ends = true;
	began_ns = clock_monotonic_ns();
	CHECK(!broker_order(broker, 20 * MS_NS) && !broker_end(broker, 10 * MS_NS));
	CHECK(clock_monotonic_ns() - began_ns >= 30 * MS_NS && clock_monotonic_ns() - began_ns < ANSWER_NS);
	CHECK(count(&called.obeyed) == 0);
	hang_at(0);
	CHECK(comes(&called.obeyed, 1)); /* it ends by itself, with all that it needs */
	while (__atomic_load_n(&board->over, __ATOMIC_ACQUIRE) == 0)
		usleep(500);
}

/* A child that shares the memory and ends at once gives orders as well: so does contain_spank. */
static int order_in_child(void *argument)
{
	(void)argument;
	_exit(broker_order(broker, ANSWER_NS) ? 0 : 1);
}

static void obeys_a_child_of_the_same_memory(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	int status = -1;
	pid_t child;

	begin();
	child = clone(order_in_child, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	CHECK(called.obeyed == 1);
	end();
}

static void rations(void)
{
	struct ration ration = ration_begin(16, 1000, 5000);

	CHECK(ration_wait_ns(&ration) == 0);
	ration_use(&ration, 20);
	CHECK(ration_wait_ns(&ration) == 5000);
	ration_fill(&ration, 5999);
	CHECK(ration.left == -4);
	ration_fill(&ration, 9500);
	CHECK(ration.left == 0 && ration_wait_ns(&ration) == 1000 && ration.filled_ns == 9000);
	ration_fill(&ration, 10000);
	CHECK(ration.left == 1 && ration_wait_ns(&ration) == 0);
	ration_fill(&ration, UINT64_MAX);
	CHECK(ration.left == 16);
	ration_use(&ration, UINT64_MAX);
	CHECK(ration.left < 0);
}

/* Who has the board can read it, map it and wait on it: it cannot be opened for writing, or be made so. */
static void tasks_only_read_the_board(void)
{
	char path[32];
	int status;
	pid_t child;

	begin();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", broker_board(broker));
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, broker_board(broker), 0) == MAP_FAILED);
	CHECK(pwrite(broker_board(broker), "x", 1, 0) < 0 && ftruncate(broker_board(broker), 0) < 0);
	child = fork();
	if (child == 0) {
		bool user = getuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0);

		/* who owns it may open it anew: as root does, and no task */
		_exit(user && (getuid() != 65534 || open(path, O_RDWR) < 0) && open(path, O_RDONLY) >= 0 ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	end();
}

int main(void)
{
	rations();
	answers();
	restores_what_is_low_only();
	restores_for_no_request();
	restores_before_it_slows();
	tasks_only_read_the_board();
	obeys_a_child_of_the_same_memory();
	bounds_a_flood();
	if (geteuid() == 0)
		waiting_uses_no_ration();
	gives_up();
	return CHECK_RESULT;
}
