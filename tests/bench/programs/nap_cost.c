/*
 * Measures the cost of one nap on this machine, made as the library makes it.
 *
 *     nap_cost [US:COUNT]...
 *
 * Prints "late_us late_most_us cpu_us" of 5000 naps of 100 us: lateness in the median and at the 90th percentile, and
 * the CPU time of one. For each argument prints "nap US late_us late_99_us cpu_us mean_us" instead, with the lateness
 * at the 99th percentile and in the mean.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define COUNT  5000
#define NAP_US 100

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

/* Takes naps; writes their lateness to late_us, in ascending order. Returns the CPU time of one nap. */
static double naps_take(double nap_us, int count, double late_us[])
{
	struct timespec nap = {(time_t)(nap_us / 1e6), (long)(nap_us * 1e3) % 1000000000};
	double cpu_us = now_us(CLOCK_PROCESS_CPUTIME_ID);

	for (int i = 0; i < count; i++) {
		double began_us = now_us(CLOCK_MONOTONIC);

		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		late_us[i] = now_us(CLOCK_MONOTONIC) - began_us - nap_us;
	}
	cpu_us = (now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_us) / count;
	qsort(late_us, (size_t)count, sizeof(late_us[0]), compare);
	return cpu_us;
}

static double mean(const double values[], int count)
{
	double sum = 0;

	for (int i = 0; i < count; i++)
		sum += values[i];
	return sum / count;
}

int main(int argc, char **argv)
{
	static double late_us[COUNT];

	if (prctl(PR_SET_TIMERSLACK, 1) < 0)
		return EXIT_FAILURE;
	if (argc < 2) {
		double cpu_us = naps_take(NAP_US, COUNT, late_us);

		printf("%.1f %.1f %.1f\n", late_us[COUNT / 2], late_us[COUNT * 9 / 10], cpu_us);
	}
	for (int i = 1; i < argc; i++) {
		double nap_us, cpu_us;
		int count;

		if (sscanf(argv[i], "%lf:%d", &nap_us, &count) != 2 || nap_us <= 0 || count < 1 || count > COUNT)
			return EXIT_FAILURE;
		cpu_us = naps_take(nap_us, count, late_us);
		printf("nap %g %.1f %.1f %.1f %.1f\n", nap_us, late_us[count / 2], late_us[(count - 1) * 99 / 100],
		       cpu_us, mean(late_us, count));
	}
	return EXIT_SUCCESS;
}
