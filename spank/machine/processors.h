/*
 * Processors: this node's processors as the kernel numbers them, and their packages.
 *
 * For figures by package (energy, throttling) of jobs that are allocated cores. Reads sysfs, so that prolog and epilog
 * need no hwloc.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PROCESSORS_MAX      4096
#define PROCESSORS_TEXT_MAX 1024 /* bytes of a list of processors */
#define PACKAGES_MAX        64

/* A set of processors, a bit for each. */
struct processors {
	uint64_t word[PROCESSORS_MAX / 64];
};

/* One die of a package (most packages have one). */
struct package {
	int32_t id; /* the kernel's physical_package_id */
	int32_t die;
	uint32_t cpus; /* processors that jobs can have */
	uint32_t own;  /* processors of the job */
};

struct packages {
	uint32_t count;
	struct package package[PACKAGES_MAX];
};

/* Reads a list in the kernel's notation, "0-3,8". Returns 0 or -EINVAL. */
int processors_parse(const char *list, struct processors *ret_processors);

/* Returns true if the set contains the processor. */
static inline bool processors_has(const struct processors *processors, uint32_t cpu)
{
	return cpu < PROCESSORS_MAX && (processors->word[cpu / 64] >> cpu % 64 & 1);
}

/* Reads a number from a file in the processor's directory; false if there is none. */
bool processors_number(uint32_t cpu, const char *file, uint64_t *ret_number);

/* Returns the processor's package, -1 if unknown. */
int32_t processors_package(uint32_t cpu);

/* Returns true if the processor is the first hardware thread of its core. */
bool processors_is_first_thread(uint32_t cpu);

/* Reads which processors are online. Returns 0 or -errno. */
int processors_online(struct processors *ret_processors);

/*
 * Counts by die, in order of appearance, the online processors that jobs can have. list: the job's processors, "" if
 * unknown (`own` is 0 everywhere). usable: processors that jobs can have, "" for all. Returns 0 or -errno; -EINVAL if a
 * list is malformed or the job has a processor that is offline.
 */
int packages_read(const char *list, const char *usable, struct packages *ret_packages);

/* Sums the processors of one die of a package, or with die -1 of all its dies. Returns false if there are none. */
bool packages_sum(const struct packages *packages, int32_t id, int32_t die, struct package *ret_package);
