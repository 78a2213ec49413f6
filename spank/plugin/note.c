/*
 * An ELF note (owner "mpiwait", type 1). It has the release, the version of the segment's layout, the Slurm version
 * that the plugin was built for, and the files that the plugin uses. "readelf -n" shows the note; mpi-wait check reads
 * it without loading the plugin.
 */
#include <slurm/slurm_version.h>
#include <stdint.h>

#include "preload/contract/stats.h"

#define STRING(number)  #number
#define AS_TEXT(number) STRING(number)
#define HALF            "release=" MPIWAIT_RELEASE "\nsegment=" AS_TEXT(MPIWAIT_VERSION)
#define TEXT            HALF "\nslurm=" AS_TEXT(SLURM_VERSION_NUMBER) "\nlibrary=" MPIWAIT_LIBRARY "\nhelper=" MPIWAIT_HELPER

static const struct {
	uint32_t owner_size;
	uint32_t text_size;
	uint32_t type;
	char owner[8];
	_Alignas(4) char text[sizeof(TEXT)];
} note __attribute__((used, aligned(4), section(".note.mpiwait"))) = {8, sizeof(TEXT), 1, "mpiwait", TEXT};
