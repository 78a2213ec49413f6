/*
 * pstate by a lease: asks slurmstepd's broker. Invariant: lowering never waits; restoring waits until it is done, but
 * for a broker that does not answer for 100 ms, which is not asked again: the core comes back by itself.
 */
#include "preload/rung_pstate.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/clock.h"
#include "preload/lease.h"

#define ANSWER_NS   UINT64_C(100000000)
#define REPLIES_MAX 64

static int lease_fd = -1;

static bool lease_probe(const struct config *config)
{
	struct stat status;

	if (syscall(SYS_fstat, config->cpufreq_fd, &status) != 0 || !S_ISSOCK(status.st_mode) ||
	    status.st_dev != config->cpufreq_dev || status.st_ino != config->cpufreq_ino)
		return false;
	lease_fd = config->cpufreq_fd;
	ioctl(lease_fd, FIOCLEX); /* fcntl is newer than glibc 2.17 where file offsets have 64 bits */
	return true;
}

/* Raw system calls: send and recv are cancellation points, which an MPI call need not be. */
static enum pstate_outcome ask(struct rung_thread *thread, enum mpiwait_lease_verb verb)
{
	struct mpiwait_lease_request request = {
	        .magic = MPIWAIT_LEASE_MAGIC,
	        .verb = verb,
	        .cpu = thread->pstate.cpu,
	        .tid = (uint32_t)syscall(SYS_gettid),
	        .serial = ++thread->pstate.serial,
	};

	if (syscall(SYS_sendto, lease_fd, &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) ==
	    (long)sizeof(request))
		return PSTATE_UNKNOWN;
	return errno == EAGAIN || errno == EINTR ? PSTATE_REFUSED : PSTATE_OVER;
}

static enum pstate_outcome outcome_of(const struct mpiwait_lease_reply *reply)
{
	switch (reply->answer) {
	case MPIWAIT_LEASE_DONE: /* also what was asked for by RESTORE */
		return PSTATE_LOW;
	case MPIWAIT_LEASE_NOT_NOW:
	case MPIWAIT_LEASE_BUSY:
		return PSTATE_REFUSED;
	default:
		return PSTATE_OVER;
	}
}

/* The reply to the latest request, if it is there. */
static enum pstate_outcome lease_look(struct rung_thread *thread)
{
	struct mpiwait_lease_reply reply;

	for (int i = 0; i < REPLIES_MAX; i++) {
		long got = syscall(SYS_recvfrom, lease_fd, &reply, sizeof(reply), MSG_DONTWAIT, NULL, NULL);

		if (got < 0)
			return errno == EAGAIN || errno == EINTR ? PSTATE_UNKNOWN : PSTATE_OVER;
		if (got != (long)sizeof(reply) || reply.magic != MPIWAIT_LEASE_MAGIC)
			return PSTATE_OVER;
		thread->lane->transitions += reply.changes;
		if (reply.serial == thread->pstate.serial)
			return outcome_of(&reply);
	}
	return PSTATE_UNKNOWN;
}

static enum pstate_outcome lease_lower(struct rung_thread *thread)
{
	enum pstate_outcome outcome;
	unsigned int cpu;

	if (!thread->pstate.sure) {
		if (syscall(SYS_getcpu, &cpu, NULL, NULL) != 0)
			return PSTATE_REFUSED;
		thread->pstate.cpu = cpu;
	}
	outcome = ask(thread, MPIWAIT_LEASE_LOW);
	return outcome == PSTATE_REFUSED && thread->pstate.sure ? PSTATE_UNKNOWN : outcome;
}

static enum pstate_outcome lease_restore(struct rung_thread *thread, bool waits)
{
	uint64_t begun_ns = clock_now_ns(), waited_ns = 0;
	enum pstate_outcome outcome = ask(thread, MPIWAIT_LEASE_RESTORE);

	while (waits && outcome == PSTATE_UNKNOWN && waited_ns < ANSWER_NS) {
		struct pollfd answer = {.fd = lease_fd, .events = POLLIN};
		struct timespec left = {0, (long)(ANSWER_NS - waited_ns)};

		syscall(SYS_ppoll, &answer, 1, &left, NULL, 0);
		outcome = lease_look(thread);
		waited_ns = clock_now_ns() - begun_ns;
	}
	if (outcome == PSTATE_UNKNOWN && !waits)
		return PSTATE_UNKNOWN;
	return outcome == PSTATE_LOW ? PSTATE_FOUND : PSTATE_OVER;
}

const struct pstate_way pstate_lease = {
        .probe = lease_probe, .lower = lease_lower, .look = lease_look, .restore = lease_restore};
