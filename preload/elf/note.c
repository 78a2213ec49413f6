/*
 * An ELF note with the release, owner "mpiwait", type 1, for tools that must not load the library to ask it. "readelf
 * -n" shows it, and mpi-wait check reads it.
 */
#include <stdint.h>

#define TEXT "release=" MPIWAIT_RELEASE

static const struct {
	uint32_t owner_size;
	uint32_t text_size;
	uint32_t type;
	char owner[8];
	_Alignas(4) char text[sizeof(TEXT)];
} note __attribute__((used, aligned(4), section(".note.mpiwait"))) = {8, sizeof(TEXT), 1, "mpiwait", TEXT};
