#include "spank/cpufreq/loan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/point.h"
#include "spank/cpufreq/restore.h"

/* Reverts another holder's changes. The caller holds the domain's lock. */
static int other_end(uint32_t policy, const struct domain_hold *other, const struct holder *holder, struct error *error)
{
	struct restore restore = {.quiet = false};
	char what[HOLDER_TEXT_MAX];

	holder_describe(&other->holder, what);
	if (other->changes && restore_domain(&restore, policy, &other->change))
		return error_set(error, -EIO, "the changes of %s cannot be reverted", what);
	/* no line in the log: a batch step holds every core of its job, and the steps of srun take theirs from it */
	if (other->holder.job_id == holder->job_id)
		log_debug("cpufreq policy%" PRIu32 ": taken from %s of the same job", policy, what);
	else
		log_info("cpufreq policy%" PRIu32 ": reverted the changes of %s and ended its lease", policy, what);
	return 0;
}

/* Reverts an earlier holder's changes and becomes the holder. The caller holds the domain's lock. */
static int take_locked(struct loan *loan, struct error *error)
{
	struct domain_hold before;
	int result = domain_file_read(loan->file, &before, error);

	if (!result && before.held && holder_is_of_this_boot(&before.holder))
		result = other_end(loan->policy, &before, &loan->hold.holder, error);
	if (!result)
		result = holder_lock(loan->file, &loan->hold.holder);
	if (!result)
		result = domain_file_write(loan->file, &loan->hold, loan->text);
	point_pass("taken");
	return result;
}

int loan_take(int node_directory, uint32_t policy, const struct holder *holder, struct loan *ret_loan,
              struct error *error)
{
	struct loan loan = {.policy = policy, .value = -1, .hold = {.held = true, .holder = *holder}};
	struct error why = {""};
	cleanup_close int file = domain_file_open(node_directory, policy, true, &why);
	int result = file < 0 ? file : files_lock(file, DOMAIN_FILE_WAIT_MS);

	loan.file = file;
	if (!result) {
		result = take_locked(&loan, &why);
		files_unlock(file);
	}
	if (result)
		return error_set(error, result, "cpufreq policy%" PRIu32 ": %s; not taken", policy,
		                 why.text[0] ? why.text : strerror(-result));
	*ret_loan = loan;
	take_descriptor(&file);
	return 0;
}

/* Opens scaling_max_freq, and notes in `change` what is found. Returns its descriptor or -errno. */
static int value_open(uint32_t policy, struct domain_change *change, bool is_cooled, struct error *error)
{
	cleanup_close int directory = cpufreq_open_policy(CPUFREQ_SYSFS, policy);
	cleanup_close int value = directory < 0 ? directory : cpufreq_open_max(directory, O_RDWR);
	char found[CPUFREQ_TEXT_MAX];
	uint32_t khz = 0;
	int result = value < 0 ? value : cpufreq_get_owner(value, &change->owner);

	if (!result)
		result = cpufreq_get(value, found);
	if (!result)
		result = cpufreq_read_text(directory, "scaling_driver", change->driver);
	if (!result)
		result = cpufreq_read_text(directory, "scaling_governor", change->governor);
	if (result)
		return error_set(error, result, "%s", strerror(-result));
	if (cpufreq_is_capped(directory, is_cooled))
		return error_set(error, -EAGAIN, "a cap holds the clock down, so the setting cannot be read");
	if (!cpufreq_khz_parse(found, &khz) || khz != change->use.high_khz)
		return error_set(error, -EAGAIN, "the value has changed since it was read");
	return take_descriptor(&value);
}

/* Opens scaling_max_freq and notes the change in the domain's file. The caller holds the domain's lock. */
static int note_locked(struct loan *loan, struct domain_hold *hold, bool is_cooled, struct error *error)
{
	cleanup_close int value = value_open(loan->policy, &hold->change, is_cooled, error);
	int result = value < 0 ? value : domain_file_write(loan->file, hold, loan->text);

	point_pass("noted");
	if (result)
		return error_set(error, result, "%s", strerror(-result));
	loan->hold = *hold;
	loan->value = take_descriptor(&value);
	return 0;
}

static int frequency_set(const struct loan *loan, uint32_t khz)
{
	char text[CPUFREQ_TEXT_MAX];
	int result;

	snprintf(text, sizeof(text), "%" PRIu32, khz);
	point_pass("change");
	result = cpufreq_put(loan->value, text);
	point_pass("changed");
	return result;
}

static int owner_set(const struct loan *loan, const struct cpufreq_owner *user)
{
	int result;

	point_pass("change");
	result = cpufreq_set_owner(loan->value, user);
	point_pass("changed");
	return result;
}

int loan_change(struct loan *loan, const struct domain_use *use, const struct cpufreq_owner *user, bool is_cooled,
                struct error *error)
{
	struct domain_hold hold = loan->hold;
	struct error why = {""};
	bool noted = false;
	int result = domain_file_lock_own(loan->file, loan->text);

	hold.changes = true;
	hold.change = (struct domain_change){.use = *use, .gives = user != NULL, .user = user ? user->uid : 0};
	if (!result) {
		result = note_locked(loan, &hold, is_cooled, &why);
		noted = !result;
		if (noted && user)
			result = owner_set(loan, user);
		files_unlock(loan->file);
	}
	if (!result || noted)
		return result;
	return error_set(error, result, "cpufreq policy%" PRIu32 "/" CPUFREQ_MAX ": %s; not changed", loan->policy,
	                 why.text[0] ? why.text : "another step has it now");
}

int loan_set(const struct loan *loan, uint32_t khz)
{
	const struct domain_use *use = &loan->hold.change.use;
	int result = -EINVAL;

	if (loan->file < 0)
		return -ESTALE;
	if (loan->hold.changes && khz >= use->low_khz && khz <= use->high_khz)
		result = domain_file_lock_own(loan->file, loan->text);
	if (result)
		return result;
	result = frequency_set(loan, khz);
	files_unlock(loan->file);
	return result;
}

bool loan_holds(const struct loan *loan)
{
	if (loan->file < 0 || domain_file_lock_own(loan->file, loan->text))
		return false;
	files_unlock(loan->file);
	return true;
}

int loan_end(struct loan *loan, struct error *error)
{
	struct restore restore = {.quiet = true};
	cleanup_close int file = loan->file;
	cleanup_close int value = loan->value;
	int result = file < 0 ? -ESTALE : domain_file_lock_own(file, loan->text);

	(void)value; /* closed when the scope ends */
	loan->file = loan->value = -1;
	if (result == -ESTALE) /* the step that took the domain has restored it */
		return 0;
	if (!result && loan->hold.changes)
		result = restore_domain(&restore, loan->policy, &loan->hold.change);
	if (!result)
		result = domain_file_write(file, NULL, NULL);
	point_pass("freed");
	return result ? error_set(error, result, "cpufreq policy%" PRIu32 ": not put back: %s; the epilog tries again",
	                          loan->policy, strerror(-result))
	              : 0;
}
