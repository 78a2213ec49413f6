/*
 * A frequency domain's file. As it is, and once more with its checksum made right: whoever can write there can compute
 * it. What is accepted is printed again, and must then be the same.
 */
#include "tests/unit/fuzz/fuzz.h"

#include <errno.h>

#include "spank/cpufreq/domain_file.h"

#define SUM_SIZE 10 /* a space, eight digits, a newline */

static void play(const char text[DOMAIN_FILE_SIZE])
{
	struct domain_hold hold = {.holder = {.job_id = 99}};
	char again[DOMAIN_FILE_SIZE];
	struct error error = {""};
	int result = domain_file_parse(text, &hold, &error);

	if (result) {
		FUZZ_CHECK(result == -EBADMSG && error.text[0] && hold.holder.job_id == 99);
		return;
	}
	if (hold.changes) {
		FUZZ_CHECK(hold.held);
		FUZZ_CHECK(hold.change.use.low_khz > 0 && hold.change.use.low_khz <= hold.change.use.high_khz);
	}
	domain_file_print(&hold, again);
	FUZZ_CHECK(memcmp(again, text, sizeof(again)) == 0);
}

/* The file has one size; what is missing is filled up as it is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[DOMAIN_FILE_SIZE], sum[SUM_SIZE + 1];

	memset(text, ' ', sizeof(text));
	memcpy(text, data, size < sizeof(text) ? size : sizeof(text));
	play(text);
	snprintf(sum, sizeof(sum), " %08x\n", domain_file_sum(text, sizeof(text) - SUM_SIZE));
	memcpy(text + sizeof(text) - SUM_SIZE, sum, SUM_SIZE);
	play(text);
	return 0;
}
