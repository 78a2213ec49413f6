#include "spank/cpufreq/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/point.h"
#include "spank/cpufreq/held.h"
#include "spank/cpufreq/journal_file.h"
#include "spank/cpufreq/undo.h"

struct journal {
	struct state_place place;
	char sysfs[PATH_MAX];
	struct holder holder;
	char name[HOLDER_NAME_MAX];
	int node;
	int job;
	int cpus;
	int file;
	uint64_t length;
	bool broken; /* what a full disk left of a line could not be cut off: nothing can be added */
	uint32_t room;
	struct held **held; /* by policy; NULL: not claimed */
};

static int open_directories(struct journal *journal)
{
	journal->node = state_open_node(&journal->place);
	if (journal->node < 0)
		return journal->node;
	journal->job = state_open_job(&journal->place, journal->holder.job_id);
	if (journal->job < 0)
		return journal->job;
	journal->cpus = cpufreq_open_cpus(journal->sysfs);
	return journal->cpus < 0 ? journal->cpus : 0;
}

/* The file appears with its head, or not at all. */
static int make_file(struct journal *journal)
{
	char line[JOURNAL_LINE_MAX];
	int length = journal_line_head(&journal->holder, line), result;

	if (length < 0)
		return length;
	holder_journal(&journal->holder, journal->name);
	if (faccessat(journal->job, journal->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	result = files_write(journal->job, journal->name, 0600, line, (size_t)length, true);
	if (result)
		return result;
	journal->file = openat(journal->job, journal->name, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	journal->length = (uint64_t)length;
	return journal->file < 0 ? -errno : 0;
}

int journal_open(const struct state_place *place, const char *sysfs, uint32_t job_id, uint32_t step_id,
                 struct journal **ret_journal, struct error *error)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	int result;

	if (!journal)
		return error_set(error, -ENOMEM, "out of memory");
	journal->place = *place;
	journal->node = journal->job = journal->cpus = journal->file = -1;
	result = snprintf(journal->sysfs, sizeof(journal->sysfs), "%s", sysfs) < PATH_MAX ? 0 : -EINVAL;
	if (!result)
		result = holder_init(job_id, step_id, &journal->holder);
	if (!result)
		result = open_directories(journal);
	if (!result)
		result = make_file(journal);
	point_pass("opened");
	if (result) {
		journal_close(journal);
		return error_set(error, result, "no journal, so no frequency is changed: %s", strerror(-result));
	}
	*ret_journal = journal;
	return 0;
}

static struct held *held_find(const struct journal *journal, uint32_t policy)
{
	return policy < journal->room ? journal->held[policy] : NULL;
}

static void held_drop(struct journal *journal, uint32_t policy)
{
	held_free(held_find(journal, policy));
	if (policy < journal->room)
		journal->held[policy] = NULL;
}

static int held_make_room(struct journal *journal, uint32_t policy)
{
	struct held **held;

	if (policy >= CPUFREQ_POLICIES)
		return -EINVAL;
	if (policy < journal->room)
		return 0;
	held = realloc(journal->held, (policy + 1) * sizeof(struct held *));
	if (!held)
		return -ENOMEM;
	memset(held + journal->room, 0, (policy + 1 - journal->room) * sizeof(struct held *));
	journal->held = held;
	journal->room = policy + 1;
	return 0;
}

bool journal_holds(struct journal *journal, uint32_t policy)
{
	const struct held *held = held_find(journal, policy);

	if (!held || held_lock(held))
		return false;
	held_unlock(held);
	return true;
}

/* The journal that a claim names. Returns 0, -ENOENT or -errno. */
static int holder_read(const struct journal *journal, const struct holder *holder, struct journal_text *ret_text,
                       struct error *error)
{
	cleanup_close int directory = state_open_job(&journal->place, holder->job_id);
	cleanup_close int file = -1;
	char name[HOLDER_NAME_MAX];

	if (directory < 0)
		return error_set(error, directory, "%s", strerror(-directory));
	holder_journal(holder, name);
	file = journal_file_open(directory, name, error);
	return file < 0 ? file : journal_file_read(file, name, holder->job_id, ret_text, error);
}

/* Undoes what the holder of a claim did, under the claim's lock. */
static int holder_undo(const struct journal *journal, const struct claim *claim, uint32_t policy, struct error *error)
{
	struct undo undo = {.sysfs = journal->sysfs};
	struct journal_text text = {.entries = NULL};
	char what[HOLDER_NAME_MAX];
	struct error why = {""};
	int result = holder_read(journal, &claim->holder, &text, &why);

	holder_describe(&claim->holder, what);
	if (result == -ENOENT) {
		if (claim->entries > 0)
			log_info("policy%u: the journal of %s is gone: what was there before cannot be put back",
			         policy, what);
		return 0;
	}
	if (result)
		return error_set(error, -EBADMSG, "policy%u: journal of %s: %s; refused, not claimed", policy, what,
		                 why.text);
	result = undo_held(&undo, claim, &text, policy);
	journal_text_free(&text);
	if (result)
		return error_set(error, result, "policy%u: %s holds it and cannot be undone; not claimed", policy,
		                 what);
	/* the batch step holds every core until a step of srun's takes its own: nothing to tell anybody */
	if (claim->holder.job_id == journal->holder.job_id)
		log_debug("policy%u: %s of the same job held it", policy, what);
	else
		log_info("policy%u: %s held it; what it changed is undone, and its lease of it has ended", policy,
		         what);
	return 0;
}

/* With the claim's lock held: whoever it names goes, and then it names us. */
static int claim_take(struct journal *journal, struct held *held, uint32_t policy, struct error *error)
{
	const struct claim ours = {.held = true, .holder = journal->holder, .from = journal->length};
	struct claim before;
	struct error why = {""};
	int result = claim_read(held->descriptor, &before, &why);

	if (result)
		return error_set(error, result, "claim cpu/policy%u: %s; not claimed", policy, why.text);
	if (before.held && strcmp(before.holder.boot, journal->holder.boot) == 0)
		result = holder_undo(journal, &before, policy, error);
	if (!result)
		result = held_write(held, &ours);
	return result ? error_set(error, result, "claim cpu/policy%u: %s", policy, strerror(-result)) : 0;
}

int journal_claim(struct journal *journal, uint32_t policy, struct error *error)
{
	struct held *held;
	int result;

	if (journal_holds(journal, policy))
		return 0;
	held_drop(journal, policy);
	result = held_make_room(journal, policy);
	held = result ? NULL : held_new(journal->node, journal->cpus, policy, &result, error);
	if (!held)
		return error_set(error, result, "policy%u: %s", policy, strerror(-result));
	result = claim_take(journal, held, policy, error);
	held_unlock(held);
	point_pass("claimed");
	if (result)
		held_free(held);
	else
		journal->held[policy] = held;
	return result;
}

/* Durable, or as if it had not been tried. */
static int append(struct journal *journal, const char *line, size_t length)
{
	ssize_t done = write(journal->file, line, length);

	if (done == (ssize_t)length && fsync(journal->file) == 0) {
		journal->length += length;
		return 0;
	}
	done = done >= 0 && done < (ssize_t)length ? -ENOSPC : -errno;
	journal->broken = ftruncate(journal->file, (off_t)journal->length) != 0;
	return (int)done;
}

/* The entry, then the claim, which says how many there are at least. The locks of both are held. */
static int write_down(struct journal *journal, struct held *held, const struct journal_entry *entry)
{
	char line[JOURNAL_LINE_MAX];
	struct claim claim = held->claim;
	int length = journal_line_entry(entry, line), result;

	if (length < 0)
		return length;
	if (journal->broken || journal->length + (size_t)length > JOURNAL_FILE_MAX)
		return -ENOSPC;
	result = append(journal, line, (size_t)length);
	point_pass("written");
	claim.entries++;
	return result ? result : held_write(held, &claim);
}

/* With the locks of both held. */
static int record_locked(struct journal *journal, struct held *held, uint32_t policy,
                         const struct journal_change *change, struct error *error)
{
	struct journal_entry entry = {.offset = (size_t)journal->length, .policy = policy, .change = *change};
	cleanup_close int descriptor = held_look(held, journal->sysfs, change, &entry.found, error);
	int result;

	if (descriptor < 0)
		return descriptor;
	result = write_down(journal, held, &entry);
	if (result)
		return error_set(error, result, "journal: %s", strerror(-result));
	held->files[change->file] = (struct held_file){take_descriptor(&descriptor), entry.change, entry.found};
	return 0;
}

static int record(struct journal *journal, struct held *held, uint32_t policy, const struct journal_change *change,
                  struct error *error)
{
	const char *why = journal_change_refusal(change);
	int result;

	if (why)
		return error_set(error, -EINVAL, "%s", why);
	if (!held)
		return error_set(error, -ESTALE, "not claimed");
	if (held->files[change->file].descriptor >= 0)
		return error_set(error, -EEXIST, "recorded already");
	result = journal_file_lock(journal->file);
	if (!result)
		result = held_lock(held);
	if (!result) {
		result = record_locked(journal, held, policy, change, error);
		held_unlock(held);
	}
	claim_unlock(journal->file);
	return result ? error_set(error, result, "%s", result == -ESTALE ? "another has it now" : strerror(-result))
	              : 0;
}

int journal_record(struct journal *journal, uint32_t policy, const struct journal_change *change,
                   struct journal_found *ret_found, struct error *error)
{
	struct held *held = held_find(journal, policy);
	struct error why = {""};
	int result = record(journal, held, policy, change, &why);

	point_pass("journalled");
	if (result)
		return error_set(error, result, "policy%u/%s: %s; not changed", policy,
		                 change->file < CPUFREQ_FILE_COUNT ? cpufreq_file_name(change->file) : "?", why.text);
	if (ret_found)
		*ret_found = held->files[change->file].found;
	return 0;
}

int journal_set(struct journal *journal, uint32_t policy, enum cpufreq_file file, const char *value)
{
	const struct held *held = held_find(journal, policy);

	return held ? held_set(held, file, value) : -ESTALE;
}

int journal_give(struct journal *journal, uint32_t policy, enum cpufreq_file file)
{
	const struct held *held = held_find(journal, policy);

	return held ? held_give(held, file) : -ESTALE;
}

/* Our own file as everybody else would read it. */
static int text_read(const struct journal *journal, struct journal_text *ret_text, struct error *error)
{
	struct error why = {""};
	int result = journal_file_read(journal->file, journal->name, journal->holder.job_id, ret_text, &why);

	return result ? error_set(error, result, "own journal: %s; left to the epilog", why.text) : 0;
}

static int undo_own(struct journal *journal, const struct journal_text *text, uint32_t policy, struct error *error)
{
	struct undo undo = {.sysfs = journal->sysfs, .quiet = true};
	int result = undo_claimed(&undo, journal->node, text, policy);

	held_drop(journal, policy);
	return result ? error_set(error, result, "policy%u: not put back: %s; left to the epilog", policy,
	                          strerror(-result))
	              : 0;
}

int journal_release(struct journal *journal, uint32_t policy, struct error *error)
{
	struct journal_text text = {.entries = NULL};
	int result;

	if (!held_find(journal, policy))
		return 0;
	result = text_read(journal, &text, error);
	if (!result)
		result = undo_own(journal, &text, policy, error);
	journal_text_free(&text);
	return result;
}

static int undo_everything(struct journal *journal, struct error *error)
{
	struct journal_text text = {.entries = NULL};
	int first = text_read(journal, &text, error);

	for (uint32_t policy = journal->room; policy-- > 0 && (!first || text.count);) {
		int result = journal->held[policy] ? undo_own(journal, &text, policy, error) : 0;

		if (result && !first)
			first = result;
	}
	journal_text_free(&text);
	return first;
}

int journal_end(struct journal *journal, struct error *error)
{
	int result;

	if (!journal)
		return 0;
	result = journal_file_lock(journal->file);
	if (result == -ESTALE) { /* the epilog was here first: nothing is left */
		journal_close(journal);
		return 0;
	}
	if (!result)
		result = undo_everything(journal, error);
	point_pass("ended");
	if (!result && unlinkat(journal->job, journal->name, 0) && errno != ENOENT)
		result = -errno;
	journal_close(journal);
	return result ? error_set(error, result, "journal: %s", strerror(-result)) : 0;
}

static void close_open(int descriptor)
{
	if (descriptor >= 0)
		close(descriptor);
}

void journal_close(struct journal *journal)
{
	if (!journal)
		return;
	for (uint32_t policy = 0; policy < journal->room; policy++)
		held_free(journal->held[policy]);
	free(journal->held);
	close_open(journal->file);
	close_open(journal->cpus);
	close_open(journal->job);
	close_open(journal->node);
	free(journal);
}
