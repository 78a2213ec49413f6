/*
 * The bell. Its invariant stands in bell.h.
 */
#include "preload/process/bell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process/clock.h"

#define ANSWER_NS       UINT64_C(16000) /* to begin with */
#define ANSWER_NS_LEAST UINT64_C(4000)
#define ANSWER_NS_MOST  UINT64_C(4000000)
#define ANSWER_SHARE    8 /* of the mean: the latest */
#define REST_ANSWERS    64

struct bell bell;

static uint32_t nap_number(void)
{
	return __atomic_fetch_add(&bell.naps, 2, __ATOMIC_RELAXED) | 1;
}

enum bell_end bell_sleep(const struct timespec *told)
{
	uint32_t number = nap_number(), none = 0, mine = number;
	enum bell_end end = BELL_WANTED;

	if (!__atomic_compare_exchange_n(&bell.nap, &none, number, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return BELL_WANTED;
	if (__atomic_load_n(&bell.wanting, __ATOMIC_SEQ_CST) == 0) {
		end = BELL_SLEPT;
		syscall(SYS_futex, &bell.nap, FUTEX_WAIT_PRIVATE, number, told, NULL, 0);
	}
	if (!__atomic_compare_exchange_n(&bell.nap, &mine, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
	    end == BELL_SLEPT)
		end = BELL_RUNG;
	return end;
}

static uint64_t answer_mean(void)
{
	uint64_t mean_ns = __atomic_load_n(&bell.answer_ns, __ATOMIC_RELAXED);

	return mean_ns ? mean_ns : ANSWER_NS;
}

uint64_t bell_answered(uint64_t now_ns, uint64_t slept_ns)
{
	uint64_t rung_ns = __atomic_load_n(&bell.rung_ns, __ATOMIC_RELAXED), mean_ns = answer_mean();
	uint64_t took_ns = now_ns > rung_ns ? now_ns - rung_ns : 0;

	if (took_ns > slept_ns)
		took_ns = slept_ns;
	mean_ns = mean_ns - mean_ns / ANSWER_SHARE + took_ns / ANSWER_SHARE + 1;
	__atomic_store_n(&bell.answer_ns, mean_ns < ANSWER_NS_MOST ? mean_ns : ANSWER_NS_MOST, __ATOMIC_RELAXED);
	return took_ns;
}

uint64_t bell_rest_ns(void)
{
	uint64_t mean_ns = answer_mean();

	return REST_ANSWERS * (mean_ns > ANSWER_NS_LEAST ? mean_ns : ANSWER_NS_LEAST);
}

/* All who sleep there are woken: one that was rung for before may still be on its way. */
static void ring(uint32_t number)
{
	int saved = errno;

	__atomic_store_n(&bell.rung_ns, clock_now_ns(), __ATOMIC_RELAXED);
	if (__atomic_compare_exchange_n(&bell.nap, &number, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &bell.nap, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	errno = saved;
}

void bell_want(void)
{
	uint32_t number;

	__atomic_fetch_add(&bell.wanting, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&bell.wanted, 1, __ATOMIC_RELAXED);
	number = __atomic_load_n(&bell.nap, __ATOMIC_SEQ_CST);
	if (number != 0)
		ring(number);
}

void bell_have(void)
{
	__atomic_fetch_sub(&bell.wanting, 1, __ATOMIC_RELEASE);
}
