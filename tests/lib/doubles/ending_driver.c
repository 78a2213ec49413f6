/*
 * Plays a job with very many steps and its end. It is built without sanitizers, since memory and files are measured.
 *
 *     ending_driver steps ROOT JOB FIRST COUNT SEGMENT   writes the files of that many steps, each with that segment
 *     ending_driver end ROOT JOB OUTBOX                  runs the epilog and its helper; prints opened files, read
 *                                                        bytes, peak of memory
 */
#include "spank/base/cleanup.h"
#include "spank/node/composer.h"
#include "spank/node/ending.h"
#include "spank/node/recorder.h"
#include "spank/node/slots.h"
#include "tests/lib/doubles/elsewhere.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number after that name in a file of /proc, -1 if there is none. */
static long proc_number(const char *path, const char *name)
{
	FILE *file = fopen(path, "r");
	long number = -1;
	char line[256];

	while (file && number < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			number = strtol(line + strlen(name), NULL, 10);
	if (file)
		fclose(file);
	return number;
}

static int write_one(int directory, uint32_t crowd, uint32_t id, const struct slots *slots)
{
	struct state_step step = {.step_id = id, .start_s = id + 1.0, .end_s = id + 2.0};
	json_auto_t *wait = NULL;

	if (state_step_kind(id, crowd) == STATE_STEP_COUNTED)
		return state_step_count(directory);
	wait = slots_to_json(slots);
	return state_step_write(directory, &step, crowd, wait, NULL);
}

static int run_steps(const struct run_directory *run_directory, char *words[])
{
	cleanup_close int directory = run_directory_open_job(run_directory, (uint32_t)strtoul(words[1], NULL, 10));
	cleanup_close int segment = open(words[4], O_RDONLY | O_CLOEXEC), node = run_directory_open_node(run_directory);
	uint32_t first = (uint32_t)strtoul(words[2], NULL, 10), count = (uint32_t)strtoul(words[3], NULL, 10);
	cleanup_free struct slots *slots = NULL;
	struct error error = {0};
	int result = slots_read(segment, 0, UINT64_C(1000000000000000), &slots, &error);

	for (uint32_t id = first; id < first + count && !result; id++)
		result = write_one(directory, state_crowd(node), id, slots);
	return result ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int records_make(const struct run_directory *run_directory, uint32_t job_id, const char *outbox)
{
	cleanup_turn struct turn turn;
	struct error error = {0};
	int result = ending_note(run_directory, job_id, &error);

	turn_init(run_directory, NULL, &turn);
	return result > 0 ? recorder_make(run_directory, outbox, NULL, &turn, &error) : result;
}

static int run_end(const struct run_directory *run_directory, char *words[])
{
	long read = proc_number("/proc/self/io", "rchar:");
	unsigned opens = elsewhere_calls().opens;
	int result = records_make(run_directory, (uint32_t)strtoul(words[1], NULL, 10), words[2]);

	opens = elsewhere_calls().opens - opens;
	printf("{\"code\": %d, \"opens\": %u, \"read\": %ld, \"peak_kib\": %ld}\n", result, opens,
	       proc_number("/proc/self/io", "rchar:") - read, proc_number("/proc/self/status", "VmHWM:"));
	return EXIT_SUCCESS;
}

int main(int count, char *words[])
{
	struct run_directory run_directory;

	if (count < 5 || run_directory_init(words[2], &run_directory))
		return 64;
	return strcmp(words[1], "end") == 0 ? run_end(&run_directory, words + 2) : run_steps(&run_directory, words + 2);
}
