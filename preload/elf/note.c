/*
 * An ELF note, owner "mpiwait", type 1: the release, and the version of the segment's layout that this library knows.
 * "readelf -n" shows it, and mpi-wait check reads it without loading the library.
 */
#include <stdint.h>

#include "preload/contract/stats.h"

#define STRING(number)  #number
#define AS_TEXT(number) STRING(number)
#define TEXT            "release=" MPIWAIT_RELEASE "\nsegment=" AS_TEXT(MPIWAIT_VERSION)

static const struct {
	uint32_t owner_size;
	uint32_t text_size;
	uint32_t type;
	char owner[8];
	_Alignas(4) char text[sizeof(TEXT)];
} note __attribute__((used, aligned(4), section(".note.mpiwait"))) = {8, sizeof(TEXT), 1, "mpiwait", TEXT};
