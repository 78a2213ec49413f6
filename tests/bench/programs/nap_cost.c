/*
 * What one nap costs on this machine: COUNT naps of NAP_NS, as the library takes them. Prints "late_us late_most_us
 * cpu_us": how much later than asked the median and nine of ten end, and the CPU time of one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define COUNT  5000
#define NAP_NS 100000

static double now_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static const struct timespec nap = {0, NAP_NS};
	static double late_us[COUNT];
	double cpu_us;

	if (prctl(PR_SET_TIMERSLACK, 1) < 0)
		return EXIT_FAILURE;
	cpu_us = now_us(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < COUNT; i++) {
		double began_us = now_us(CLOCK_MONOTONIC);

		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		late_us[i] = now_us(CLOCK_MONOTONIC) - began_us - NAP_NS * 1e-3;
	}
	cpu_us = (now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_us) / COUNT;
	qsort(late_us, COUNT, sizeof(late_us[0]), compare);
	printf("%.1f %.1f %.1f\n", late_us[COUNT / 2], late_us[COUNT * 9 / 10], cpu_us);
	return EXIT_SUCCESS;
}
