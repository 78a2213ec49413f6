#include "spank/cpufreq/cpufreq.h"

#include "spank/base/cleanup.h"
#include "spank/base/point.h"
#include "spank/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINK_TEXT "../cpufreq/"

/* Accepts digits only and no leading zero, so that a number has one spelling: the path made of it is the one read. */
static bool number_parse(const char *text, uint32_t limit, uint32_t *ret_number)
{
	uint64_t number;

	if ((text[0] == '0' && text[1]) || !text_number(text, limit - 1, &number))
		return false;
	*ret_number = (uint32_t)number;
	return true;
}

int cpufreq_policy_number(const char *name)
{
	uint32_t policy;

	if (strncmp(name, "policy", 6) != 0 || !number_parse(name + 6, CPUFREQ_POLICIES, &policy))
		return -EBADMSG;
	return (int)policy;
}

int cpufreq_policy_of(const char *sysfs, uint32_t cpu)
{
	char path[PATH_MAX], target[64];
	ssize_t length;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/cpufreq", sysfs, cpu);
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return errno == ENOENT || errno == EINVAL ? -ENODEV : -errno;
	target[length] = '\0';
	return strncmp(target, LINK_TEXT, strlen(LINK_TEXT)) != 0 ? -EBADMSG
	                                                          : cpufreq_policy_number(target + strlen(LINK_TEXT));
}

int cpufreq_open_policy(const char *sysfs, uint32_t policy)
{
	char path[PATH_MAX];
	int directory;

	if (policy >= CPUFREQ_POLICIES)
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpufreq/policy%u", sysfs, policy);
	directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return directory < 0 ? -errno : directory;
}

int cpufreq_open_max(int policy_directory, int flags)
{
	cleanup_close int descriptor =
	        openat(policy_directory, CPUFREQ_MAX, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	if (descriptor < 0 || fstat(descriptor, &status))
		return -errno;
	return S_ISREG(status.st_mode) ? take_descriptor(&descriptor) : -EINVAL;
}

int cpufreq_get(int descriptor, char text[CPUFREQ_TEXT_MAX])
{
	char line[CPUFREQ_TEXT_MAX + 1];
	ssize_t got = pread(descriptor, line, CPUFREQ_TEXT_MAX, 0);
	size_t length;

	if (got < 0)
		return -errno;
	line[got] = '\0';
	length = strcspn(line, "\n");
	if (length == 0 || length >= CPUFREQ_TEXT_MAX)
		return -EBADMSG;
	memcpy(text, line, length);
	text[length] = '\0';
	return 0;
}

int cpufreq_put(int descriptor, const char *text)
{
	char line[CPUFREQ_TEXT_MAX + 1];
	int length = snprintf(line, sizeof(line), "%s\n", text);
	ssize_t done;

	if (length >= (int)sizeof(line))
		return -EINVAL;
	done = pwrite(descriptor, line, (size_t)length, 0);
	if (done < 0)
		return -errno;
	return done == length ? 0 : -EIO;
}

bool cpufreq_khz_parse(const char *text, uint32_t *ret_khz)
{
	return text[0] != '0' && number_parse(text, INT_MAX, ret_khz);
}

int cpufreq_read_text(int directory, const char *name, char text[CPUFREQ_TEXT_MAX])
{
	cleanup_close int descriptor = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return descriptor < 0 ? -errno : cpufreq_get(descriptor, text);
}

int cpufreq_read_khz(int policy_directory, const char *name, uint32_t *ret_khz)
{
	char text[CPUFREQ_TEXT_MAX];
	int result = cpufreq_read_text(policy_directory, name, text);

	if (result)
		return result;
	return cpufreq_khz_parse(text, ret_khz) ? 0 : -EBADMSG;
}

int cpufreq_get_owner(int descriptor, struct cpufreq_owner *ret_owner)
{
	struct stat status;

	if (fstat(descriptor, &status))
		return -errno;
	*ret_owner = (struct cpufreq_owner){status.st_uid, status.st_gid, status.st_mode & 07777};
	return 0;
}

int cpufreq_set_owner(int descriptor, const struct cpufreq_owner *owner)
{
	if (fchown(descriptor, owner->uid, owner->gid))
		return -errno;
	point_pass("owned");
	return fchmod(descriptor, owner->mode) ? -errno : 0;
}

/* Returns true if an active cooling device acts on cpufreq: of type "Processor" (ACPI) or like "cpufreq-cpu0". */
static bool is_cooling(int devices, const char *name)
{
	char path[NAME_MAX + 16], text[CPUFREQ_TEXT_MAX];

	snprintf(path, sizeof(path), "%s/type", name);
	if (cpufreq_read_text(devices, path, text) ||
	    (strcmp(text, "Processor") != 0 && strncmp(text, "cpufreq-", 8) != 0 &&
	     strncmp(text, "thermal-cpufreq-", 16) != 0))
		return false;
	snprintf(path, sizeof(path), "%s/cur_state", name);
	return cpufreq_read_text(devices, path, text) == 0 && strcmp(text, "0") != 0;
}

bool cpufreq_is_cooled(const char *sysfs)
{
	cleanup_closedir DIR *entries = NULL;
	const struct dirent *entry;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/devices/virtual/thermal", sysfs);
	entries = opendir(path);
	while (entries && (entry = readdir(entries)))
		if (strncmp(entry->d_name, "cooling_device", 14) == 0 && is_cooling(dirfd(entries), entry->d_name))
			return true;
	return false;
}

bool cpufreq_is_capped(int policy_directory, bool is_cooled)
{
	uint32_t now, most, firmware;

	if (cpufreq_read_khz(policy_directory, "scaling_max_freq", &now) ||
	    cpufreq_read_khz(policy_directory, "cpuinfo_max_freq", &most) || now >= most)
		return false;
	if (cpufreq_read_khz(policy_directory, "bios_limit", &firmware) == 0 && firmware < most && now >= firmware)
		return true;
	return is_cooled;
}
