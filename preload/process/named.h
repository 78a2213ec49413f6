/*
 * How LD_PRELOAD names the library, for the programs that this one starts.
 *
 * A task in another root, or one that may have been put there, has the library by a descriptor of its own
 * (spank/plugin/inject.h). Programs that close descriptors, Python's subprocess and mpirun for example, take that from
 * those that they start. The path needs nothing of them, and neither does the descriptor of a process above them.
 */
#pragma once

#include <stdbool.h>

/*
 * In the constructor, where an entry of LD_PRELOAD names a descriptor of this process: names the library by its path if
 * by_path is set and the path leads to the very same file, and through this process by number if the path does not.
 * Else changes nothing, as for a container runtime on the host. Neither allocates nor touches errno.
 */
void named_settle(bool by_path);
