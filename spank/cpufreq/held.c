#include "spank/cpufreq/held.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/point.h"

void held_free(struct held *held)
{
	if (!held)
		return;
	for (int i = 0; i < CPUFREQ_FILE_COUNT; i++)
		if (held->files[i].descriptor >= 0)
			close(held->files[i].descriptor);
	if (held->directory >= 0)
		close(held->directory);
	if (held->descriptor >= 0)
		close(held->descriptor);
	free(held);
}

struct held *held_new(int node_directory, int cpus, uint32_t policy, int *ret_result, struct error *error)
{
	struct held *held = calloc(1, sizeof(*held));
	struct error why = {""};

	*ret_result = -ENOMEM;
	if (!held)
		return NULL;
	for (int i = 0; i < CPUFREQ_FILE_COUNT; i++)
		held->files[i].descriptor = -1;
	held->descriptor = -1;
	held->directory = cpufreq_open_policy(cpus, policy);
	if (held->directory >= 0)
		held->descriptor = claim_open(node_directory, policy, true, &why);
	if (held->descriptor >= 0)
		return held;
	*ret_result = held->directory < 0 ? held->directory : held->descriptor;
	if (why.text[0])
		error_set(error, *ret_result, "claim cpu/policy%u: %s; not claimed", policy, why.text);
	held_free(held);
	return NULL;
}

int held_write(struct held *held, const struct claim *claim)
{
	int result = claim_write(held->descriptor, claim, held->line);

	if (!result)
		held->claim = *claim;
	return result;
}

int held_lock(const struct held *held)
{
	int result = claim_lock_again(held->descriptor);

	if (result)
		return result;
	if (claim_is(held->descriptor, held->line))
		return 0;
	claim_unlock(held->descriptor);
	return -ESTALE;
}

void held_unlock(const struct held *held)
{
	claim_unlock(held->descriptor);
}

/* Returns why a change of a file that holds that must not be made, with *ret_result, or NULL. */
static const char *found_refusal(const struct held *held, const char *sysfs, const struct journal_change *change,
                                 const struct journal_found *found, int *ret_result)
{
	*ret_result = -EINVAL;
	if (change->file == CPUFREQ_GOVERNOR)
		return strcmp(found->value, "userspace") == 0 && strcmp(change->governor, "userspace") != 0
		               ? "the governor \"userspace\" is not left: the kernel would forget its speed"
		               : NULL;
	*ret_result = -EAGAIN;
	return change->low_khz && found->value[0] && cpufreq_is_capped(sysfs, held->directory)
	               ? "a cap holds the clock, so that what was set cannot be read"
	               : NULL;
}

int held_look(const struct held *held, const char *sysfs, const struct journal_change *change,
              struct journal_found *ret_found, struct error *error)
{
	cleanup_close int descriptor = cpufreq_open_file(held->directory, change->file, O_RDWR);
	int result = descriptor < 0 ? descriptor : cpufreq_get(descriptor, ret_found->value);
	const char *why;

	if (!result)
		result = cpufreq_get_owner(descriptor, &ret_found->owner);
	if (result)
		return error_set(error, result, "%s", strerror(-result));
	if (change->file == CPUFREQ_SETSPEED && strcmp(ret_found->value, CPUFREQ_UNSUPPORTED) == 0)
		ret_found->value[0] = '\0';
	why = found_refusal(held, sysfs, change, ret_found, &result);
	return why ? error_set(error, result, "%s", why) : take_descriptor(&descriptor);
}

/* Of what was recorded, or the found one. */
static bool is_recorded(const struct held_file *file, const char *value)
{
	const struct journal_change *change = &file->change;
	uint32_t khz;

	if (file->descriptor < 0 || (!change->governor[0] && !change->low_khz))
		return false;
	if (change->file == CPUFREQ_GOVERNOR)
		return strcmp(value, change->governor) == 0 || strcmp(value, file->found.value) == 0;
	if (!cpufreq_khz_parse(value, &khz))
		return false;
	return (khz >= change->low_khz && khz <= change->high_khz) || strcmp(value, file->found.value) == 0;
}

int held_set(const struct held *held, enum cpufreq_file file, const char *value)
{
	const struct held_file *recorded = &held->files[file];
	int result = is_recorded(recorded, value) ? held_lock(held) : -EINVAL;

	if (result)
		return result;
	point_pass("change");
	result = cpufreq_put(recorded->descriptor, value);
	point_pass("changed");
	held_unlock(held);
	return result;
}

int held_give(const struct held *held, enum cpufreq_file file)
{
	const struct held_file *recorded = &held->files[file];
	int result = recorded->descriptor >= 0 && recorded->change.gives ? held_lock(held) : -EINVAL;

	if (result)
		return result;
	point_pass("change");
	result = cpufreq_set_owner(recorded->descriptor, &recorded->change.owner);
	point_pass("changed");
	held_unlock(held);
	return result;
}
