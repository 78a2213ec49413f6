/*
 * An ELF note, owner "mpiwait", type 1: which release this is, for which Slurm it was built and what it will use, for
 * who must not load the plugin to ask it. "readelf -n" shows it, and mpi-wait check reads it.
 */
#include <slurm/slurm_version.h>
#include <stdint.h>

#define STRING(number)  #number
#define AS_TEXT(number) STRING(number)
#define TEXT                                                                                             \
	"release=" MPIWAIT_RELEASE "\nslurm=" AS_TEXT(SLURM_VERSION_NUMBER) "\nlibrary=" MPIWAIT_LIBRARY \
	                                                                    "\nhelper=" MPIWAIT_HELPER

static const struct {
	uint32_t owner_size;
	uint32_t text_size;
	uint32_t type;
	char owner[8];
	_Alignas(4) char text[sizeof(TEXT)];
} note __attribute__((used, aligned(4), section(".note.mpiwait"))) = {8, sizeof(TEXT), 1, "mpiwait", TEXT};
