/*
 * Which MPI functions appear to exist: those that the MPI has, and no others.
 *
 * The library's file defines every function of the table. A program asks what there is by weak references, by dlsym and
 * by linking at run time (mpi4py's wheel, Python's ctypes), and must be told what it would be told without the library.
 *
 * How: a reference that names no version passes by a symbol of a version that has to be asked for. So what is seen of a
 * symbol is one half-word in the library's own table of versions, and changing it is one store: whoever looks
 * meanwhile, in another thread, sees the one state or the other.
 *
 *     In the file   functions of MPI 3.1 are seen, newer ones and large-count variants are not.
 *     At the start  what the MPI has becomes seen, all else unseen: all of it, where no MPI is linked. References that
 *                   the loader had bound before are put right (rebind.h).
 *     By dlopen     the loader calls nobody between mapping an MPI and binding the first reference to it; but every
 *                   object that a C compiler links has a weak reference to __gmon_start__, and the loader asks for it
 *                   among the first. Once the program has started without MPI, the library has that name too, as a
 *                   function that is asked for its address (IFUNC): it looks for an MPI, and says that there is none.
 *
 * Invariant: what cannot be changed (the pages stay read-only, another loader than glibc's) stays as the file has it.
 * Then newer functions are never stood in front of, and calls pass through.
 */
#pragma once

#include <stdbool.h>

/* Called by the constructor. acts: there is a configuration; without one, nothing becomes seen that was not. */
void names_settle(bool acts);
