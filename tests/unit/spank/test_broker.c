/*
 * The broker, with the calls and the processes of the test: who is heard, what ends a lease, and that a task which
 * floods it delays nobody. What the calls do to a frequency is tested on a simulated node.
 */
#include "spank/broker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/check.h"

#define TASKS     2
#define ANSWER_MS 20000 /* a machine that is busy, not one that is slow */
#define BURST     64    /* requests, as broker.c has it */
#define NEVER     UINT64_MAX

/* What the broker has called for, by the broker's thread; read once it has answered, or has ended. */
static struct {
	pthread_mutex_t mutex;
	unsigned lowered[TASKS], restored[TASKS], dropped[TASKS];
	pid_t process;
	uint32_t cpu;
} called = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int ends[TASKS]; /* the tasks' */
static struct broker *broker;

static enum mpiwait_lease_answer lower(void *context, uint32_t task, pid_t process,
                                       const struct mpiwait_lease_request *request, uint32_t *ret_changes)
{
	(void)context;
	pthread_mutex_lock(&called.mutex);
	called.lowered[task]++;
	called.process = process;
	called.cpu = request->cpu;
	pthread_mutex_unlock(&called.mutex);
	*ret_changes = 3;
	return MPIWAIT_LEASE_NOT_NOW;
}

static enum mpiwait_lease_answer restore(void *context, uint32_t task, const struct mpiwait_lease_request *request,
                                         uint32_t *ret_changes)
{
	(void)context;
	(void)request;
	pthread_mutex_lock(&called.mutex);
	called.restored[task]++;
	pthread_mutex_unlock(&called.mutex);
	*ret_changes = 0;
	return MPIWAIT_LEASE_DONE;
}

static void drop(void *context, uint32_t task)
{
	(void)context;
	pthread_mutex_lock(&called.mutex);
	called.dropped[task]++;
	pthread_mutex_unlock(&called.mutex);
}

static uint64_t expire(void *context, uint64_t now_ns)
{
	(void)context;
	(void)now_ns;
	return NEVER;
}

static const struct broker_calls calls = {lower, restore, drop, expire};

/* A lease for each of the tasks, whose processes are these. */
static void begin(const pid_t tasks[TASKS], uid_t uid)
{
	struct broker_lease leases[TASKS];
	struct error error = {""};
	int on = 1;

	memset(called.lowered, 0, sizeof(called.lowered));
	memset(called.restored, 0, sizeof(called.restored));
	memset(called.dropped, 0, sizeof(called.dropped));
	for (int i = 0; i < TASKS; i++) {
		int pair[2] = {-1, -1};

		CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
		CHECK(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0);
		leases[i] = (struct broker_lease){.descriptor = pair[0], .task = tasks[i], .uid = uid};
		ends[i] = pair[1];
	}
	CHECK(broker_start(leases, TASKS, &calls, NULL, &broker, &error) == 0);
}

static void end(void)
{
	broker_stop(broker);
	for (int i = 0; i < TASKS; i++)
		close(ends[i]);
}

static bool ask(int descriptor, uint32_t verb, uint32_t serial)
{
	const struct mpiwait_lease_request request = {
	        .magic = MPIWAIT_LEASE_MAGIC, .verb = verb, .cpu = 5, .tid = 7, .serial = serial};

	return send(descriptor, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request);
}

/* Whether a reply comes; at the lease's end none does. */
static bool hear(int descriptor, struct mpiwait_lease_reply *ret_reply)
{
	struct pollfd answer = {.fd = descriptor, .events = POLLIN};

	return poll(&answer, 1, ANSWER_MS) == 1 &&
	       recv(descriptor, ret_reply, sizeof(*ret_reply), 0) == sizeof(*ret_reply);
}

static bool has_ended(int descriptor)
{
	struct pollfd answer = {.fd = descriptor, .events = POLLIN};
	struct mpiwait_lease_reply reply;

	return poll(&answer, 1, ANSWER_MS) == 1 && recv(descriptor, &reply, sizeof(reply), 0) <= 0;
}

static void answers(void)
{
	const pid_t tasks[TASKS] = {getpid(), getpid()};
	struct mpiwait_lease_reply reply = {0};

	begin(tasks, getuid());
	CHECK(ask(ends[0], MPIWAIT_LEASE_LOW, 41) && hear(ends[0], &reply));
	CHECK(reply.magic == MPIWAIT_LEASE_MAGIC && reply.serial == 41);
	CHECK(reply.answer == MPIWAIT_LEASE_NOT_NOW && reply.changes == 3);
	CHECK(called.lowered[0] == 1 && called.lowered[1] == 0 && called.process == getpid() && called.cpu == 5);
	CHECK(ask(ends[1], MPIWAIT_LEASE_RESTORE, 42) && hear(ends[1], &reply));
	CHECK(reply.serial == 42 && reply.answer == MPIWAIT_LEASE_DONE && reply.changes == 0);
	CHECK(called.restored[1] == 1 && called.restored[0] == 0);
	end();
	CHECK(called.dropped[0] == 0 && called.dropped[1] == 0); /* the caller ends it, and knows */
}

/* What is no request ends that lease, and no other. */
static void ends_a_lease(void)
{
	static const struct {
		struct mpiwait_lease_request request;
		size_t size;
	} cases[] = {
	        {{.magic = 1, .verb = MPIWAIT_LEASE_LOW}, sizeof(struct mpiwait_lease_request)},
	        {{.magic = MPIWAIT_LEASE_MAGIC, .verb = 0}, sizeof(struct mpiwait_lease_request)},
	        {{.magic = MPIWAIT_LEASE_MAGIC, .verb = MPIWAIT_LEASE_RESTORE + 1},
	         sizeof(struct mpiwait_lease_request)},
	        {{.magic = MPIWAIT_LEASE_MAGIC, .verb = MPIWAIT_LEASE_LOW}, sizeof(struct mpiwait_lease_request) - 1},
	        {{.magic = MPIWAIT_LEASE_MAGIC, .verb = MPIWAIT_LEASE_LOW}, 0},
	};
	const pid_t tasks[TASKS] = {getpid(), getpid()};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mpiwait_lease_reply reply;

		begin(tasks, getuid());
		CHECK(send(ends[0], &cases[i].request, cases[i].size, MSG_NOSIGNAL) == (ssize_t)cases[i].size);
		EXPECT(has_ended(ends[0]), "case %zu", i);
		CHECK(ask(ends[1], MPIWAIT_LEASE_LOW, 1) && hear(ends[1], &reply));
		end();
		EXPECT(called.dropped[0] == 1 && called.dropped[1] == 0 && called.lowered[0] == 0, "case %zu", i);
	}
	begin(tasks, getuid());
	shutdown(ends[0], SHUT_WR); /* as at the task's end */
	CHECK(has_ended(ends[0]));
	end();
	CHECK(called.dropped[0] == 1);
}

/* A child that sends what it is told to, and lives until it is told to end. */
struct child {
	pid_t pid;
	int tell; /* closed: it ends */
	int told;
};

static struct child child_make(int descriptor)
{
	struct child child = {.pid = -1};
	int order[2] = {-1, -1}, done[2] = {-1, -1};
	char byte = 0;

	CHECK(pipe(order) == 0 && pipe(done) == 0);
	child.pid = fork();
	if (child.pid == 0) {
		close(order[1]);
		ask(descriptor, MPIWAIT_LEASE_LOW, 77);
		if (write(done[1], &byte, 1) != 1)
			_exit(1);
		while (read(order[0], &byte, 1) > 0)
			;
		_exit(0);
	}
	close(order[0]);
	close(done[1]);
	child.tell = order[1];
	child.told = done[0];
	CHECK(read(child.told, &byte, 1) == 1); /* it has sent */
	return child;
}

static void child_end(const struct child *child)
{
	int status = -1;

	close(child->tell);
	close(child->told);
	CHECK(waitpid(child->pid, &status, 0) == child->pid && status == 0);
}

/* Who is not of the task, by the kernel's word, gets no answer, whatever it sends; nor does another user. */
static void hears_nobody_else(void)
{
	const pid_t tasks[TASKS] = {getpid(), getpid()};
	struct mpiwait_lease_reply reply;
	struct child child, other;
	pid_t foreign[TASKS];

	begin(tasks, getuid() + 1);
	CHECK(ask(ends[0], MPIWAIT_LEASE_LOW, 1));
	shutdown(ends[0], SHUT_WR);
	CHECK(has_ended(ends[0]));
	end();
	CHECK(called.lowered[0] == 0);

	other = child_make(-1);
	foreign[0] = foreign[1] = other.pid; /* no child of which is the test */
	begin(foreign, getuid());
	CHECK(ask(ends[0], MPIWAIT_LEASE_LOW, 2));
	shutdown(ends[0], SHUT_WR);
	CHECK(has_ended(ends[0]));
	end();
	CHECK(called.lowered[0] == 0);
	child_end(&other);

	begin(tasks, getuid());
	child = child_make(ends[0]); /* a process that the task has started is of the task */
	CHECK(hear(ends[0], &reply) && reply.serial == 77 && called.process == child.pid);
	CHECK(ask(ends[0], MPIWAIT_LEASE_LOW, 3) && hear(ends[0], &reply));
	CHECK(reply.answer == MPIWAIT_LEASE_BUSY && called.lowered[0] == 1);
	child_end(&child);
	CHECK(ask(ends[0], MPIWAIT_LEASE_LOW, 4) && hear(ends[0], &reply));
	CHECK(reply.answer == MPIWAIT_LEASE_NOT_NOW && called.process == getpid());
	end();
}

/* Sends until the broker has taken no more for a while: how many it took. */
static unsigned flood(int descriptor)
{
	unsigned sent = 0;

	while (ask(descriptor, MPIWAIT_LEASE_LOW, ++sent))
		;
	return sent - 1;
}

/* One that floods and never reads has its turn like all others, and a thousand requests a second. */
static void bounds_a_flood(void)
{
	const pid_t tasks[TASKS] = {getpid(), getpid()};
	struct mpiwait_lease_reply reply;
	struct timespec began, now;
	unsigned most, lowered;

	begin(tasks, getuid());
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < 20; i++) {
		flood(ends[0]);
		CHECK(ask(ends[1], MPIWAIT_LEASE_LOW, (uint32_t)i) && hear(ends[1], &reply));
		CHECK(reply.serial == (uint32_t)i);
	}
	pthread_mutex_lock(&called.mutex);
	lowered = called.lowered[0];
	pthread_mutex_unlock(&called.mutex);
	clock_gettime(CLOCK_MONOTONIC, &now);
	most = (unsigned)((now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000) + BURST + 2;
	EXPECT(lowered > 0 && lowered <= most, "%u of at most %u", lowered, most);
	EXPECT(called.lowered[1] == 20, "%u", called.lowered[1]);
	end();
}

int main(void)
{
	answers();
	ends_a_lease();
	hears_nobody_else();
	bounds_a_flood();
	return CHECK_RESULT;
}
