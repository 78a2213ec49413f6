/*
 * Upkeep: Intel's GPU counters must be read before they wrap (machine/intel.h). The file "intel" of the node's
 * directory tells when they were read, and since when without a gap. Times are CLOCK_BOOTTIME in us.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Notes that the counters are read now. Returns since when they have been read in time: now, if the latest reading was
 * too long ago or is not known. The caller holds the lock of the meters. If the note cannot be written, the next call
 * takes that for a gap.
 */
uint64_t upkeep_note(int directory);

/* Returns true if the counters have been read in time, and were not within the last minute. */
bool upkeep_is_due(int directory);
