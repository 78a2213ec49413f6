/*
 * The stats segment: how a rank tells root how long it waited.
 *
 * slurmstepd makes one sealed memfd per step and node, the ranks of the step write their slots, root reads them with
 * pread. Fixed width, native byte order, never shrinks
 * or grows, owned by the job's user: to root every number in it is a claim.
 *
 *     offset 0                       struct mpiwait_header
 *     MPIWAIT_WORDS_OFFSET + c*8     what a thread on CPU c asks of its core's frequency (lease.h), c < MPIWAIT_WORDS
 *     MPIWAIT_SLOTS_OFFSET + i*size  struct mpiwait_slot i, i < header.slot_count
 *     mpiwait_sizes_offset(n, i)     struct mpiwait_sizes of slot i, n = header.slot_count; written under profile only
 *
 * One rank owns one slot; one thread of that rank owns one lane and is its only writer, so that plain 8-byte stores
 * do; the sizes are counted by all of them, atomically. All times are nanoseconds. Rows of mpi_calls.def are only ever
 * appended: a row's index is part of this layout.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MPIWAIT_MAGIC        UINT64_C(0x315441545357504d) /* "MPWSTAT1" in memory */
#define MPIWAIT_VERSION      8
#define MPIWAIT_LANES        8u   /* threads of one rank that are told apart */
#define MPIWAIT_RUNGS        8u   /* room for enum mpiwait_rung */
#define MPIWAIT_CALLS        256u /* room for the rows of mpi_calls.def */
#define MPIWAIT_SIZES        40u  /* classes of message sizes: 0 bytes, then by powers of two, the last one open */
#define MPIWAIT_SIZES_ROOM   64u  /* the last one is what is counted there and beyond */
#define MPIWAIT_PHASES       16u  /* phases of the program that a rank tells apart */
#define MPIWAIT_PHASE_NONE   0u   /* the place of what is in no phase; that of the phase level[i] is i + 1 */
#define MPIWAIT_PHASE_OTHER  (MPIWAIT_PHASES + 1u)
#define MPIWAIT_PHASE_PLACES (MPIWAIT_PHASES + 2u)
#define MPIWAIT_SITES        64u /* places in the program that a rank tells apart; one more is for all others */
#define MPIWAIT_MODULES      16u /* programs and libraries that these are in */
#define MPIWAIT_MODULE_NAME  48u
#define MPIWAIT_BUILD_ID     20u
#define MPIWAIT_WORDS        16384u /* CPUs that may ask for a frequency */
#define MPIWAIT_WORDS_OFFSET 4096u
#define MPIWAIT_SLOTS_OFFSET (MPIWAIT_WORDS_OFFSET + 8u * MPIWAIT_WORDS)
#define MPIWAIT_SLOTS_MIN    64u
#define MPIWAIT_SLOTS_MAX    1024u

/* Both halves are built by one compiler, so that root knows what the program's half can do. */
#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 9)
#define MPIWAIT_HAS_WAITPKG 1
#else
#define MPIWAIT_HAS_WAITPKG 0
#endif
#ifdef __x86_64__
#define MPIWAIT_HAS_MWAITX 1
#else
#define MPIWAIT_HAS_MWAITX 0
#endif

enum mpiwait_rung {
#define RUNG(constant, ...) MPIWAIT_RUNG_##constant,
#include "preload/contract/rungs.def"
	MPIWAIT_RUNG_COUNT
};

/* The rungs that this release can do where the node can; the others are names that policies may use already. */
enum {
	MPIWAIT_RUNGS_BUILT = 0
#define RUNG(constant, name, built, ...) | (built) << MPIWAIT_RUNG_##constant
#include "preload/contract/rungs.def"
};

/* Where the other rank of a point-to-point call is: on another node, on this one, or that is not known. */
enum mpiwait_place { MPIWAIT_FAR, MPIWAIT_NEAR, MPIWAIT_PLACES, MPIWAIT_NOWHERE = MPIWAIT_PLACES };

enum mpiwait_family { MPIWAIT_FAMILY_UNKNOWN, MPIWAIT_FAMILY_OPENMPI, MPIWAIT_FAMILY_MPICH, MPIWAIT_FAMILY_ABI };

enum mpiwait_state { MPIWAIT_SLOT_FREE, MPIWAIT_SLOT_CLAIMED, MPIWAIT_SLOT_RUNNING, MPIWAIT_SLOT_FINALIZED };

/* What became of a node's files of csv=. NONE: no rank came to write them. */
enum mpiwait_csv {
	MPIWAIT_CSV_NONE,
	MPIWAIT_CSV_WRITTEN,
	MPIWAIT_CSV_NO_DIRECTORY,
	MPIWAIT_CSV_NOT_ALLOWED,
	MPIWAIT_CSV_NO_SPACE,
	MPIWAIT_CSV_FAILED, /* anything else */
	MPIWAIT_CSV_OUTCOMES
};

/* Bits of mpiwait_slot.hooks: where idle calls of waits came from. */
#define MPIWAIT_HOOK_OPAL  (1u << 0) /* opal_progress with sched_yield inside */
#define MPIWAIT_HOOK_YIELD (1u << 1) /* sched_yield alone */
#define MPIWAIT_HOOK_UCP   (1u << 2) /* ucp_worker_progress */
#define MPIWAIT_HOOK_LOOP  (1u << 3) /* our own loop before the call, where the runtime has no idle call */
#define MPIWAIT_HOOK_OFI   (1u << 4) /* reads of libfabric's queues and counters */
#define MPIWAIT_HOOKS      5u

/* Bits of mpiwait_slot.flags: why a rank was passed through, wholly or in part. */
#define MPIWAIT_FLAG_TWO_MPIS     (1u << 0) /* more than one provider of PMPI_Init, or a translator before it */
#define MPIWAIT_FLAG_NO_HOOK      (1u << 1) /* this MPI has no idle hook that we know */
#define MPIWAIT_FLAG_LANES_FULL   (1u << 2) /* threads beyond MPIWAIT_LANES are not counted */
#define MPIWAIT_FLAG_SHARED_CORES (1u << 3) /* the spin phase gives the core away */
#define MPIWAIT_FLAG_LOCKED       (1u << 4) /* several threads: waits lacked naps, under the MPI's lock */
#define MPIWAIT_FLAG_NO_EVENT     (1u << 5) /* nothing wakes this rank: the policy's event rung is not used (any more) */
#define MPIWAIT_FLAG_PREWAITS     (1u << 6) /* loops before some calls, whose waits made no idle call */
#define MPIWAIT_FLAG_NO_GRANT     (1u << 7) /* pstate was configured, and what was granted is not here */
#define MPIWAIT_FLAG_PRESLEEPS    (1u << 8) /* sleeps before some collectives, whose waits made no idle call */

struct mpiwait_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_size; /* sizeof(struct mpiwait_header) */
	uint32_t slot_size;   /* sizeof(struct mpiwait_slot) */
	uint32_t slot_count;
	uint32_t claimed;    /* atomic: slots asked for; more than slot_count: the rest found none */
	uint32_t sizes_size; /* sizeof(struct mpiwait_sizes) */
	uint32_t alive;      /* atomic, with csv=: ranks that have begun and not left MPI */
	uint32_t left;       /* atomic, with csv=: ranks that have left */
	uint32_t csv;        /* enum mpiwait_csv: what became of the files that the latest rank wrote */
	uint32_t reserved[5];
};

/* One MPI function, its large-count variant included. */
struct mpiwait_call_stats {
	uint64_t calls;         /* outermost calls, whether they waited or not */
	uint64_t waits;         /* calls that found nothing to do for 64 polls or more */
	uint64_t wait_ns;       /* time in those, from the 64th idle poll to the last, but not stopped */
	uint64_t longest_ns;    /* the longest of them */
	uint64_t time_ns;       /* entry to exit, under profile only */
	uint64_t burned_ns;     /* entry to exit of the long calls that were looked at, made no idle call ... */
	uint64_t burned_cpu_ns; /* ... and kept the CPU busy for more than a quarter of that: so long */
	uint64_t bytes;         /* handed to the calls that succeeded, under profile only */
};

/* The waits of a phase of the program, under profile only. */
struct mpiwait_phase_stats {
	uint64_t waits;
	uint64_t wait_ns;
};

struct mpiwait_lane {
	uint32_t tid;
	uint32_t open_call;     /* row index + 1 of the call that waits now, 0: none */
	uint64_t open_since_ns; /* first clock reading of that wait, arbitrary epoch */
	uint64_t open_last_ns;  /* the latest one, same epoch: a killed rank's last wait is the difference */
	uint64_t idle_polls;
	uint64_t late;           /* waits by forecast that ended in a nap; without an account: naps past the budget */
	uint64_t late_ns;        /* charged by the clock; without an account: by how much they did */
	uint64_t sampled_ns;     /* part of the waits beyond their first millisecond ... */
	uint64_t sampled_cpu_ns; /* ... and the thread's CPU time in that part */
	uint64_t hook_polls[MPIWAIT_HOOKS]; /* idle polls looked at, by bit of MPIWAIT_HOOK_* */
	uint64_t transitions;               /* of the core's frequency, both ways */
	uint64_t event_wakes;               /* sleeps that a message ended */
	uint64_t event_lost;                /* sleeps that should have been, and ran into their timeout */
	uint64_t naps[MPIWAIT_RUNGS];
	uint64_t asleep_ns[MPIWAIT_RUNGS];        /* clock time inside the rung; of PSTATE: at low frequency, polling */
	uint64_t place_bytes[MPIWAIT_PLACES + 1]; /* handed to calls with a peer at that place, under profile only */
	uint64_t forecasts;                       /* of all naps: those that ended at or before a forecast landing */
	uint64_t early;                           /* waits after such naps that found nothing yet ... */
	uint64_t early_ns;                        /* ... and how long was polled then */
	uint64_t foreseen;                        /* waits that there was such a nap in */
	uint64_t unforeseen;                      /* those of 100 us and more, in no look, that had none */
	uint64_t threads_cpu_ns; /* in sampled_ns, of the first lane: the process's other threads' CPU time */
	uint64_t cost_slept_ns;  /* periods of the calls slept in that were compared with calls looked at: their sum */
	int64_t cost_more_ns;    /* by how much these periods were longer than those of calls looked at, in all */
	uint64_t cost_variance_us; /* variance of cost_more_ns, in square microseconds */
	uint64_t cost_windows;     /* looks of the job in which calls that are compared were looked at */
	uint64_t look;             /* what looks_tell says of the thread's looks (looks.h), 0: it has found none yet */
	uint64_t reserved_places[2];
	struct mpiwait_phase_stats phases[MPIWAIT_PHASE_PLACES];
	uint64_t reserved_phases[12];
	struct mpiwait_call_stats calls[MPIWAIT_CALLS];
} __attribute__((aligned(128)));

/* What the program calls its phases, and how long it was in them, under profile only: preload/process/phase.h. */
struct mpiwait_phases {
	uint64_t since_ns;             /* CLOCK_MONOTONIC when the latest began; 0: nothing was profiled */
	uint32_t place;                /* its place */
	int32_t level[MPIWAIT_PHASES]; /* their numbers, in the order in which they were met; 0: none yet */
	uint32_t reserved;
	uint64_t time_ns[MPIWAIT_PHASE_PLACES]; /* in those before the latest */
};

/* A program or a library, as the rank has loaded it. */
struct mpiwait_module {
	char name[MPIWAIT_MODULE_NAME]; /* its file's, cut to what fits; terminated */
	uint8_t build_id[MPIWAIT_BUILD_ID];
	uint32_t build_id_size; /* 0: it has none */
};

/* A place in the program from which a call was made that waited. */
struct mpiwait_site {
	uint64_t key;    /* its address in the rank, and the call; 0: free */
	uint64_t offset; /* of the instruction after the call, as its module's file has addresses */
	uint16_t module; /* its place in the table + 1; 0: none, or not known yet */
	uint16_t layer;  /* it is in MPI's own layer for another language: preload/wait/site.h */
	uint32_t row;
	uint64_t waits;
	uint64_t wait_ns;
};

/* Written under the key sites only: preload/wait/site.h. */
struct mpiwait_sites {
	uint32_t modules; /* atomic: places asked for */
	uint32_t reserved;
	struct mpiwait_module module[MPIWAIT_MODULES];
	struct mpiwait_site site[MPIWAIT_SITES + 1];
};

struct mpiwait_slot {
	uint32_t pid; /* the claiming process; a forked child never writes */
	uint32_t state;
	int32_t rank; /* in MPI_COMM_WORLD, with Sessions by the launcher; -1: not known */
	int32_t size; /* 0: not known */
	uint32_t family;
	uint32_t hooks;
	uint32_t flags;
	uint32_t lanes;        /* atomic: lanes asked for */
	uint64_t start_ns;     /* CLOCK_MONOTONIC after Init returned */
	uint64_t end_ns;       /* CLOCK_MONOTONIC at Finalize, 0: not reached */
	uint64_t slowdown_ppm; /* what the account allows; 0: there is none */
	struct mpiwait_phases phases;
	uint64_t has_sites;
	uint64_t
	        launch; /* the same number in all processes that were launched together, 0: not known; mpi/launcher.h */
	uint32_t task;  /* number of Slurm's task that the rank is or descends from, + 1; 0: not known */
	uint32_t reserved_task;
	uint64_t reserved[10];
	struct mpiwait_lane lane[MPIWAIT_LANES];
	struct mpiwait_sites sites;
} __attribute__((aligned(128)));

/* How many calls handed over so many bytes: class 0 none, class i from 2^(i-1) to less than 2^i. */
struct mpiwait_sizes {
	uint64_t calls[MPIWAIT_CALLS][MPIWAIT_SIZES_ROOM];
};

_Static_assert(sizeof(struct mpiwait_header) == 64, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_call_stats) == 64, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_lane, naps) == 128, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_lane, place_bytes) == 256, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_lane, phases) == 384, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_lane, calls) == 768, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_lane) == 768 + 64 * MPIWAIT_CALLS, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_slot, phases) == 56, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_slot, lane) == 384, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_module) == 72, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_site) == 40, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_slot, sites) == 384 + MPIWAIT_LANES * sizeof(struct mpiwait_lane),
               "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_slot) == 384 + MPIWAIT_LANES * sizeof(struct mpiwait_lane) + 3840,
               "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_sizes) == 8 * 64 * 256, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_sizes) % 4096 == 0, "one slot's sizes share no page with another's");
_Static_assert((int)MPIWAIT_RUNG_COUNT <= (int)MPIWAIT_RUNGS, "room for the rungs");

/* Where the sizes of a slot are, in a segment of that many slots: from a page's start on. */
static inline uint64_t mpiwait_sizes_offset(uint32_t slot_count, uint32_t slot)
{
	uint64_t slots_end = MPIWAIT_SLOTS_OFFSET + (uint64_t)slot_count * sizeof(struct mpiwait_slot);

	return (slots_end + 4095) / 4096 * 4096 + (uint64_t)slot * sizeof(struct mpiwait_sizes);
}

/* Bytes of a segment of that many slots. */
static inline uint64_t mpiwait_segment_size(uint32_t slot_count)
{
	return mpiwait_sizes_offset(slot_count, slot_count);
}

/* The class of a size in bytes, of which there are MPIWAIT_SIZES. */
static inline uint32_t mpiwait_size_class(uint64_t bytes)
{
	uint32_t class = bytes ? 64 - (uint32_t)__builtin_clzll(bytes) : 0;

	return class < MPIWAIT_SIZES ? class : MPIWAIT_SIZES - 1;
}
