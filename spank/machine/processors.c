#include "spank/machine/processors.h"

#include "spank/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU_DIRECTORY "/sys/devices/system/cpu"

int processors_parse(const char *list, struct processors *ret_processors)
{
	struct processors processors = {0};

	while (*list) {
		char from[5], to[5]; /* digits of PROCESSORS_MAX */
		int length = 0, numbers = sscanf(list, "%4[0-9]%n-%4[0-9]%n", from, &length, to, &length);
		unsigned long first, last;

		if (numbers < 1)
			return -EINVAL;
		first = strtoul(from, NULL, 10);
		last = numbers == 2 ? strtoul(to, NULL, 10) : first;
		list += length;
		if (last < first || last >= PROCESSORS_MAX || (*list && *list != ',') || (*list == ',' && !list[1]))
			return -EINVAL;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			processors.word[cpu / 64] |= UINT64_C(1) << cpu % 64;
		list += *list == ',';
	}
	*ret_processors = processors;
	return 0;
}

bool processors_number(uint32_t cpu, const char *file, uint64_t *ret_number)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), CPU_DIRECTORY "/cpu%u/%s", cpu, file);
	return proc_number_read(AT_FDCWD, path, ret_number);
}

static int32_t id_read(uint32_t cpu, const char *file, int32_t missing)
{
	uint64_t id;

	return processors_number(cpu, file, &id) && id <= INT32_MAX ? (int32_t)id : missing;
}

int32_t processors_package(uint32_t cpu)
{
	return id_read(cpu, "topology/physical_package_id", -1);
}

bool processors_is_first_thread(uint32_t cpu)
{
	char path[PATH_MAX], text[PROCESSORS_TEXT_MAX];

	snprintf(path, sizeof(path), CPU_DIRECTORY "/cpu%u/topology/thread_siblings_list", cpu);
	return proc_line_read(AT_FDCWD, path, text, sizeof(text)) < 0 || strtoul(text, NULL, 10) == cpu;
}

int processors_online(struct processors *ret_processors)
{
	char text[PROCESSORS_TEXT_MAX];
	ssize_t length = proc_line_read(AT_FDCWD, CPU_DIRECTORY "/online", text, sizeof(text));

	return length < 0 ? (int)length : processors_parse(text, ret_processors);
}

static struct package *package_of(struct packages *packages, int32_t id, int32_t die)
{
	for (uint32_t i = 0; i < packages->count; i++)
		if (packages->package[i].id == id && packages->package[i].die == die)
			return &packages->package[i];
	if (packages->count == PACKAGES_MAX)
		return NULL;
	packages->package[packages->count] = (struct package){.id = id, .die = die};
	return &packages->package[packages->count++];
}

int packages_read(const char *list, const char *usable, struct packages *ret_packages)
{
	struct processors online, own, counted;
	struct packages packages = {0};
	int result = processors_online(&online);

	if (!result)
		result = processors_parse(list, &own);
	if (!result)
		result = processors_parse(usable, &counted);
	for (uint32_t cpu = 0; !result && cpu < PROCESSORS_MAX; cpu++) {
		struct package *package;

		if (!processors_has(&online, cpu) && processors_has(&own, cpu))
			return -EINVAL;
		if (!processors_has(&online, cpu))
			continue;
		package = package_of(&packages, processors_package(cpu), id_read(cpu, "topology/die_id", 0));
		if (!package)
			return -E2BIG;
		package->cpus += !usable[0] || processors_has(&counted, cpu) || processors_has(&own, cpu);
		package->own += processors_has(&own, cpu);
	}
	if (!result)
		*ret_packages = packages;
	return result;
}

bool packages_sum(const struct packages *packages, int32_t id, int32_t die, struct package *ret_package)
{
	struct package sum = {.id = id, .die = die};

	for (uint32_t i = 0; i < packages->count; i++) {
		const struct package *package = &packages->package[i];

		if (package->id != id || (die >= 0 && package->die != die))
			continue;
		sum.cpus += package->cpus;
		sum.own += package->own;
	}
	if (sum.cpus)
		*ret_package = sum;
	return sum.cpus > 0;
}
