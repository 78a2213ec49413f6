/*
 * This node's processors as the kernel numbers them, and the packages that they are in.
 *
 * For what is counted by package (energy, throttling) while jobs are allocated cores. Read from sysfs, so that prolog
 * and epilog need no hwloc.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PROCESSORS_MAX      4096
#define PROCESSORS_TEXT_MAX 1024 /* bytes of a list of processors */
#define PACKAGES_MAX        64

struct processors {
	uint64_t word[PROCESSORS_MAX / 64];
};

/* One die of a package (most packages have one), and how many of its processors are the job's. */
struct package {
	int32_t id; /* the kernel's physical_package_id */
	int32_t die;
	uint32_t cpus; /* that jobs can have */
	uint32_t own;
};

struct packages {
	uint32_t count;
	struct package package[PACKAGES_MAX];
};

/* Reads a list in the kernel's notation, "0-3,8". Returns 0 or -EINVAL. */
int processors_parse(const char *list, struct processors *ret_processors);

static inline bool processors_has(const struct processors *processors, uint32_t cpu)
{
	return cpu < PROCESSORS_MAX && (processors->word[cpu / 64] >> cpu % 64 & 1);
}

/* Reads a number from a file in the processor's directory; false if there is none. */
bool processors_number(uint32_t cpu, const char *file, uint64_t *ret_number);

/* The package that a processor is in, -1: not known. */
int32_t processors_package(uint32_t cpu);

/* Whether it is the first of the hardware threads of its core. */
bool processors_is_first_thread(uint32_t cpu);

/* The processors that are online. Returns 0 or -errno. */
int processors_online(struct processors *ret_processors);

/*
 * Counts by die, in order of appearance, the processors that are online and that jobs can have. list: the job's, "" for
 * not known (own is 0 everywhere). usable: those that jobs can have, "" for all. Returns 0 or -errno; -EINVAL where a
 * list is malformed, or the job's names a processor that is not online.
 */
int packages_read(const char *list, const char *usable, struct packages *ret_packages);

/* Adds up a package's processors: of one die, or with die -1 of all. Returns false where there are none. */
bool packages_sum(const struct packages *packages, int32_t id, int32_t die, struct package *ret_package);
