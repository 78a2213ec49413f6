/*
 * The stats segment: how a rank tells root how long it waited.
 *
 * slurmstepd makes one sealed memfd per step and node. The ranks of the step write their slots; root reads them with
 * pread. Widths are fixed, the byte order is the machine's, and the size never changes. The job's user owns the
 * segment: to root every number in it is a claim.
 *
 *     offset 0                       struct mpiwait_header
 *     MPIWAIT_WORDS_OFFSET + c*8     request of a thread on CPU c for its core's frequency (lease.h), c < MPIWAIT_WORDS
 *     MPIWAIT_SLOTS_OFFSET + i*size  struct mpiwait_slot i, i < header.slot_count
 *     mpiwait_sizes_offset(n, i)     struct mpiwait_sizes of slot i, n = header.slot_count; written under profile only
 *
 * One rank owns one slot. One thread of that rank owns one lane and is its only writer, so plain 8-byte stores suffice;
 * all threads count the sizes, atomically. All times are nanoseconds. Rows of mpi_calls.def are only ever appended: a
 * row's index is part of this layout.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MPIWAIT_MAGIC        UINT64_C(0x315441545357504d) /* "MPWSTAT1" in memory */
#define MPIWAIT_VERSION      8
#define MPIWAIT_LANES        8u   /* threads of a rank that have a lane of their own */
#define MPIWAIT_RUNGS        8u   /* room for enum mpiwait_rung */
#define MPIWAIT_CALLS        256u /* room for the rows of mpi_calls.def */
#define MPIWAIT_SIZES        40u  /* classes of message sizes: 0 bytes, then powers of two; the last one is open */
#define MPIWAIT_SIZES_ROOM   64u  /* room for classes; readers count all from MPIWAIT_SIZES - 1 on as the last class */
#define MPIWAIT_PHASES       16u  /* phases of the program that a rank tells apart */
#define MPIWAIT_PHASE_NONE   0u   /* index of the waits in no phase; phase level[i] has the index i + 1 */
#define MPIWAIT_PHASE_OTHER  (MPIWAIT_PHASES + 1u)
#define MPIWAIT_PHASE_PLACES (MPIWAIT_PHASES + 2u)
#define MPIWAIT_SITES        64u /* callsites that a rank tells apart; one more entry is for all others */
#define MPIWAIT_MODULES      16u /* programs and libraries in which callsites lie */
#define MPIWAIT_MODULE_NAME  48u
#define MPIWAIT_BUILD_ID     20u
#define MPIWAIT_WORDS        16384u /* CPUs for which a frequency can be asked */
#define MPIWAIT_WORDS_OFFSET 4096u
#define MPIWAIT_SLOTS_OFFSET (MPIWAIT_WORDS_OFFSET + 8u * MPIWAIT_WORDS)
#define MPIWAIT_SLOTS_MIN    64u
#define MPIWAIT_SLOTS_MAX    1024u

/* The same compiler builds root's half and the program's half, so root knows what the program's half can do. */
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

/* Sets of rungs: those that this build has, and those in which a thread sleeps. */
enum {
	MPIWAIT_RUNGS_BUILT = 0
#define RUNG(constant, name, built, ...) | (built) << MPIWAIT_RUNG_##constant
#include "preload/contract/rungs.def"
};
enum {
	MPIWAIT_RUNGS_SLEEP = 0
#define RUNG(constant, name, built, sleeps, ...) | (sleeps) << MPIWAIT_RUNG_##constant
#include "preload/contract/rungs.def"
};

/* Locality of the other rank of a point-to-point call: on another node, on this one, or not known. */
enum mpiwait_locality { MPIWAIT_FAR, MPIWAIT_NEAR, MPIWAIT_LOCALITIES, MPIWAIT_NOWHERE = MPIWAIT_LOCALITIES };

enum mpiwait_family { MPIWAIT_FAMILY_UNKNOWN, MPIWAIT_FAMILY_OPENMPI, MPIWAIT_FAMILY_MPICH, MPIWAIT_FAMILY_ABI };

enum mpiwait_state { MPIWAIT_SLOT_FREE, MPIWAIT_SLOT_CLAIMED, MPIWAIT_SLOT_RUNNING, MPIWAIT_SLOT_FINALIZED };

/* Outcome of writing a node's files of csv=. NONE: no rank came to write them. */
enum mpiwait_csv {
	MPIWAIT_CSV_NONE,
	MPIWAIT_CSV_WRITTEN,
	MPIWAIT_CSV_NO_DIRECTORY,
	MPIWAIT_CSV_NOT_ALLOWED,
	MPIWAIT_CSV_NO_SPACE,
	MPIWAIT_CSV_FAILED, /* anything else */
	MPIWAIT_CSV_OUTCOMES
};

/* Bits of mpiwait_slot.hooks: the functions by which waits called us while they were idle. */
#define MPIWAIT_HOOK_OPAL  (1u << 0) /* opal_progress with sched_yield inside */
#define MPIWAIT_HOOK_YIELD (1u << 1) /* sched_yield alone */
#define MPIWAIT_HOOK_UCP   (1u << 2) /* ucp_worker_progress */
#define MPIWAIT_HOOK_LOOP  (1u << 3) /* our own loop before the call, if the runtime makes no idle call */
#define MPIWAIT_HOOK_OFI   (1u << 4) /* reads of libfabric's queues and counters */
#define MPIWAIT_HOOKS      5u

/* Bits of mpiwait_slot.flags: reasons why the library did less for a rank, or nothing. */
#define MPIWAIT_FLAG_TWO_MPIS     (1u << 0) /* more than one provider of PMPI_Init, or a translator before it */
#define MPIWAIT_FLAG_NO_HOOK      (1u << 1) /* this MPI has no idle hook that the library knows */
#define MPIWAIT_FLAG_LANES_FULL   (1u << 2) /* threads beyond MPIWAIT_LANES are not counted */
#define MPIWAIT_FLAG_SHARED_CORES (1u << 3) /* the task shares its cores: the spin phase yields */
#define MPIWAIT_FLAG_LOCKED       (1u << 4) /* several threads: waits lacked naps, because the MPI's lock was held */
#define MPIWAIT_FLAG_NO_EVENT     (1u << 5) /* no message wakes this rank (any more): the event rung is unused */
#define MPIWAIT_FLAG_PREWAITS     (1u << 6) /* loops ran before some calls, because their waits made no idle call */
#define MPIWAIT_FLAG_NO_GRANT     (1u << 7) /* pstate was configured, but the rank does not find its grant */
#define MPIWAIT_FLAG_PRESLEEPS    (1u << 8) /* sleeps came before some collectives, whose waits made no idle call */

struct mpiwait_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_size; /* sizeof(struct mpiwait_header) */
	uint32_t slot_size;   /* sizeof(struct mpiwait_slot) */
	uint32_t slot_count;
	uint32_t claimed;    /* slots asked for, counted atomically; ranks beyond slot_count got none */
	uint32_t sizes_size; /* sizeof(struct mpiwait_sizes) */
	uint32_t alive;      /* with csv=: ranks that are in MPI, counted atomically */
	uint32_t left;       /* with csv=: ranks that have left MPI, counted atomically */
	uint32_t csv;        /* enum mpiwait_csv: outcome of the latest rank that wrote files */
	uint32_t reserved;
	uint64_t overslept_ns; /* time that the node's ranks overslept, counted atomically (preload/budget/plan.h) */
	uint64_t reserved_ns;
};

/* Counts of one MPI function, its large-count variant included. */
struct mpiwait_call_stats {
	uint64_t calls;      /* outermost calls, with or without a wait */
	uint64_t waits;      /* calls that went on past their free polls (wait/wait.h) */
	uint64_t wait_ns;    /* time in waits, from the last free poll to the last poll; stopped time does not count */
	uint64_t longest_ns; /* the longest wait */
	uint64_t time_ns;    /* time from entry to exit, under profile only */
	/*
	 * Time in long calls that were watched, made no idle call and kept the CPU busy for more than a quarter of it.
	 */
	uint64_t burned_ns;
	uint64_t burned_cpu_ns; /* CPU time of the thread in the calls of burned_ns */
	uint64_t bytes;         /* bytes that successful calls handed over, under profile only */
};

/* The waits of a phase of the program, under profile only. */
struct mpiwait_phase_stats {
	uint64_t waits;
	uint64_t wait_ns;
};

struct mpiwait_lane {
	uint32_t tid;
	uint32_t open_call;     /* row index + 1 of the call that waits now, 0: none waits */
	uint64_t open_since_ns; /* first clock reading of the open wait, arbitrary epoch */
	uint64_t open_last_ns;  /* latest clock reading, same epoch; a killed rank's last wait lasted until then */
	uint64_t idle_polls;
	uint64_t late;       /* waits that ended during a nap by forecast; without an account: naps past their budget */
	uint64_t late_ns;    /* time charged by the clock; without an account: time by which naps passed their budget */
	uint64_t sampled_ns; /* time in waits beyond the first millisecond of each */
	uint64_t sampled_cpu_ns;            /* CPU time of the thread in sampled_ns */
	uint64_t hook_polls[MPIWAIT_HOOKS]; /* idle polls that the library checked, by bit of MPIWAIT_HOOK_* */
	uint64_t transitions;               /* changes of the core's frequency, down and up */
	uint64_t event_wakes;               /* sleeps that a message ended */
	uint64_t event_lost;                /* sleeps that a message should have ended but the timeout did */
	uint64_t naps[MPIWAIT_RUNGS];
	uint64_t asleep_ns[MPIWAIT_RUNGS]; /* clock time in the rung; PSTATE: time of polling at low frequency */
	uint64_t locality_bytes[MPIWAIT_LOCALITIES +
	                        1]; /* bytes by enum mpiwait_locality of the peer, under profile only */
	uint64_t forecasts;         /* naps that ended at or before the landing of a forecast */
	uint64_t early;             /* foreseen waits that went on after the nap */
	uint64_t early_ns;          /* polling time after the nap in the early waits */
	uint64_t foreseen;          /* waits with a nap that ended at or before the landing of a forecast */
	uint64_t unforeseen;        /* waits of 100 us and more, outside of looks, that were not foreseen */
	uint64_t threads_cpu_ns;    /* CPU time of the process's other threads in sampled_ns, first lane only */
	uint64_t cost_slept_ns;     /* sum of the periods of calls with sleep that were compared with calls in looks */
	int64_t cost_more_ns; /* time by which the periods in cost_slept_ns exceeded those of calls in looks, in all */
	uint64_t cost_variance_us; /* variance of cost_more_ns, in square microseconds */
	uint64_t cost_windows;     /* looks of the job in which compared calls ended */
	uint64_t look;             /* value of looks_tell for the thread's looks (looks.h), 0: it has found none yet */
	uint64_t reserved_bytes[2];
	struct mpiwait_phase_stats phases[MPIWAIT_PHASE_PLACES];
	uint64_t reserved_phases[12];
	struct mpiwait_call_stats calls[MPIWAIT_CALLS];
} __attribute__((aligned(128)));

/* The program's phases and the time in them, under profile only: preload/process/phase.h. */
struct mpiwait_phases {
	uint64_t since_ns;             /* CLOCK_MONOTONIC when the latest phase began; 0: nothing was profiled */
	uint32_t latest;               /* index of the latest phase */
	int32_t level[MPIWAIT_PHASES]; /* numbers of the phases, in the order of their first use; 0: unused */
	uint32_t reserved;
	uint64_t time_ns[MPIWAIT_PHASE_PLACES]; /* time in each phase until the latest one began */
};

/* A program or a library that the rank has loaded. */
struct mpiwait_module {
	char name[MPIWAIT_MODULE_NAME]; /* name of its file, cut to what fits, terminated */
	uint8_t build_id[MPIWAIT_BUILD_ID];
	uint32_t build_id_size; /* bytes of the build id, 0: the file has none */
};

/* A callsite: a position in the program from which a call was made that waited. */
struct mpiwait_callsite {
	uint64_t key;    /* address in the rank, combined with the row of the call; 0: the entry is free */
	uint64_t offset; /* address of the instruction after the call, as the module's file counts */
	uint16_t module; /* index of the module + 1; 0: none, or not known yet */
	uint16_t layer;  /* 1: the callsite is in MPI's own layer for another language (preload/wait/callsite.h) */
	uint32_t row;
	uint64_t waits;
	uint64_t wait_ns;
};

/* The callsites. Written with the key sites only: preload/wait/callsite.h. */
struct mpiwait_callsites {
	uint32_t modules; /* entries of module asked for, counted atomically */
	uint32_t reserved;
	struct mpiwait_module module[MPIWAIT_MODULES];
	struct mpiwait_callsite site[MPIWAIT_SITES + 1];
};

struct mpiwait_slot {
	uint32_t pid; /* process that claimed the slot; a forked child never writes */
	uint32_t state;
	int32_t rank; /* rank in MPI_COMM_WORLD, with Sessions the launcher's number; -1: not known */
	int32_t size; /* number of ranks, 0: not known */
	uint32_t family;
	uint32_t hooks;
	uint32_t flags;
	uint32_t lanes;        /* lanes asked for, counted atomically */
	uint64_t start_ns;     /* CLOCK_MONOTONIC after Init returned */
	uint64_t end_ns;       /* CLOCK_MONOTONIC at Finalize, 0: not reached */
	uint64_t slowdown_ppm; /* share of its time that the account may spend, 0: there is no account */
	struct mpiwait_phases phases;
	uint64_t has_sites;
	uint64_t launch;  /* the same number in all processes of a launch, 0: not known (mpi/launcher.h) */
	uint32_t task;    /* number + 1 of the Slurm task that the rank is or descends from; 0: not known */
	uint32_t program; /* number of the policy that the rank chose by its program (config_format.h), 0: the step's */
	uint64_t reserved[10];
	struct mpiwait_lane lane[MPIWAIT_LANES];
	struct mpiwait_callsites sites;
} __attribute__((aligned(128)));

/* Numbers of calls by the bytes that they handed over: class 0 none, class i from 2^(i-1) to less than 2^i. */
struct mpiwait_sizes {
	uint64_t calls[MPIWAIT_CALLS][MPIWAIT_SIZES_ROOM];
};

_Static_assert(sizeof(struct mpiwait_header) == 64, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_header, overslept_ns) == 48, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_call_stats) == 64, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_lane, naps) == 128, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_lane, locality_bytes) == 256, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_lane, phases) == 384, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_lane, calls) == 768, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_lane) == 768 + 64 * MPIWAIT_CALLS, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_slot, phases) == 56, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_slot, lane) == 384, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_module) == 72, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_callsite) == 40, "layout of the stats segment");
_Static_assert(offsetof(struct mpiwait_slot, sites) == 384 + MPIWAIT_LANES * sizeof(struct mpiwait_lane),
               "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_slot) == 384 + MPIWAIT_LANES * sizeof(struct mpiwait_lane) + 3840,
               "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_sizes) == 8 * 64 * 256, "layout of the stats segment");
_Static_assert(sizeof(struct mpiwait_sizes) % 4096 == 0, "one slot's sizes share no page with another's");
_Static_assert((int)MPIWAIT_RUNG_COUNT <= (int)MPIWAIT_RUNGS, "room for the rungs");

/* Returns the offset of a slot's sizes in a segment of slot_count slots. The first slot's sizes begin a page. */
static inline uint64_t mpiwait_sizes_offset(uint32_t slot_count, uint32_t slot)
{
	uint64_t slots_end = MPIWAIT_SLOTS_OFFSET + (uint64_t)slot_count * sizeof(struct mpiwait_slot);

	return (slots_end + 4095) / 4096 * 4096 + (uint64_t)slot * sizeof(struct mpiwait_sizes);
}

/* Returns the bytes of a segment of slot_count slots. */
static inline uint64_t mpiwait_segment_size(uint32_t slot_count)
{
	return mpiwait_sizes_offset(slot_count, slot_count);
}

/* Returns the class of a size in bytes, less than MPIWAIT_SIZES. */
static inline uint32_t mpiwait_size_class(uint64_t bytes)
{
	uint32_t class = bytes ? 64 - (uint32_t)__builtin_clzll(bytes) : 0;

	return class < MPIWAIT_SIZES ? class : MPIWAIT_SIZES - 1;
}
