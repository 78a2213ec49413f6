#include "spank/cpufreq/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/point.h"

/* A domain's scaling_max_freq, while it is restored. */
struct target {
	struct restore *restore;
	const struct domain_change *change;
	uint32_t policy;
	int descriptor;
	char now[CPUFREQ_TEXT_MAX];
};

#define target_log(target, level, format, ...) \
	log_line(level, "cpufreq policy%u/" CPUFREQ_MAX ": " format, (target)->policy, ##__VA_ARGS__)

static enum log_level level_of(const struct target *target)
{
	return target->restore->quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
}

/* Counts and logs a setting that could not be restored. Returns `result`. */
static int target_fail(const struct target *target, int result, const char *what)
{
	target->restore->count.failed++;
	target_log(target, LOG_LEVEL_ERROR, "%s: %s; the next restore tries again", what, strerror(-result));
	return result;
}

/* Counts and logs a setting that somebody else has changed, and leaves it as it is. Returns 0. */
static int target_leave(const struct target *target, const char *what)
{
	target->restore->count.left++;
	target_log(target, LOG_LEVEL_INFO, "%s was changed by somebody else since; left alone", what);
	return 0;
}

/* Counts a setting that is restored. Returns the words for its log line. */
static const char *target_count(const struct target *target)
{
	target->restore->count.settings++;
	return target->restore->dry_run ? "would be put back to" : "put back to";
}

/*
 * Restores owner and mode. The owner alone tells who changed them: the job's user may have changed group and mode, and
 * a process killed between the two calls leaves a mode that does not go with the owner.
 */
static int owner_restore(const struct target *target)
{
	const struct cpufreq_owner *found = &target->change->owner;
	struct cpufreq_owner now;
	int result = cpufreq_get_owner(target->descriptor, &now);

	if (result)
		return target_fail(target, result, "owner");
	if (now.uid == found->uid && now.gid == found->gid && now.mode == found->mode)
		return 0;
	if (now.uid != found->uid && now.uid != target->change->user)
		return target_leave(target, "its owner");
	target_log(target, level_of(target), "owner %u:%u mode %04o %s %u:%u %04o", now.uid, now.gid, now.mode,
	           target_count(target), found->uid, found->gid, found->mode);
	result = target->restore->dry_run ? 0 : cpufreq_set_owner(target->descriptor, found);
	point_pass("undone");
	return result ? target_fail(target, result, "owner") : 0;
}

/* The author of a value. HIDDEN: a value below the holder's range, so a cap may hide the holder's. */
enum whose { OURS, OTHERS, HIDDEN };

/* Returns who has set the value that is there now. */
static enum whose whose_is(const struct target *target)
{
	const struct domain_use *use = &target->change->use;
	uint32_t now;

	if (!cpufreq_khz_parse(target->now, &now))
		return OTHERS;
	if (target->change->gives || (now >= use->low_khz && now <= use->high_khz))
		return OURS;
	return now < use->low_khz ? HIDDEN : OTHERS;
}

/* Returns true if a limit of the kernel explains why the file shows another value than the one written: a lower one. */
static bool is_limited(const struct target *target, const char *after)
{
	uint32_t khz;

	return cpufreq_khz_parse(after, &khz) && khz < target->change->use.high_khz;
}

/*
 * Settles a HIDDEN value after the value found was written. If the file still shows the hidden value, a cap holds it
 * down, and the value found applies when the cap ends. Otherwise somebody else had set it, and it is written again.
 */
static int hidden_settle(const struct target *target, const char *found, const char *after)
{
	if (strcmp(after, target->now) == 0) {
		target_log(target, level_of(target), "a cap holds it at %s; %s applies when the cap ends", after,
		           found);
		return 0;
	}
	target_leave(target, "its value");
	target->restore->count.settings--;
	return cpufreq_put(target->descriptor, target->now);
}

/* Writes the value found, unless somebody else has set another one, and reads it back. */
static int value_restore(const struct target *target, const char *found)
{
	enum whose whose = whose_is(target);
	bool is_found = strcmp(target->now, found) == 0;
	char after[CPUFREQ_TEXT_MAX];
	int result;

	if (whose == OTHERS)
		return target_leave(target, "its value");
	if (!is_found)
		target_log(target, level_of(target), "\"%s\" %s \"%s\"", target->now, target_count(target), found);
	if (target->restore->dry_run)
		return 0;
	result = cpufreq_put(target->descriptor, found);
	point_pass("undone");
	if (!result)
		result = cpufreq_get(target->descriptor, after);
	if (result)
		return target_fail(target, result, "its value");
	if (whose == HIDDEN)
		return hidden_settle(target, found, after);
	if (strcmp(after, found) == 0)
		return 0;
	if (!is_limited(target, after)) {
		target_log(target, LOG_LEVEL_ERROR, "wrote \"%s\", read back \"%s\"", found, after);
		return target_fail(target, -EIO, "its value");
	}
	target_log(target, level_of(target), "a limit holds it at %s", after);
	return 0;
}

/*
 * Restores the settings that the holder may have changed: owner and mode if it gave the file to a user, then the value.
 * Returns 0 or -errno.
 */
static int target_restore(struct target *target, int directory)
{
	cleanup_close int descriptor = cpufreq_open_max(directory, target->restore->dry_run ? O_RDONLY : O_RDWR);
	char khz[CPUFREQ_TEXT_MAX];
	int result;

	target->descriptor = descriptor;
	if (descriptor == -ENOENT) {
		target_log(target, level_of(target), "the file is gone; nothing to undo");
		return 0;
	}
	if (descriptor < 0)
		return target_fail(target, descriptor, "opening it");
	result = target->change->gives ? owner_restore(target) : 0;
	if (result)
		return result;
	result = cpufreq_get(descriptor, target->now);
	if (result)
		return target_fail(target, result, "its value");
	snprintf(khz, sizeof(khz), "%" PRIu32, target->change->use.high_khz);
	return value_restore(target, khz);
}

int restore_domain(struct restore *restore, uint32_t policy, const struct domain_change *change)
{
	cleanup_close int directory = cpufreq_open_policy(CPUFREQ_SYSFS, policy);
	struct target target = {restore, change, policy, -1, ""};
	char driver[CPUFREQ_TEXT_MAX];
	int result = directory < 0 ? directory : cpufreq_read_text(directory, "scaling_driver", driver);

	if (result == -ENOENT || (result == 0 && strcmp(driver, change->driver) != 0)) {
		log_info("cpufreq policy%u: the driver has changed; nothing to undo", policy);
		return 0;
	}
	if (result) {
		restore->count.failed++;
		log_error("cpufreq policy%u: %s; the next restore tries again", policy, strerror(-result));
		return result;
	}
	return target_restore(&target, directory);
}

/* One pass over the domains of a node. */
struct pass {
	struct restore restore;
	uint32_t job_id; /* restore what this job holds; 0: what no living process holds */
	int node;        /* descriptor of the node's directory */
	int first;       /* the first error, 0: none */
};

/* Counts and logs a file or directory that is not trusted. Keeps the pass's first error. */
static void refuse(struct pass *pass, int result, const char *what, const struct error *error)
{
	pass->restore.count.refused++;
	pass->first = pass->first ? pass->first : result;
	log_error("%s: %s; nothing is restored from it; see mpi-wait-node(8), restore", what,
	          error && error->text[0] ? error->text : strerror(-result));
}

/* Returns true if this pass restores the domain. */
static bool is_to_undo(const struct pass *pass, int file, const struct domain_hold *hold)
{
	if (!hold->held)
		return false;
	return pass->job_id ? hold->holder.job_id == pass->job_id : !holder_is_alive(file, &hold->holder);
}

/* Restores a domain and frees its file. The caller holds the file's lock. */
static void domain_undo(struct pass *pass, uint32_t policy, int file, const struct domain_hold *hold)
{
	char what[HOLDER_TEXT_MAX];
	int result = 0;

	holder_describe(&hold->holder, what);
	pass->restore.count.domains++;
	if (!holder_is_of_this_boot(&hold->holder))
		log_info("cpufreq policy%u: held by %s of an earlier boot; nothing to undo", policy, what);
	else if (hold->changes)
		result = restore_domain(&pass->restore, policy, &hold->change);
	if (!result && !pass->restore.dry_run)
		result = domain_file_write(file, NULL, NULL);
	point_pass("freed");
	pass->first = pass->first ? pass->first : result;
}

/* Restores a domain if its holder is gone or is this job's. Takes the lock only then, or if the file is bad. */
static void domain_visit(struct pass *pass, uint32_t policy)
{
	struct domain_hold hold = {.held = false};
	struct error error = {""};
	char what[48];
	cleanup_close int file = domain_file_open(pass->node, policy, false, &error);
	int result = file < 0 ? file : domain_file_read(file, &hold, NULL);

	if (file >= 0 && (result || is_to_undo(pass, file, &hold))) {
		result = files_lock(file, DOMAIN_FILE_WAIT_MS);
		if (!result)
			result = domain_file_read(file, &hold, &error);
	}
	snprintf(what, sizeof(what), "state of cpufreq policy%" PRIu32, policy);
	if (result)
		refuse(pass, result, what, &error);
	else if (is_to_undo(pass, file, &hold))
		domain_undo(pass, policy, file, &hold);
	else
		pass->restore.count.live += hold.held;
}

/* Restores the domains of one node directory, and closes it. */
static void node_visit(struct pass *pass, int opened, const char *name)
{
	cleanup_close int node = opened;
	cleanup_close int directory = node < 0 ? -ENOENT : files_directory(node, DOMAIN_FILE_DIRECTORY, 0);
	cleanup_closedir DIR *entries = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;

	pass->node = node;
	if (node < 0)
		refuse(pass, node, name, NULL);
	else if (!entries && directory != -ENOENT)
		refuse(pass, directory < 0 ? directory : -errno, DOMAIN_FILE_DIRECTORY, NULL);
	while (entries && (entry = readdir(entries))) {
		int policy = cpufreq_policy_number(entry->d_name);

		if (policy >= 0)
			domain_visit(pass, (uint32_t)policy);
	}
}

int restore_job(const struct run_directory *run_directory, uint32_t job_id)
{
	struct pass pass = {.job_id = job_id};

	node_visit(&pass, run_directory_open_node(run_directory), run_directory->node);
	return pass.first;
}

int restore_host(const char *root, bool dry_run, struct restore_count *ret_count)
{
	struct pass pass = {.restore = {.dry_run = dry_run}};
	cleanup_close int directory = files_directory(AT_FDCWD, root, 0);
	cleanup_closedir DIR *entries = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;

	if (!entries && directory != -ENOENT)
		refuse(&pass, directory < 0 ? directory : -errno, root, NULL);
	while (entries && (entry = readdir(entries)))
		if (files_name_ok(entry->d_name))
			node_visit(&pass, files_directory(directory, entry->d_name, 0), entry->d_name);
	*ret_count = pass.restore.count;
	return pass.first;
}
