/*
 * mpi-wait-segment: prints what the ranks of steps do now, as the stats segments of these steps tell it. Runs as the
 * job's user: 'mpi-wait report --watch' starts it on the job's nodes.
 *
 *     mpi-wait-segment DESCRIPTOR...
 *
 * Each DESCRIPTOR is a segment that is open for reading. Standard output gets a line of JSON for each rank between
 * MPI_Init and MPI_Finalize, and a line with "problem" for a segment that cannot be read. Times are nanoseconds.
 * "open_ns" is the longest wait that a thread of the rank is in now, in the function "call"; "call" is "" if no thread
 * waits. "waited_ns" and "asleep_ns" are sums since MPI_Init. Everything in a segment is the user's claim, so the times
 * are cut: asleep <= waited <= ran, and open <= ran.
 */
#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/node/slots.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE   64
#define SEGMENTS_MAX 64

static json_int_t at_most(uint64_t value, uint64_t most)
{
	return (json_int_t)(value < most ? value : most);
}

/* Prints `json` and drops the reference. NULL, from a failed allocation, is reported as -EIO. */
static int line_print(json_t *json)
{
	json_auto_t *line = json;

	if (!line || json_dumpf(line, stdout, JSON_COMPACT) || putchar('\n') == EOF)
		return -EIO;
	return 0;
}

/* Returns the function's name without MPI_; "call N" for a row that this release does not know. */
static json_t *call_to_json(uint32_t open_call)
{
	const char *name = open_call ? slots_call_name(open_call - 1) : "MPI_";

	return name ? json_string(name + strlen("MPI_")) : json_sprintf("call %u", open_call - 1);
}

static int rank_print(int segment, const struct slots_rank *rank)
{
	uint64_t ran_ns = rank->span_ns, waited_ns = rank->wait_ns < ran_ns ? rank->wait_ns : ran_ns;

	return line_print(json_pack(
	        "{s:i,s:I,s:i,s:i,s:I,s:i,s:o,s:I,s:I,s:I,s:I}", "segment", segment, "slot", (json_int_t)rank->slot,
	        "rank", rank->rank, "size", rank->size, "launch", (json_int_t)rank->launch, "task", rank->task, "call",
	        call_to_json(rank->open_call), "open_ns", at_most(rank->open_ns, ran_ns), "ran_ns", (json_int_t)ran_ns,
	        "waited_ns", (json_int_t)waited_ns, "asleep_ns", at_most(rank->asleep_ns, waited_ns)));
}

static int segment_print(int segment)
{
	cleanup_free struct slots *slots = NULL;
	struct error error = {0};
	int result = 0;

	if (slots_read(segment, 0, clock_monotonic_ns(), &slots, &error))
		return line_print(json_pack("{s:i,s:s}", "segment", segment, "problem", error.text));
	for (size_t i = 0; i < slots->count && !result; i++)
		if (slots->rank[i].running)
			result = rank_print(segment, &slots->rank[i]);
	return result;
}

/* Returns the descriptor's number, -1 if the word is none. */
static int descriptor_of(const char *word)
{
	char *end = NULL;
	long number = strtol(word, &end, 10);

	return word[0] >= '0' && word[0] <= '9' && *end == '\0' && number <= INT_MAX ? (int)number : -1;
}

int main(int word_count, char *words[])
{
	int result = 0;

	for (int i = 1; i < word_count; i++)
		if (i > SEGMENTS_MAX || descriptor_of(words[i]) < 0)
			word_count = 0;
	if (word_count < 2) {
		fprintf(stderr, "mpi-wait-segment: 1 to %d descriptors of stats segments are needed\n", SEGMENTS_MAX);
		return EXIT_USAGE;
	}
	for (int i = 1; i < word_count && !result; i++)
		result = segment_print(descriptor_of(words[i]));
	return result || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
