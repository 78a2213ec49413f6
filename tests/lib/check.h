/* The smallest test harness: a failed check prints where and what and goes on, and main returns CHECK_RESULT. */
#ifndef TESTS_LIB_CHECK_H
#define TESTS_LIB_CHECK_H

#include <stdio.h>
#include <string.h>

static int check_failures;

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			check_failures++;                                                       \
		}                                                                               \
	} while (0)

#define CHECK_CONTAINS(text, part)                                                                           \
	do {                                                                                                 \
		if (!strstr((text), (part))) {                                                               \
			fprintf(stderr, "%s:%d: '%s' is not in '%s'\n", __FILE__, __LINE__, (part), (text)); \
			check_failures++;                                                                    \
		}                                                                                            \
	} while (0)

/* With the figures that tell why, as of printf. */
#define EXPECT(condition, ...)                                                          \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__);                                   \
			fprintf(stderr, "\n");                                          \
			check_failures++;                                               \
		}                                                                       \
	} while (0)

#define CHECK_TOLD 5

/* Of what is checked a million times: the first few failures are told, the others look the same. */
#define CHECK_LAW(condition, ...)                       \
	do {                                            \
		if (check_failures < CHECK_TOLD)        \
			EXPECT(condition, __VA_ARGS__); \
		else if (!(condition))                  \
			check_failures++;               \
	} while (0)

/* A law that is broken need not be played on: what comes would look the same. */
#define CHECK_ENOUGH  (check_failures >= CHECK_TOLD)
#define CHECK_HOLDING (check_failures == 0)

#define CHECK_RESULT (check_failures != 0)

#endif
