/*
 * Energy: one accumulator per node that never wraps, and windows cut out of it.
 *
 * Each process that samples (any step's sampler, the prolog, the epilog) adds what the counters advanced since the
 * newest sample in the file. Jobs and steps take differences of it, so nothing is counted twice. An interval in which a
 * counter may have gone round unseen is counted as a gap and adds nothing.
 *
 * The lock only keeps two processes from writing at once. No figure depends on getting it: the file is renamed whole,
 * and its sums plus what the counters advanced since are the sums of now, whether they are written or not.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/machine/rapl.h"

#define ENERGY_BOOT_ID_MAX 40
#define ENERGY_FILE_MAX    (64 * 1024)

/* What is wrong with a zone now: what it used meanwhile is in no sum, and each time it began was a gap. */
enum energy_problem {
	ENERGY_FINE,
	ENERGY_DOUBTED,  /* it advanced by more than it can; a counter that began anew does that once */
	ENERGY_VANISHED, /* it could not be read */
	ENERGY_STOPPED,  /* a package or a platform that has used nothing for ten seconds */
	ENERGY_NONSENSE, /* beyond its range, or impossible twice in a row */
	ENERGY_MIRRORED, /* it shows the counter of another zone, which counts: no gap, nothing is missing */
	ENERGY_PROBLEM_COUNT
};

struct energy_zone {
	char name[RAPL_NAME_MAX];
	enum rapl_kind kind;
	uint32_t instance;
	uint64_t counter_uj; /* the counter at the last sample */
	uint64_t used_uj;    /* what it advanced since the accumulator, or the window, began */
	uint32_t gaps;       /* intervals that are missing from used_uj */
	uint64_t still_ns;   /* for how long it has not advanced */
	enum energy_problem problem;
};

struct energy_snapshot {
	char boot_id[ENERGY_BOOT_ID_MAX];
	char source[16];   /* rapl_source() */
	uint64_t begun_ns; /* CLOCK_MONOTONIC when the accumulator began: with boot_id, which accumulator it is */
	uint64_t at_ns;    /* CLOCK_MONOTONIC of the sample: its last counter had been read */
	uint64_t took_ns;  /* the counters were being read for so long before at_ns */
	uint64_t wrap_ns;  /* the shortest time in which a zone can go round */
	uint32_t zone_count;
	struct energy_zone zone[RAPL_ZONES_MAX];
};

/* The energy between two snapshots; the zones as at its end. */
struct energy_window {
	char source[16];
	bool has[RAPL_KIND_COUNT];
	uint64_t kind_uj[RAPL_KIND_COUNT]; /* summed over instances */
	uint32_t gaps;                     /* of the zone that has most */
	uint32_t mirrored;                 /* package zones that show another one's counter */
	uint32_t zone_count;
	struct energy_zone zone[RAPL_ZONES_MAX];
};

/* A caller's demand on a snapshot. */
struct energy_need {
	uint64_t young_ns; /* a file younger than that is good enough: nothing is written, no lock is taken */
	bool exact;        /* the counters are read in any case */
};

/* The file as this process has written it last: as long as it is that one, it need not be parsed. {0} at first. */
struct energy_memory {
	struct energy_file {
		uint64_t inode;
		int64_t changed_s, changed_ns;
	} file;
	struct energy_snapshot snapshot;
};

/*
 * Samples: reads the zones and brings <directory>/energy up to date. Where another process has the lock
 * <directory>/energy.lock, or the file is young, *ret_snapshot is right all the same and merely not written. A file
 * that is absent, damaged or of another boot is begun anew, which counts as a gap. Returns 0, -ENODEV or -errno.
 */
int energy_update(int directory, const struct rapl *rapl, const struct energy_need *need, struct energy_memory *memory,
                  struct energy_snapshot *ret_snapshot, struct error *error);

/* Samples once, exactly: opens the zones for that. */
int energy_sample(int directory, struct energy_snapshot *ret_snapshot, struct error *error);

/*
 * Pure: adds one sample to the accumulator, which is begun where zone_count is 0. now_ns: when its counters had been
 * read, none of them before at_ns. A counter may have been read took_ns before at_ns, so elapsed is that more. A zone
 * of power P and range R that was not looked at for R/P or longer has a gap, and so has one that advanced by more than
 * it can have used (its counter began anew), that could not be read, reads more than its range, or stands still.
 */
void energy_add(struct energy_snapshot *accumulator, const struct rapl_zone zones[], size_t count, uint64_t now_ns);

/* What lies between two snapshots. If to belongs to another accumulator than from: what it has, and one gap more. */
void energy_between(const struct energy_snapshot *from, const struct energy_snapshot *to,
                    struct energy_window *ret_window);

/* The kinds that make up a node's energy: packages + dram, or psys where there is no package. */
bool energy_kind_counts(const bool has[RAPL_KIND_COUNT], enum rapl_kind kind);

/* The sum over those kinds: the whole node's energy in the window. */
uint64_t energy_window_uj(const struct energy_window *window);

/* "vanished", "stopped", "nonsense"; NULL where the zone counts. */
const char *energy_problem_name(enum energy_problem problem);

/* As JSON; NULL only without memory. Zones are rows of the fields of a zone. */
json_t *energy_to_json(const struct energy_snapshot *snapshot);

/* Strict. Returns 0 or -EINVAL, *ret_snapshot untouched. */
int energy_from_json(const json_t *json, struct energy_snapshot *ret_snapshot);
