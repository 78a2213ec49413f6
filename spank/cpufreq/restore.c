#include "spank/cpufreq/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/point.h"

/* One of the kernel's files while it is put back. */
struct target {
	struct restore *restore;
	const struct domain_change *change;
	enum cpufreq_file file;
	uint32_t policy;
	int directory;
	int descriptor;
	char now[CPUFREQ_TEXT_MAX];
};

static int target_fail(const struct target *target, int result, const char *what)
{
	target->restore->count.failed++;
	log_error("policy%u/%s: %s: %s; it stays noted", target->policy, cpufreq_file_name(target->file), what,
	          strerror(-result));
	return result;
}

__attribute__((format(printf, 2, 3))) static void target_say(const struct target *target, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	log_line(target->restore->quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "policy%u/%s: %s", target->policy,
	         cpufreq_file_name(target->file), text);
}

static int target_leave(const struct target *target, const char *what)
{
	target->restore->count.left++;
	log_info("policy%u/%s: somebody else has changed %s since; left alone", target->policy,
	         cpufreq_file_name(target->file), what);
	return 0;
}

/* Its user may have changed group and mode too, and a kill may have parted owner and mode: so the owner alone tells. */
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
	target_say(target, "owner %u:%u mode %04o %s %u:%u %04o", now.uid, now.gid, now.mode,
	           target->restore->dry_run ? "would be put back to" : "put back to", found->uid, found->gid,
	           found->mode);
	target->restore->count.settings++;
	result = target->restore->dry_run ? 0 : cpufreq_set_owner(target->descriptor, found);
	point_pass("undone");
	return result ? target_fail(target, result, "owner") : 0;
}

/* Writes the found value and reads what has become of it. after stays "" where nothing was to be written. */
static int found_write(const struct target *target, const char *found, char after[CPUFREQ_TEXT_MAX])
{
	int result;

	after[0] = '\0';
	if (strcmp(target->now, found) != 0) {
		target->restore->count.settings++;
		target_say(target, "\"%s\" %s \"%s\"", target->now,
		           target->restore->dry_run ? "would be put back to" : "put back to", found);
	}
	if (target->restore->dry_run)
		return 0;
	result = cpufreq_put(target->descriptor, found);
	point_pass("undone");
	if (!result)
		result = cpufreq_get(target->descriptor, after);
	return result ? target_fail(target, result, "its value") : 0;
}

static int not_read_back(const struct target *target, const char *found, const char *after)
{
	log_error("policy%u/%s: \"%s\" was written, \"%s\" is read", target->policy, cpufreq_file_name(target->file),
	          found, after);
	return target_fail(target, -EIO, "its value");
}

static uint32_t limit(const struct target *target, const char *name)
{
	uint32_t khz;

	return cpufreq_read_khz(target->directory, name, &khz) ? 0 : khz;
}

static bool is_clamped(const struct target *target, uint32_t khz)
{
	return khz == limit(target, "scaling_max_freq") || khz == limit(target, "scaling_min_freq");
}

/* After the found value was written over one below ours: that was a cap, or somebody's setting, which is put back. */
static int hidden_settle(const struct target *target, const char *found, const char *after)
{
	if (strcmp(after, target->now) == 0) {
		target_say(target, "a cap holds it at %s; %s is asked for again", after, found);
		return 0;
	}
	target_leave(target, "its value");
	target->restore->count.settings--;
	return cpufreq_put(target->descriptor, target->now);
}

/* A limit may keep it from being read back as it was written; the kernel keeps scaling_setspeed within both. */
static int value_restore(const struct target *target)
{
	const struct domain_use *use = &target->change->use;
	char found[CPUFREQ_TEXT_MAX], after[CPUFREQ_TEXT_MAX];
	bool is_max = use->file == CPUFREQ_MAX, hidden = false;
	uint32_t now, then;
	int result;

	if (!cpufreq_khz_parse(target->now, &now))
		return target_leave(target, "its value");
	if (!target->change->gives && (now < use->low_khz || now > use->high_khz)) {
		hidden = is_max && now < use->low_khz;
		if (!hidden && (is_max || !is_clamped(target, now)))
			return target_leave(target, "its value");
	}
	snprintf(found, sizeof(found), "%" PRIu32, use->high_khz);
	result = found_write(target, found, after);
	if (result || !after[0] || (!hidden && strcmp(after, found) == 0))
		return result;
	if (hidden)
		return hidden_settle(target, found, after);
	if (!cpufreq_khz_parse(after, &then) || !(is_max ? then < use->high_khz : is_clamped(target, then)))
		return not_read_back(target, found, after);
	target_say(target, "a limit holds it at %s", after);
	return 0;
}

static int governor_restore(const struct target *target)
{
	const char *found = target->change->governor;
	char after[CPUFREQ_TEXT_MAX];
	int result;

	if (strcmp(target->now, found) == 0)
		return 0;
	if (strcmp(target->now, "userspace") != 0)
		return target_leave(target, "its value");
	result = found_write(target, found, after);
	return result || !after[0] || strcmp(after, found) == 0 ? result : not_read_back(target, found, after);
}

static int target_restore(struct target *target, bool gives, int (*put_back)(const struct target *target))
{
	cleanup_close int descriptor =
	        cpufreq_open_file(target->directory, target->file, target->restore->dry_run ? O_RDONLY : O_RDWR);
	int result;

	target->descriptor = descriptor;
	if (descriptor == -ENOENT) {
		target_say(target, "there is no such file any more; nothing to undo");
		return 0;
	}
	if (descriptor < 0)
		return target_fail(target, descriptor, "opening it");
	result = gives ? owner_restore(target) : 0;
	if (result)
		return result;
	result = cpufreq_get(descriptor, target->now);
	if (result)
		return target_fail(target, result, "its value");
	/* scaling_setspeed has a value under one governor only */
	return put_back && strcmp(target->now, CPUFREQ_UNSUPPORTED) != 0 ? put_back(target) : 0;
}

int restore_domain(struct restore *restore, uint32_t policy, const struct domain_change *change)
{
	cleanup_close int directory = cpufreq_open_policy(CPUFREQ_SYSFS, policy);
	struct target target = {restore, change, change->use.file, policy, directory, -1, ""};
	char driver[CPUFREQ_TEXT_MAX];
	int result = directory < 0 ? directory : cpufreq_read_text(directory, "scaling_driver", driver), second = 0;

	if (result == -ENOENT || (result == 0 && strcmp(driver, change->driver) != 0)) {
		log_info("policy%u has another driver by now; nothing to undo", policy);
		return 0;
	}
	if (result) {
		restore->count.failed++;
		log_error("policy%u: %s; it stays noted", policy, strerror(-result));
		return result;
	}
	/* what was changed last is put back first; with the governor, no value was found */
	result = target_restore(&target, change->gives, change->use.sets_governor ? NULL : value_restore);
	target.file = CPUFREQ_GOVERNOR;
	if (change->use.sets_governor)
		second = target_restore(&target, false, governor_restore);
	return result ? result : second;
}

/* One pass over the domains of a node. */
struct pass {
	struct restore restore;
	uint32_t job_id; /* what this job holds; 0: what nobody does who lives */
	int node;
	int first; /* the first error */
};

static void pass_fail(struct pass *pass, int result)
{
	if (!pass->first)
		pass->first = result;
}

static void refuse(struct pass *pass, int result, const char *what, const struct error *error)
{
	pass->restore.count.refused++;
	pass_fail(pass, result);
	log_error("%s: %s; refused, nothing of it is undone", what,
	          error && error->text[0] ? error->text : strerror(-result));
}

static bool is_to_undo(const struct pass *pass, const struct domain_hold *hold)
{
	if (!hold->held)
		return false;
	return pass->job_id ? hold->holder.job_id == pass->job_id : !holder_is_alive(&hold->holder);
}

/* With the lock held. */
static void domain_undo(struct pass *pass, uint32_t policy, int file, const struct domain_hold *hold)
{
	char what[HOLDER_TEXT_MAX];
	int result = 0;

	holder_describe(&hold->holder, what);
	pass->restore.count.domains++;
	if (!holder_is_of_this_boot(&hold->holder))
		log_info("policy%u: held by %s of an earlier boot, nothing to undo", policy, what);
	else if (hold->changes)
		result = restore_domain(&pass->restore, policy, &hold->change);
	if (!result && !pass->restore.dry_run)
		result = domain_file_write(file, NULL, NULL);
	point_pass("freed");
	if (result)
		pass_fail(pass, result);
}

/* Nobody is waited for but whose domain is to be put back. */
static void domain_visit(struct pass *pass, uint32_t policy)
{
	struct domain_hold hold = {.held = false};
	struct error error = {""};
	char what[32];
	cleanup_close int file = domain_file_open(pass->node, policy, false, &error);
	int result = file < 0 ? file : domain_file_read(file, &hold, NULL);

	if (file >= 0 && (result || is_to_undo(pass, &hold))) {
		result = files_lock(file, DOMAIN_FILE_WAIT_MS);
		if (!result)
			result = domain_file_read(file, &hold, &error);
	}
	snprintf(what, sizeof(what), "cpufreq/policy%" PRIu32, policy);
	if (result)
		refuse(pass, result, what, &error);
	else if (is_to_undo(pass, &hold))
		domain_undo(pass, policy, file, &hold);
	else
		pass->restore.count.live += hold.held;
}

static void node_visit(struct pass *pass, int node)
{
	cleanup_close int directory = files_directory(node, DOMAIN_FILE_DIRECTORY, 0);
	cleanup_closedir DIR *entries = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;

	pass->node = node;
	if (!entries && directory != -ENOENT)
		refuse(pass, directory < 0 ? directory : -errno, DOMAIN_FILE_DIRECTORY, NULL);
	while (entries && (entry = readdir(entries))) {
		int policy = cpufreq_policy_number(entry->d_name);

		if (policy >= 0)
			domain_visit(pass, (uint32_t)policy);
	}
}

int restore_job(const struct state_place *place, uint32_t job_id)
{
	struct pass pass = {.job_id = job_id};
	cleanup_close int node = state_open_node(place);

	if (node < 0)
		refuse(&pass, node, place->node, NULL);
	else
		node_visit(&pass, node);
	return pass.first;
}

static void nodes_visit(struct pass *pass, int root)
{
	cleanup_closedir DIR *entries = files_entries(root);
	const struct dirent *entry;

	if (!entries)
		refuse(pass, -errno, "the state directory", NULL);
	while (entries && (entry = readdir(entries))) {
		cleanup_close int node = -1;

		if (!files_name_ok(entry->d_name))
			continue;
		node = files_directory(root, entry->d_name, 0);
		if (node < 0)
			refuse(pass, node, entry->d_name, NULL);
		else
			node_visit(pass, node);
	}
}

int restore_host(const char *root, bool dry_run, struct restore_count *ret_count)
{
	struct pass pass = {.restore = {.dry_run = dry_run}};
	cleanup_close int directory = files_directory(AT_FDCWD, root, 0);

	if (directory >= 0)
		nodes_visit(&pass, directory);
	else if (directory != -ENOENT)
		refuse(&pass, directory, root, NULL);
	*ret_count = pass.restore.count;
	return pass.first;
}
