/*
 * Energy: one accumulator per node that never wraps, and windows cut out of it.
 *
 * Each sampling process (the sampler of a step, the prolog, the epilog) adds what the counters advanced since the
 * newest sample in the file. Jobs and steps take differences, so that nothing is counted twice. An interval in which a
 * counter may have wrapped unseen counts as a gap and adds nothing.
 *
 * The lock only keeps two processes from writing at once. No figure depends on it: the file is renamed whole, and its
 * sums plus the advance of the counters are the current sums, whether they are written or not.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/machine/rapl.h"

#define ENERGY_BOOT_ID_MAX 40
#define ENERGY_FILE_MAX    (64 * 1024)

/* State of a zone. Energy used during a problem is in no sum, and each begin of a problem is a gap. */
enum energy_problem {
	ENERGY_FINE,
	ENERGY_DOUBTED,  /* advanced by more than is possible, as a restarted counter does once */
	ENERGY_VANISHED, /* could not be read */
	ENERGY_STOPPED,  /* a package or a platform that used nothing for ten seconds */
	ENERGY_NONSENSE, /* beyond its range, or impossible twice in a row */
	ENERGY_MIRRORED, /* shows the counter of another zone, which counts: no gap */
	ENERGY_PROBLEM_COUNT
};

/* One zone of an accumulator, a snapshot or a window. */
struct energy_zone {
	char name[RAPL_NAME_MAX];
	enum rapl_kind kind;
	uint32_t instance;
	uint64_t counter_uj; /* counter at the last sample */
	uint64_t used_uj;    /* advance since the accumulator, or the window, began */
	uint32_t gaps;       /* intervals that are missing from used_uj */
	uint64_t still_ns;   /* time for which the counter has stood still */
	enum energy_problem problem;
};

/* The accumulator at one moment. */
struct energy_snapshot {
	char boot_id[ENERGY_BOOT_ID_MAX];
	char source[16];   /* from rapl_source */
	uint64_t begun_ns; /* CLOCK_MONOTONIC when the accumulator began; identifies it together with boot_id */
	uint64_t at_ns;    /* CLOCK_MONOTONIC when the last counter of the sample had been read */
	uint64_t took_ns;  /* time before at_ns in which the counters were read */
	uint64_t wrap_ns;  /* shortest time in which a zone can wrap */
	uint32_t zone_count;
	struct energy_zone zone[RAPL_ZONES_MAX];
};

/* Energy between two snapshots. The zones are as at its end, with used_uj and gaps of the window. */
struct energy_window {
	char source[16];
	bool has[RAPL_KIND_COUNT];
	uint64_t kind_uj[RAPL_KIND_COUNT]; /* sum over instances */
	uint32_t gaps;                     /* gaps of the zone with most */
	uint32_t mirrored;                 /* package zones that show another zone's counter */
	uint32_t zone_count;
	struct energy_zone zone[RAPL_ZONES_MAX];
};

/* A caller's demands on a snapshot. */
struct energy_need {
	uint64_t young_ns; /* a file younger than this will do: nothing is written, no lock is taken */
	bool exact;        /* read the counters in any case */
};

/* The file as this process wrote or read it last, so that it need not parse it again. {0} at first. */
struct energy_memory {
	struct energy_file {
		uint64_t inode;
		int64_t changed_s, changed_ns;
	} file;
	struct energy_snapshot snapshot;
};

/*
 * Takes a sample: reads the zones and updates <directory>/energy. If another process holds <directory>/energy.lock, or
 * the file is young, *ret_snapshot is right nevertheless, but not written. A file that is absent, damaged or of another
 * boot is replaced, which counts as a gap. Returns 0, -ENODEV or -errno.
 */
int energy_update(int directory, const struct rapl *rapl, const struct energy_need *need, struct energy_memory *memory,
                  struct energy_snapshot *ret_snapshot, struct error *error);

/* Takes one exact sample; opens and closes the zones for it. Returns as energy_update. */
int energy_sample(int directory, struct energy_snapshot *ret_snapshot, struct error *error);

/*
 * Adds a sample to the accumulator; begins the accumulator if zone_count is 0. now_ns: when all counters had been read,
 * none of them before at_ns. Since a counter may have been read took_ns before at_ns, the elapsed time is longer by
 * that. Pure.
 *
 * These are gaps of a zone with power P and range R: no sample for R/P or longer; an impossible advance (the counter
 * restarted); a failed reading; a reading beyond the range; a counter that stands still.
 */
void energy_add(struct energy_snapshot *accumulator, const struct rapl_zone zones[], size_t count, uint64_t now_ns);

/*
 * Returns the energy between two snapshots. If they are of two accumulators, the result is all of `to` and one gap
 * more.
 */
void energy_between(const struct energy_snapshot *from, const struct energy_snapshot *to,
                    struct energy_window *ret_window);

/* Returns true if the kind is part of a node's energy: packages and dram, or psys if there is no package. */
bool energy_kind_counts(const bool has[RAPL_KIND_COUNT], enum rapl_kind kind);

/* Returns the whole node's energy in the window. */
uint64_t energy_window_uj(const struct energy_window *window);

/* Returns "vanished", "stopped" or "nonsense"; NULL if the zone counts or is only doubted or mirrored. */
const char *energy_problem_name(enum energy_problem problem);

/* Returns the snapshot as JSON, with a row per zone; NULL only without memory. */
json_t *energy_to_json(const struct energy_snapshot *snapshot);

/* Parses that JSON strictly. Returns 0, or -EINVAL with *ret_snapshot untouched. */
int energy_from_json(const json_t *json, struct energy_snapshot *ret_snapshot);
