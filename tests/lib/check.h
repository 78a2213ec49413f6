/* A minimal test harness: a failed check prints its place and text and goes on; main returns CHECK_RESULT. */
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

/* Checks a condition. On failure prints the figures that explain it, as printf does. */
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

/* Checks a condition that is tested a million times. Prints the first few failures only; the others look the same. */
#define CHECK_LAW(condition, ...)                       \
	do {                                            \
		if (check_failures < CHECK_TOLD)        \
			EXPECT(condition, __VA_ARGS__); \
		else if (!(condition))                  \
			check_failures++;               \
	} while (0)

/* A test may stop after these failures: more would look the same. */
#define CHECK_ENOUGH  (check_failures >= CHECK_TOLD)
#define CHECK_HOLDING (check_failures == 0)

#define CHECK_RESULT (check_failures != 0)

#endif
