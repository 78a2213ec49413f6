/* One thread, one poll, a bounded amount of work for each lease. */
#include "spank/broker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "spank/files.h"
#include "spank/sender.h"
#include "spank/thread.h"

#define MS_NS        UINT64_C(1000000)
#define TOKENS_MOST  64 /* requests in a burst */
#define TOKENS_AGAIN 16 /* a lease that has used its own up is listened to again from so many on */
#define TOKEN_NS     MS_NS

struct lease {
	int descriptor;
	pid_t task;
	uid_t uid;
	pid_t process; /* the one of the task's processes that has the lease; 0: none yet */
	uint32_t tokens;
	bool waits; /* for tokens */
	uint64_t filled_ns;
};

struct broker {
	const struct broker_calls *calls;
	void *context;
	int stop;
	pthread_t thread;
	struct pollfd *poll;
	uint32_t count;
	struct lease lease[];
};

struct packet {
	struct mpiwait_lease_request request;
	bool is_request;
	struct ucred from;
};

static void lease_end(struct broker *broker, uint32_t task)
{
	struct lease *lease = &broker->lease[task];

	broker->calls->drop(broker->context, task);
	close(lease->descriptor);
	lease->descriptor = -1;
}

/* Descriptors that come with a packet find no room and are closed by the kernel. Returns 1, 0 at the end, -errno. */
static int packet_receive(int descriptor, struct packet *packet)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	char bytes[sizeof(packet->request) + 1];
	struct iovec vector = {bytes, sizeof(bytes)};
	struct msghdr message = {
	        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t length = recvmsg(descriptor, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *first = length >= 0 ? CMSG_FIRSTHDR(&message) : NULL;

	/* An empty packet says who sent it, the end of all does not. */
	if (length < 0 || !first)
		return length < 0 ? -errno : 0;
	*packet = (struct packet){.is_request = false};
	if (first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_CREDENTIALS)
		memcpy(&packet->from, CMSG_DATA(first), sizeof(packet->from));
	if (length == sizeof(packet->request) && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		memcpy(&packet->request, bytes, sizeof(packet->request));
		packet->is_request = packet->request.magic == MPIWAIT_LEASE_MAGIC;
	}
	return 1;
}

static enum mpiwait_lease_answer answer_to(struct broker *broker, uint32_t task, const struct packet *packet,
                                           uint32_t *ret_changes)
{
	struct lease *lease = &broker->lease[task];

	if (lease->process != packet->from.pid) {
		if (lease->process && sender_lives(lease->process))
			return MPIWAIT_LEASE_BUSY;
		lease->process = packet->from.pid;
	}
	if (packet->request.verb == MPIWAIT_LEASE_LOW)
		return broker->calls->lower(broker->context, task, packet->from.pid, &packet->request, ret_changes);
	return broker->calls->restore(broker->context, task, &packet->request, ret_changes);
}

/* Returns whether there may be more. */
static bool lease_serve(struct broker *broker, uint32_t task)
{
	struct lease *lease = &broker->lease[task];
	struct mpiwait_lease_reply reply = {.magic = MPIWAIT_LEASE_MAGIC};
	struct packet packet;
	int got = packet_receive(lease->descriptor, &packet);

	if (got == -EAGAIN || got == -EINTR)
		return false;
	if (got <= 0) {
		lease_end(broker, task);
		return false;
	}
	lease->tokens--;
	if (packet.from.uid != lease->uid || !sender_is_of_task(packet.from.pid, lease->task))
		return true;
	if (!packet.is_request ||
	    (packet.request.verb != MPIWAIT_LEASE_LOW && packet.request.verb != MPIWAIT_LEASE_RESTORE)) {
		lease_end(broker, task);
		return false;
	}
	reply.serial = packet.request.serial;
	reply.answer = answer_to(broker, task, &packet, &reply.changes);
	send(lease->descriptor, &reply, sizeof(reply), MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

static void lease_fill(struct lease *lease, uint64_t now_ns)
{
	uint64_t more = (now_ns - lease->filled_ns) / TOKEN_NS;

	if (more == 0)
		return;
	lease->filled_ns = now_ns;
	lease->tokens = more > TOKENS_MOST - lease->tokens ? TOKENS_MOST : lease->tokens + (uint32_t)more;
	if (lease->tokens >= TOKENS_AGAIN)
		lease->waits = false;
}

/* What to look at, and for how long. */
static int poll_prepare(struct broker *broker, uint64_t next_ns)
{
	uint64_t now_ns = clock_monotonic_ns(), wait_ns = next_ns > now_ns ? next_ns - now_ns : 0;

	broker->poll[broker->count] = (struct pollfd){.fd = broker->stop, .events = POLLIN};
	for (uint32_t i = 0; i < broker->count; i++) {
		struct lease *lease = &broker->lease[i];

		lease_fill(lease, now_ns);
		if (lease->waits && lease->descriptor >= 0 && wait_ns > TOKENS_AGAIN * TOKEN_NS)
			wait_ns = TOKENS_AGAIN * TOKEN_NS;
		broker->poll[i] = (struct pollfd){.fd = lease->waits ? -1 : lease->descriptor, .events = POLLIN};
	}
	if (next_ns == UINT64_MAX && wait_ns > TOKENS_AGAIN * TOKEN_NS)
		return -1;
	return (int)(wait_ns / MS_NS > 1000 ? 1000 : wait_ns / MS_NS + 1);
}

static void serve_all(struct broker *broker)
{
	for (uint32_t i = 0; i < broker->count; i++) {
		struct lease *lease = &broker->lease[i];

		if (lease->descriptor < 0 || !broker->poll[i].revents)
			continue;
		while (lease->tokens > 0 && lease_serve(broker, i))
			;
		if (lease->descriptor >= 0 && lease->tokens == 0)
			lease->waits = true;
	}
}

static void *broker_main(void *argument)
{
	struct broker *broker = argument;
	uint64_t next_ns = UINT64_MAX;

	for (;;) {
		int timeout = poll_prepare(broker, next_ns);

		if (poll(broker->poll, broker->count + 1, timeout) < 0 && errno != EINTR)
			return NULL;
		if (broker->poll[broker->count].revents)
			return NULL;
		serve_all(broker);
		next_ns = broker->calls->expire(broker->context, clock_monotonic_ns());
	}
}

static void broker_free(struct broker *broker)
{
	for (uint32_t i = 0; i < broker->count; i++)
		if (broker->lease[i].descriptor >= 0)
			close(broker->lease[i].descriptor);
	if (broker->stop >= 0)
		close(broker->stop);
	free(broker->poll);
	free(broker);
}

int broker_start(const struct broker_lease leases[], uint32_t count, const struct broker_calls *calls, void *context,
                 struct broker **ret_broker, struct error *error)
{
	struct broker *broker = calloc(1, sizeof(*broker) + count * sizeof(broker->lease[0]));
	int rc = -ENOMEM;

	if (!broker)
		return error_set(error, -ENOMEM, "no lease: no memory");
	broker->calls = calls;
	broker->context = context;
	broker->count = count;
	for (uint32_t i = 0; i < count; i++)
		broker->lease[i] = (struct lease){.descriptor = leases[i].descriptor,
		                                  .task = leases[i].task,
		                                  .uid = leases[i].uid,
		                                  .tokens = TOKENS_MOST,
		                                  .filled_ns = clock_monotonic_ns()};
	broker->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	broker->poll = calloc(count + 1, sizeof(broker->poll[0]));
	if (broker->stop >= 0 && broker->poll)
		rc = thread_start(&broker->thread, broker_main, broker);
	if (rc < 0) {
		broker_free(broker);
		return error_set(error, rc, "no lease: %s", strerror(-rc));
	}
	*ret_broker = broker;
	return 0;
}

void broker_stop(struct broker *broker)
{
	const uint64_t one = 1;

	if (!broker)
		return;
	while (write(broker->stop, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(broker->thread, NULL);
	broker_free(broker);
}
