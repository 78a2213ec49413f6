#include "spank/store/outbox.h"

#include "spank/base/cleanup.h"
#include "spank/base/detach.h"
#include "spank/base/files.h"
#include "spank/base/memory.h"
#include "spank/record/parse.h"
#include "spank/store/budget.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define OLD_S (24 * 3600) /* a record older than this is the sweep's */

int outbox_key(const char *cluster, uint32_t job_id, uint32_t restart_count, char key[OUTBOX_KEY_MAX],
               struct error *error)
{
	if (strlen(cluster) >= 64 || !files_name_ok(cluster))
		return error_set(error, -EINVAL, "cluster name \"%.64s\" cannot be part of a file name", cluster);
	snprintf(key, OUTBOX_KEY_MAX, "%s-%" PRIu32 "-%" PRIu32, cluster, job_id, restart_count);
	return 0;
}

/* Parses the number after the last dash, and cuts the text there. Returns 0 or -EINVAL. */
static int number_take(char *text, uint32_t *ret_number)
{
	char *dash = strrchr(text, '-'), *end;
	unsigned long long number;

	if (!dash || dash[1] < '0' || dash[1] > '9')
		return -EINVAL;
	number = strtoull(dash + 1, &end, 10);
	if (*end || number >= UINT32_MAX)
		return -EINVAL;
	*dash = '\0';
	*ret_number = (uint32_t)number;
	return 0;
}

int outbox_key_parse(const char *key, char cluster[64], uint32_t *ret_job_id, uint32_t *ret_restart_count)
{
	char text[OUTBOX_KEY_MAX];

	if (!files_name_ok(key) || strlen(key) >= sizeof(text))
		return -EINVAL;
	strcpy(text, key);
	if (number_take(text, ret_restart_count) || number_take(text, ret_job_id) || strlen(text) >= 64 || !text[0])
		return -EINVAL;
	strcpy(cluster, text);
	return 0;
}

int outbox_name(const char *key, const char *node, char name[FILES_NAME_MAX + 1])
{
	int length = snprintf(name, FILES_NAME_MAX + 1, "%s.%s.json", key, node);

	return length <= FILES_NAME_MAX ? 0 : -ENAMETOOLONG;
}

enum outbox_verdict outbox_judge(int directory, const char *name, const struct job_run *run)
{
	json_auto_t *json = NULL;
	struct job_run other;
	int result = files_read_json(directory, name, NODE_RECORD_MAX, &json);

	if (result && !files_is_bad(result))
		return OUTBOX_UNREAD;
	if (result || !run_read(json, &other))
		return OUTBOX_NONE;
	return run_is_same(run, &other) ? OUTBOX_SAME : OUTBOX_OTHER;
}

bool outbox_is_free(const char *directory, const char *key, const char *node, const struct job_run *run)
{
	cleanup_close int outbox = files_directory(AT_FDCWD, directory ? directory : OUTBOX_DIRECTORY, 0);
	char name[FILES_NAME_MAX + 1];
	enum outbox_verdict verdict = OUTBOX_NONE;

	if (outbox >= 0 && outbox_name(key, node, name) == 0)
		verdict = outbox_judge(outbox, name, run);
	return verdict == OUTBOX_NONE || verdict == OUTBOX_SAME;
}

bool outbox_has(int directory, const char *key, const char *node)
{
	char name[FILES_NAME_MAX + 1];

	return outbox_name(key, node, name) == 0 && faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

long long outbox_age_s(int directory, const char *name)
{
	struct stat status;

	if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW))
		return 0;
	return files_age_s(time(NULL), status.st_mtime);
}

bool outbox_is_old(int directory, const char *key, const char *node)
{
	char name[FILES_NAME_MAX + 1];

	return outbox_name(key, node, name) == 0 && outbox_age_s(directory, name) > OLD_S;
}

/* Leaves *ret_text NULL if the record fits, else sets it to a shortened one of at most `most` bytes. */
static int record_fit(const char *record, size_t most, char **ret_text)
{
	unsigned failures = memory_failures();
	json_auto_t *json = NULL;

	if (strlen(record) <= most)
		return 0;
	json = memory_json(record, strlen(record), 0);
	if (memory_failures() == failures)
		*ret_text = node_short_print(json, most);
	return memory_failures() == failures ? 0 : -ENOMEM;
}

static int record_write(int outbox, const char *name, int node, const char *record)
{
	cleanup_free char *text = NULL;
	struct budget budget;
	int result;

	budget_init(node, outbox, &budget);
	result = record_fit(record, budget_record_most(&budget), &text);
	if (text)
		record = text;
	if (!result)
		result = files_write(outbox, name, 0600, record, strlen(record), true);
	if (!result)
		budget_add(&budget, strlen(record));
	return result;
}

int outbox_put(const char *directory, const char *key, const struct run_directory *run_directory, const char *record,
               struct error *error)
{
	const char *path = directory ? directory : OUTBOX_DIRECTORY;
	cleanup_close int outbox = files_directory_path(path, 0700), node = run_directory_open_node(run_directory);
	char name[FILES_NAME_MAX + 1];
	int result = outbox < 0 ? outbox : outbox_name(key, run_directory->node, name);

	if (!result)
		result = record_write(outbox, name, node, record);
	return result ? error_set(error, result, "outbox \"%s\": %s", path, strerror(-result)) : 0;
}

/* Variables that libslurm and mpi-wait-node read. The helper gets no other, since a user may have set any. */
static const char *const kept_names[] = {"SLURM_CONF", "SLURMD_NODENAME", "SLURM_CLUSTER_NAME"};

#define KEPT_COUNT (sizeof(kept_names) / sizeof(kept_names[0]))

int outbox_writer_start(const char *helper, int argument_count, char *const arguments[], struct error *error)
{
	static char verb[] = "drain", path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
	cleanup_free char **command = calloc((size_t)argument_count + 3, sizeof(*command));
	char *environment[KEPT_COUNT + 2] = {path};
	int result, count = 1;

	if (!command)
		return error_set(error, -ENOMEM, "out of memory");
	command[0] = (char *)helper;
	command[1] = verb;
	for (int i = 0; i < argument_count; i++)
		command[2 + i] = arguments[i];
	for (size_t i = 0; i < KEPT_COUNT; i++) {
		char *value = getenv(kept_names[i]);

		if (value) /* getenv's value lies behind its name and "=" */
			environment[count++] = value - strlen(kept_names[i]) - 1;
	}
	result = detach_start(helper, command, environment, NULL);
	return result ? error_set(error, result, "\"%s\" could not be started: %s", helper, strerror(-result)) : 0;
}
