/*
 * EXPECT(condition): notes a failure with its place, and goes on; expect_result() is what main returns.
 */
#ifndef TESTS_PRELOAD_EXPECT_H
#define TESTS_PRELOAD_EXPECT_H

#include <stdio.h>

static int expect_failures;

#define EXPECT(condition, ...)                                                 \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
			printf(__VA_ARGS__);                                   \
			printf("\n");                                          \
			expect_failures++;                                     \
		}                                                              \
	} while (0)

static inline int expect_result(void)
{
	return expect_failures ? 1 : 0;
}

#endif
