#include "spank/cpufreq/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/point.h"
#include "spank/cpufreq/journal_file.h"
#include "spank/cpufreq/undo.h"

#define PREFIX "journal."

/* One pass over journals. */
struct pass {
	struct undo undo;
	bool ended; /* the job has: its stepds' journals are undone even if they live */
	int node;
	int first; /* the first error */
};

/* One journal in it. */
struct found {
	int directory; /* the job's */
	uint32_t job_id;
	const char *name;
};

static void pass_fail(struct pass *pass, int result)
{
	if (!pass->first)
		pass->first = result;
}

static void refuse(struct pass *pass, int result, const char *directory, const char *name, const struct error *error)
{
	pass->undo.count.refused++;
	pass_fail(pass, result);
	log_error("\"%s/%s\": %s; refused, nothing of it is undone", directory, name,
	          error && error->text[0] ? error->text : strerror(-result));
}

/* A number as we write it into names. */
static bool number_parse(const char *text, uint32_t *ret_number)
{
	size_t length = strlen(text);
	unsigned long long number;

	if (length == 0 || length > 10 || strspn(text, "0123456789") != length || (text[0] == '0' && length > 1))
		return false;
	number = strtoull(text, NULL, 10);
	*ret_number = (uint32_t)number;
	return number < STATE_NONE;
}

/* Whether an entry is the last of its policy: each policy is undone once, the last changed first. */
static bool is_last(const struct journal_text *text, size_t i)
{
	for (size_t later = i + 1; later < text->count; later++)
		if (text->entries[later].policy == text->entries[i].policy)
			return false;
	return true;
}

static bool has_entries(const struct journal_text *text, uint32_t policy)
{
	for (size_t i = 0; i < text->count; i++)
		if (text->entries[i].policy == policy)
			return true;
	return false;
}

static DIR *list(int directory)
{
	int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = copy < 0 ? NULL : fdopendir(copy);

	if (!entries && copy >= 0)
		close(copy);
	return entries;
}

/* Claims that name the journal though it has no entry of theirs: given up, or found to have had entries. */
static int undo_others(struct pass *pass, const struct journal_text *text)
{
	cleanup_close int directory = files_directory(pass->node, "cpu", 0);
	cleanup_closedir DIR *entries = directory < 0 ? NULL : list(directory);
	const struct dirent *entry;
	int first = 0;

	while (entries && (entry = readdir(entries))) {
		uint32_t policy;
		int result;

		if (strncmp(entry->d_name, "policy", 6) != 0 || !number_parse(entry->d_name + 6, &policy) ||
		    has_entries(text, policy))
			continue;
		result = undo_claimed(&pass->undo, pass->node, text, policy);
		if (result && !first)
			first = result;
	}
	return first;
}

static int undo_all(struct pass *pass, const struct journal_text *text)
{
	int first = 0, result;

	for (size_t i = text->count; i-- > 0;) {
		result = is_last(text, i) ? undo_claimed(&pass->undo, pass->node, text, text->entries[i].policy) : 0;
		if (result && !first)
			first = result;
	}
	result = undo_others(pass, text);
	return first ? first : result;
}

static void journal_remove(struct pass *pass, const struct found *found)
{
	point_pass("undone-all");
	if (!pass->undo.dry_run && unlinkat(found->directory, found->name, 0) && errno != ENOENT)
		pass_fail(pass, -errno);
	point_pass("removed");
}

static void journal_undo(struct pass *pass, const struct found *found, const struct journal_text *text)
{
	char boot[HOLDER_BOOT_MAX], what[HOLDER_NAME_MAX];
	int result = holder_boot(boot);

	holder_describe(&text->holder, what);
	if (!result && strcmp(boot, text->holder.boot) != 0) {
		log_info("journal of %s: of an earlier boot, nothing to undo; %s", what,
		         pass->undo.dry_run ? "would be removed" : "removed");
		journal_remove(pass, found);
		return;
	}
	if (!pass->ended && holder_is_alive(&text->holder, found->directory)) {
		pass->undo.count.live++;
		return;
	}
	if (text->torn)
		log_info("journal of %s: its last line was not finished, so that change was not made", what);
	pass->undo.count.journals++;
	result = undo_all(pass, text);
	if (result)
		pass_fail(pass, result);
	else
		journal_remove(pass, found);
}

static void journal_visit(struct pass *pass, const struct found *found)
{
	struct journal_text text = {.entries = NULL};
	struct error error = {""};
	char job[16];
	cleanup_close int file = journal_file_open(found->directory, found->name, &error);
	int result = file < 0 ? file : journal_file_lock(file);

	if (result == -ENOENT || result == -ESTALE) /* another has just undone it */
		return;
	if (!result)
		result = journal_file_read(file, found->name, found->job_id, &text, &error);
	if (result) {
		snprintf(job, sizeof(job), "%" PRIu32, found->job_id);
		refuse(pass, result, job, found->name, &error);
		return;
	}
	journal_undo(pass, found, &text);
	journal_text_free(&text);
}

static void job_visit(struct pass *pass, int directory, uint32_t job_id)
{
	cleanup_closedir DIR *entries = list(directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
			journal_visit(pass, &(struct found){directory, job_id, entry->d_name});
}

int restore_job(const struct state_place *place, const char *sysfs, uint32_t job_id)
{
	struct pass pass = {.undo = {.sysfs = sysfs}, .ended = true};
	cleanup_close int node = -1, directory = state_open_job(place, job_id);

	if (directory == -ENOENT)
		return 0;
	node = directory < 0 ? directory : state_open_node(place);
	if (node < 0) {
		log_error("journals of job %" PRIu32 ": %s", job_id, strerror(-node));
		return node;
	}
	pass.node = node;
	job_visit(&pass, directory, job_id);
	return pass.first;
}

/* A job that has ended leaves its directory behind only for a journal. */
static void directory_remove(const struct pass *pass, int directory, const char *name)
{
	if (!pass->undo.dry_run && faccessat(directory, "job.json", F_OK, AT_SYMLINK_NOFOLLOW))
		unlinkat(pass->node, name, AT_REMOVEDIR);
}

static void node_visit(struct pass *pass)
{
	cleanup_closedir DIR *entries = list(pass->node);
	const struct dirent *entry;
	uint32_t job_id;

	while (entries && (entry = readdir(entries))) {
		cleanup_close int directory = -1;

		if (!number_parse(entry->d_name, &job_id))
			continue;
		directory = files_directory(pass->node, entry->d_name, 0);
		if (directory == -ENOENT)
			continue;
		if (directory < 0) {
			refuse(pass, directory, entry->d_name, "", NULL);
			continue;
		}
		job_visit(pass, directory, job_id);
		directory_remove(pass, directory, entry->d_name);
	}
}

static void nodes_visit(struct pass *pass, int root)
{
	cleanup_closedir DIR *entries = list(root);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		cleanup_close int node = -1;

		if (!files_name_ok(entry->d_name))
			continue;
		node = files_directory(root, entry->d_name, 0);
		if (node < 0) {
			refuse(pass, node, entry->d_name, "", NULL);
			continue;
		}
		pass->node = node;
		node_visit(pass);
	}
}

int restore_host(const char *root, const char *sysfs, bool dry_run, struct restore_count *ret_count)
{
	struct pass pass = {.undo = {.sysfs = sysfs, .dry_run = dry_run}};
	cleanup_close int directory = files_directory(AT_FDCWD, root, 0);

	if (directory >= 0)
		nodes_visit(&pass, directory);
	else if (directory != -ENOENT)
		refuse(&pass, directory, root, "", NULL);
	*ret_count = pass.undo.count;
	return pass.first;
}
