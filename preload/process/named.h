/*
 * How LD_PRELOAD names the library, for the programs that this one starts.
 *
 * A task that may have been put into another root has the library by a descriptor (spank/plugin/inject.h), which
 * programs that close descriptors, Python's subprocess for example, take from those that they start. The path needs
 * nothing of them.
 */
#pragma once

/*
 * In the constructor: has LD_PRELOAD name the library by its path, if an entry names a descriptor and the path leads to
 * the very same file here. Else changes nothing. Neither allocates nor touches errno.
 */
void named_by_path(void);
