/*
 * Holds, ends and restores journals as told, and kills itself where it is told: MPIWAIT_KILL=POINT:N, at the Nth pass
 * of a point, "any" for all of them. Compiled from the real sources with their points.
 *
 *     journal-driver ROOT SYSFS hold JOB STEP    reads commands, see below; STEP "-": the job's own journal
 *     journal-driver ROOT SYSFS restore
 *     journal-driver ROOT SYSFS epilog JOB
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/point.h"
#include "spank/cpufreq/journal.h"
#include "spank/cpufreq/restore.h"
#include "spank/node/state.h"

static struct journal *journal;

void point_pass(const char *name)
{
	static unsigned passed;
	const char *kill_at = getenv("MPIWAIT_KILL"), *colon = kill_at ? strchr(kill_at, ':') : NULL;
	size_t length = colon ? (size_t)(colon - kill_at) : 0;

	if (!colon ||
	    (strncmp(kill_at, "any", length) != 0 && (strlen(name) != length || strncmp(kill_at, name, length) != 0)))
		return;
	if (++passed == (unsigned)atoi(colon + 1))
		raise(SIGKILL);
}

static int answer(int result, const struct error *error)
{
	printf("%d %s\n", result, result ? error->text : "");
	fflush(stdout);
	return result;
}

/* record POLICY FILE [value=NAME | khz=LOW-HIGH] [owner=UID:GID:MODE] */
static int do_record(uint32_t policy, enum cpufreq_file file, char *words[], struct error *error)
{
	struct journal_change change = {.file = file};

	for (; *words; words++) {
		sscanf(*words, "value=%31s", change.governor);
		sscanf(*words, "khz=%" SCNu32 "-%" SCNu32, &change.low_khz, &change.high_khz);
		if (sscanf(*words, "owner=%u:%u:%o", &change.owner.uid, &change.owner.gid, &change.owner.mode) == 3)
			change.gives = true;
	}
	return journal_record(journal, policy, &change, NULL, error);
}

/* claim, record, set, give, release: POLICY ... */
static int do_command(char *words[], struct error *error)
{
	uint32_t policy = words[1] ? (uint32_t)strtoul(words[1], NULL, 10) : 0;
	enum cpufreq_file file = words[1] && words[2] ? (enum cpufreq_file)cpufreq_file_find(words[2]) : 0;

	if (strcmp(words[0], "claim") == 0)
		return journal_claim(journal, policy, error);
	if (strcmp(words[0], "record") == 0)
		return do_record(policy, file, words + 3, error);
	if (strcmp(words[0], "set") == 0)
		return journal_set(journal, policy, file, words[3]);
	if (strcmp(words[0], "give") == 0)
		return journal_give(journal, policy, file);
	if (strcmp(words[0], "release") == 0)
		return journal_release(journal, policy, error);
	if (strcmp(words[0], "holds") == 0)
		return journal_holds(journal, policy);
	return -ENOSYS;
}

/* One command a line, one answer a line: result and message. "end" undoes and ends, "close" only ends. */
static int hold(const struct state_place *place, const char *sysfs, uint32_t job_id, uint32_t step_id)
{
	static struct state_job job;
	struct state_job *facts = &job;
	struct error error = {""};
	char line[256];
	int result;

	state_job_init(job_id, facts);
	result = state_job_begin(place, facts, false, &error);
	if (!result)
		result = journal_open(place, sysfs, job_id, step_id, &journal, &error);
	if (answer(result, &error))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		char *words[8] = {NULL}, *rest = line;

		for (size_t i = 0; i < 7 && (words[i] = strtok_r(i ? NULL : line, " \n", &rest)); i++)
			;
		error.text[0] = '\0';
		if (strcmp(words[0], "close") == 0) {
			journal_close(journal);
			return answer(0, &error);
		}
		if (strcmp(words[0], "end") == 0)
			return answer(journal_end(journal, &error), &error);
		answer(do_command(words, &error), &error);
	}
	return 0;
}

int main(int count, char *words[])
{
	struct restore_count restored;
	struct state_place place;

	if (count < 4 || state_place_init(words[1], &place))
		return 64;
	if (strcmp(words[3], "restore") == 0)
		return restore_host(words[1], words[2], false, &restored) != 0;
	if (count < 5)
		return 64;
	if (strcmp(words[3], "epilog") == 0)
		return restore_job(&place, words[2], (uint32_t)atol(words[4])) != 0;
	return hold(&place, words[2], (uint32_t)atol(words[4]),
	            count < 6 || strcmp(words[5], "-") == 0 ? STATE_NONE : (uint32_t)atol(words[5]));
}
