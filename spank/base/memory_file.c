#include "spank/base/memory_file.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/*
 * Never to be executed: with vm.memfd_noexec=2 (Linux 6.3) there is no other memfd. Kernels before that do not know the
 * flag.
 */
int memory_file(const char *name)
{
	int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	return descriptor < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : descriptor;
}
