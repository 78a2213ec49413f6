/* ASAN_OPTIONS: ours is added where the user is silent, and taken away without a trace. */
#include "spank/policy/sanitizer.h"

#include <stdlib.h>

#include "tests/lib/check.h"

static const char *const silent[] = {"",     "detect_leaks=0",           "a=1,b=2 c=3", "log_path='/tmp/x:y'",
                                     "a=1:", "xverify_asan_link_order=1"};
static const char *const told[] = {"verify_asan_link_order=0", "verify_asan_link_order=1",
                                   "a=1:verify_asan_link_order=true", "a=1 verify_asan_link_order=no,b=2"};

static void adds_and_removes(void)
{
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
		char *options = sanitizer_add(silent[i]);

		CHECK(!sanitizer_is_told(silent[i]));
		CHECK(options && strncmp(options, silent[i], strlen(silent[i])) == 0 && sanitizer_is_told(options));
		CHECK(options && sanitizer_remove(options) && strcmp(options, silent[i]) == 0);
		free(options);
	}
}

static void leaves_the_user_s(void)
{
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		CHECK(sanitizer_is_told(told[i]));
}

/* A script may have added its own behind ours, or put it in front. */
static void removes_from_the_middle(void)
{
	char first[] = "verify_asan_link_order=0:b=1", middle[] = "a=1:verify_asan_link_order=0,b=1";
	char other[] = "verify_asan_link_order=01", none[] = "a=1";

	CHECK(sanitizer_remove(first) && strcmp(first, "b=1") == 0);
	CHECK(sanitizer_remove(middle) && strcmp(middle, "a=1,b=1") == 0);
	CHECK(!sanitizer_remove(other) && strcmp(other, "verify_asan_link_order=01") == 0);
	CHECK(!sanitizer_remove(none) && strcmp(none, "a=1") == 0);
}

int main(void)
{
	adds_and_removes();
	leaves_the_user_s();
	removes_from_the_middle();
	return CHECK_RESULT;
}
