/*
 * Takes, changes and restores frequency domains as commanded. With MPIWAIT_KILL=POINT:N it kills itself at the Nth pass
 * of a point, "any" for all of them. It is compiled from the real sources with their points.
 *
 *     domain-driver ROOT hold JOB STEP    reads commands, see below
 *     domain-driver ROOT restore
 *     domain-driver ROOT epilog JOB
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/point.h"
#include "spank/cpufreq/loan.h"
#include "spank/cpufreq/restore.h"

#define POLICIES 64

static struct holder holder;
static struct loan loans[POLICIES];
static int node = -1;

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

/* change POLICY LOW HIGH [to=UID:GID:MODE]: notes the change and applies it */
static int do_change(struct loan *loan, char *words[], struct error *error)
{
	struct cpufreq_owner owner, *user = NULL;
	struct domain_use use;

	if (!words[2] || !words[3])
		return -ENOSYS;
	use = (struct domain_use){(uint32_t)atol(words[2]), (uint32_t)atol(words[3])};
	if (words[4] && sscanf(words[4], "to=%u:%u:%o", &owner.uid, &owner.gid, &owner.mode) == 3)
		user = &owner;
	return loan_change(loan, &use, user, cpufreq_is_cooled(CPUFREQ_SYSFS), error);
}

static int do_take(uint32_t policy, struct error *error)
{
	if (loan_holds(&loans[policy]))
		return 0;
	loan_end(&loans[policy], error);
	return loan_take(node, policy, &holder, &loans[policy], error);
}

/* take, change, set, holds, release: POLICY ... */
static int do_command(char *words[], struct error *error)
{
	uint32_t policy = words[1] ? (uint32_t)strtoul(words[1], NULL, 10) % POLICIES : 0;

	if (strcmp(words[0], "take") == 0)
		return do_take(policy, error);
	if (strcmp(words[0], "change") == 0)
		return do_change(&loans[policy], words, error);
	if (strcmp(words[0], "set") == 0)
		return loan_set(&loans[policy], (uint32_t)atol(words[2]));
	if (strcmp(words[0], "release") == 0)
		return loan_end(&loans[policy], error);
	if (strcmp(words[0], "holds") == 0)
		return loan_holds(&loans[policy]);
	return -ENOSYS;
}

static int end_all(struct error *error)
{
	int first = 0;

	for (size_t i = POLICIES; i-- > 0;) {
		int result = loan_end(&loans[i], error);

		first = first ? first : result;
	}
	return first;
}

/* Reads one command a line, answers each with a line: result and message. "end" gives all domains back. */
static int hold(const struct run_directory *run_directory, uint32_t job_id, uint32_t step_id)
{
	struct error error = {""};
	char line[256];
	int result = holder_init(job_id, step_id, &holder);

	node = run_directory_open_node(run_directory);
	for (size_t i = 0; i < POLICIES; i++)
		loans[i] = LOAN_NONE;
	if (answer(node < 0 ? node : result, &error))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		char *words[9] = {NULL}, *rest = line;

		for (size_t i = 0; i < 8 && (words[i] = strtok_r(i ? NULL : line, " \n", &rest)); i++)
			;
		error.text[0] = '\0';
		if (strcmp(words[0], "end") == 0)
			return answer(end_all(&error), &error);
		answer(do_command(words, &error), &error);
	}
	return 0;
}

int main(int count, char *words[])
{
	struct restore_count restored;
	struct run_directory run_directory;

	if (count < 3 || run_directory_init(words[1], &run_directory))
		return 64;
	if (strcmp(words[2], "restore") == 0)
		return restore_host(words[1], false, &restored) != 0;
	if (count < 4)
		return 64;
	if (strcmp(words[2], "epilog") == 0)
		return restore_job(&run_directory, (uint32_t)atol(words[3])) != 0;
	return count < 5 ? 64 : hold(&run_directory, (uint32_t)atol(words[3]), (uint32_t)atol(words[4]));
}
