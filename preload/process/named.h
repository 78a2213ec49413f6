/*
 * Named: the library's name in LD_PRELOAD, for the programs that this one starts.
 *
 * A task in another root, or one that may be moved there, has the library by a descriptor of its own
 * (spank/plugin/inject.h). Programs that close descriptors, such as Python's subprocess and mpirun, take it from the
 * programs that they start. Those can still use the library's path, or the descriptor of a process above them.
 */
#pragma once

#include <stdbool.h>

/*
 * Improves the library's name. To be called in the constructor. If LD_PRELOAD names a descriptor of this process, the
 * new name is the library's path, if by_path is set and the path leads to the same file; or the descriptor through this
 * process's number, if the path does not lead there. Otherwise nothing changes, as for a container runtime on the host.
 * Neither allocates nor touches errno.
 */
void named_settle(bool by_path);
