#include "spank/cpufreq/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/base/point.h"
#include "spank/cpufreq/claim.h"

enum verdict { VERDICT_DONE, VERDICT_OURS, VERDICT_HIDDEN, VERDICT_FOREIGN, VERDICT_WAIT };

/* One file while it is being undone. */
struct target {
	const struct journal_entry *entry;
	const char *name; /* "scaling_governor" */
	int directory;
	int file;
	char now[CPUFREQ_TEXT_MAX];
};

static int target_fail(struct undo *undo, const struct target *target, int result, const char *what)
{
	undo->count.failed++;
	log_error("policy%u/%s: %s: %s; it stays in the journal", target->entry->policy, target->name, what,
	          strerror(-result));
	return result;
}

__attribute__((format(printf, 3, 4))) static void target_say(const struct undo *undo, const struct target *target,
                                                             const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (undo->quiet)
		log_debug("policy%u/%s: %s", target->entry->policy, target->name, text);
	else
		log_info("policy%u/%s: %s", target->entry->policy, target->name, text);
}

static void target_leave(struct undo *undo, const struct target *target, const char *what)
{
	undo->count.left++;
	log_info("policy%u/%s: somebody else has changed %s since; left alone", target->entry->policy, target->name,
	         what);
}

static bool owner_same(const struct cpufreq_owner *left, const struct cpufreq_owner *right)
{
	return left->uid == right->uid && left->gid == right->gid && left->mode == right->mode;
}

/*
 * Who has been given a file may change its group and its mode too, and a kill between chown and chmod leaves a mixture:
 * so the owner alone tells. One that is neither was set by somebody else.
 */
static bool owner_is_ours(const struct cpufreq_owner *now, const struct journal_entry *entry)
{
	return now->uid == entry->found.owner.uid || now->uid == entry->change.owner.uid;
}

static int undo_owner(struct undo *undo, const struct target *target)
{
	const struct cpufreq_owner *found = &target->entry->found.owner;
	struct cpufreq_owner now;
	int result;

	if (!target->entry->change.gives)
		return 0;
	result = cpufreq_get_owner(target->file, &now);
	if (result)
		return target_fail(undo, target, result, "owner");
	if (owner_same(&now, found))
		return 0;
	if (!owner_is_ours(&now, target->entry)) {
		target_leave(undo, target, "its owner");
		return 0;
	}
	target_say(undo, target, "owner %u:%u mode %04o %s %u:%u %04o", now.uid, now.gid, now.mode,
	           undo->dry_run ? "would be put back to" : "put back to", found->uid, found->gid, found->mode);
	undo->count.settings++;
	result = undo->dry_run ? 0 : cpufreq_set_owner(target->file, found);
	point_pass("undone");
	return result ? target_fail(undo, target, result, "owner") : 0;
}

static uint32_t limit(const struct target *target, enum cpufreq_file file)
{
	uint32_t khz;

	return cpufreq_read_khz(target->directory, cpufreq_file_name(file), &khz) ? 0 : khz;
}

/* What a number that is neither the found one nor in the range means. */
static enum verdict judge_outside(const struct target *target, uint32_t now)
{
	const struct journal_change *change = &target->entry->change;
	bool below = now < change->low_khz;

	switch (change->file) {
	case CPUFREQ_MAX:
		return below ? VERDICT_HIDDEN : VERDICT_FOREIGN;
	case CPUFREQ_MIN: /* the kernel keeps it at or below the maximum */
		return below && now == limit(target, CPUFREQ_MAX) ? VERDICT_OURS : VERDICT_FOREIGN;
	default: /* the kernel keeps it within the two */
		return now == limit(target, below ? CPUFREQ_MAX : CPUFREQ_MIN) ? VERDICT_OURS : VERDICT_FOREIGN;
	}
}

/* Whether old kernels (before 5.4) would refuse it now: a minimum above the maximum, or the other way round. */
static bool must_wait(const struct target *target, uint32_t wanted)
{
	uint32_t other;

	if (target->entry->change.file == CPUFREQ_MIN)
		return (other = limit(target, CPUFREQ_MAX)) && wanted > other;
	if (target->entry->change.file == CPUFREQ_MAX)
		return (other = limit(target, CPUFREQ_MIN)) && wanted < other;
	return false;
}

static enum verdict judge(const struct target *target, bool last_pass)
{
	const struct journal_change *change = &target->entry->change;
	const char *found = target->entry->found.value;
	uint32_t now, wanted;
	enum verdict verdict;

	/* scaling_setspeed has no value but under the governor userspace */
	if (!found[0] || strcmp(target->now, CPUFREQ_UNSUPPORTED) == 0 || (!change->governor[0] && !change->low_khz))
		return VERDICT_DONE;
	if (change->file == CPUFREQ_GOVERNOR) {
		if (strcmp(target->now, found) == 0)
			return VERDICT_DONE;
		return strcmp(target->now, change->governor) == 0 ? VERDICT_OURS : VERDICT_FOREIGN;
	}
	if (!cpufreq_khz_parse(target->now, &now) || !cpufreq_khz_parse(found, &wanted))
		return VERDICT_FOREIGN;
	if (change->gives || (now >= change->low_khz && now <= change->high_khz))
		verdict = VERDICT_OURS;
	else
		verdict = judge_outside(target, now);
	/* the found value may be in the range, or be shown because a cap happens to be there: writing it does no harm
	 */
	if (now == wanted && verdict != VERDICT_OURS)
		return VERDICT_DONE;
	return verdict != VERDICT_FOREIGN && !last_pass && must_wait(target, wanted) ? VERDICT_WAIT : verdict;
}

/* After the found value was written over a lower one: it was a cap, or somebody's own setting, which is put back. */
static int hidden_settle(struct undo *undo, const struct target *target, const char *after)
{
	if (strcmp(after, target->now) == 0) {
		target_say(undo, target, "a cap holds it at %s; %s is asked for again", after,
		           target->entry->found.value);
		return 0;
	}
	target_leave(undo, target, "its value");
	undo->count.settings--;
	return cpufreq_put(target->file, target->now);
}

/* Whether what the file shows is what was written, but for the kernel's limits. */
static bool read_back_ok(const struct target *target, const char *after)
{
	uint32_t now, wanted;

	if (strcmp(after, target->entry->found.value) == 0)
		return true;
	if (!cpufreq_khz_parse(after, &now) || !cpufreq_khz_parse(target->entry->found.value, &wanted))
		return false;
	if (target->entry->change.file == CPUFREQ_MAX)
		return now < wanted;
	return now == limit(target, CPUFREQ_MAX) || now == limit(target, CPUFREQ_MIN);
}

static int value_write(struct undo *undo, const struct target *target, bool hidden)
{
	const char *found = target->entry->found.value;
	char after[CPUFREQ_TEXT_MAX];
	int result;

	if (strcmp(target->now, found) != 0) {
		undo->count.settings++;
		target_say(undo, target, "\"%s\" %s \"%s\"", target->now,
		           undo->dry_run ? "would be put back to" : "put back to", found);
	}
	if (undo->dry_run)
		return 0;
	result = cpufreq_put(target->file, found);
	point_pass("undone");
	if (!result)
		result = cpufreq_get(target->file, after);
	if (result)
		return target_fail(undo, target, result, "its value");
	if (hidden)
		return hidden_settle(undo, target, after);
	if (read_back_ok(target, after)) {
		if (strcmp(after, found) != 0)
			target_say(undo, target, "a limit holds it at %s", after);
		return 0;
	}
	log_error("policy%u/%s: \"%s\" was written, \"%s\" is read", target->entry->policy, target->name, found, after);
	return target_fail(undo, target, -EIO, "its value");
}

/* Returns 1 for "later", 0, or -errno. */
static int undo_value(struct undo *undo, struct target *target, bool last_pass)
{
	int result = cpufreq_get(target->file, target->now);
	enum verdict verdict;

	if (result)
		return target_fail(undo, target, result, "its value");
	verdict = judge(target, last_pass);
	switch (verdict) {
	case VERDICT_DONE:
		return 0;
	case VERDICT_WAIT:
		return 1;
	case VERDICT_FOREIGN:
		target_leave(undo, target, "its value");
		return 0;
	default:
		return value_write(undo, target, verdict == VERDICT_HIDDEN);
	}
}

/* Returns 1 for "later", 0, or -errno. */
static int undo_entry(struct undo *undo, int directory, const struct journal_entry *entry, bool last_pass)
{
	struct target target = {.entry = entry, .name = cpufreq_file_name(entry->change.file), .directory = directory};
	cleanup_close int file = cpufreq_open_file(directory, entry->change.file, undo->dry_run ? O_RDONLY : O_RDWR);
	int result = 0;

	if (file == -ENOENT) {
		log_info("policy%u/%s: there is no such file any more; nothing to undo", entry->policy, target.name);
		return 0;
	}
	if (file < 0)
		return target_fail(undo, &target, file, "opening it");
	target.file = file;
	if (!last_pass)
		result = undo_owner(undo, &target);
	return result ? result : undo_value(undo, &target, last_pass);
}

/* What a kernel would refuse in the first pass, as a minimum above a maximum, goes into the second. */
static int undo_entries(struct undo *undo, int directory, const struct journal_text *text, uint32_t policy,
                        uint64_t from)
{
	bool later[CPUFREQ_FILE_COUNT] = {false};
	int first = 0;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = text->count; i-- > 0;) {
			const struct journal_entry *entry = &text->entries[i];
			int result;

			if (entry->policy != policy || entry->offset < from || (pass && !later[entry->change.file]))
				continue;
			result = undo_entry(undo, directory, entry, pass == 1);
			later[entry->change.file] = result == 1;
			if (result < 0 && !first)
				first = result;
		}
	return first;
}

int undo_policy(struct undo *undo, const struct journal_text *text, uint32_t policy, uint64_t from)
{
	cleanup_close int cpus = cpufreq_open_cpus(undo->sysfs);
	cleanup_close int directory = cpus < 0 ? cpus : cpufreq_open_policy(cpus, policy);

	if (directory == -ENOENT) {
		log_info("policy%u is no more (another driver?); nothing to undo", policy);
		return 0;
	}
	if (directory < 0) {
		undo->count.failed++;
		log_error("policy%u: %s; it stays in the journal", policy, strerror(-directory));
		return directory;
	}
	return undo_entries(undo, directory, text, policy, from);
}

static uint32_t entries_count(const struct journal_text *text, uint32_t policy, uint64_t from)
{
	uint32_t count = 0;

	for (size_t i = 0; i < text->count; i++)
		count += text->entries[i].policy == policy && text->entries[i].offset >= from;
	return count;
}

int undo_held(struct undo *undo, const struct claim *claim, const struct journal_text *text, uint32_t policy)
{
	char what[HOLDER_NAME_MAX];

	if (entries_count(text, policy, claim->from) < claim->entries) {
		holder_describe(&claim->holder, what);
		undo->count.refused++;
		log_error(
		        "journal of %s: truncated: fewer entries of policy%u than there were; nothing of it is undone",
		        what, policy);
		return -EBADMSG;
	}
	return undo_policy(undo, text, policy, claim->from);
}

int undo_claimed(struct undo *undo, int node_directory, const struct journal_text *text, uint32_t policy)
{
	const struct claim free_claim = {.held = false};
	struct error error = {""};
	struct claim claim;
	cleanup_close int file = claim_open(node_directory, policy, false, &error);
	int result = file < 0 ? file : claim_read(file, &claim, &error);

	if (result) {
		undo->count.refused++;
		log_error("claim cpu/policy%u: %s; refused, nothing of it is undone", policy, error.text);
		return result;
	}
	if (!claim.held || !holder_same(&claim.holder, &text->holder))
		return 0;
	result = undo_held(undo, &claim, text, policy);
	if (result || undo->dry_run)
		return result;
	result = claim_write(file, &free_claim, NULL);
	point_pass("freed");
	return result;
}
