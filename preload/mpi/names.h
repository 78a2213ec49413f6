/*
 * Names: which MPI functions appear to exist. A program must see those that the MPI has, and no others.
 *
 * The library's file defines every function of the table. A program finds out which functions exist by weak references,
 * by dlsym and by linking at run time (mpi4py's wheel, Python's ctypes). It must get the answers that it would get
 * without the library.
 *
 * How: a reference without a version ignores a symbol whose version has to be asked for. The version of a symbol is one
 * half-word in the library's own table of versions. One store there shows or hides the symbol: another thread that
 * looks it up meanwhile finds it either shown or hidden.
 *
 *     In the file   functions of MPI 3.1 are shown, newer ones and large-count variants are hidden.
 *     At the start  the functions that the MPI has are shown and all others hidden; without a linked MPI, all are
 *                   hidden. References that the loader bound before are corrected (rebind.h).
 *     By dlopen     the loader calls nobody between mapping an MPI and binding the first reference to it. But every
 *                   object that a C compiler links has a weak reference to __gmon_start__, which the loader binds
 *                   among the first. In a program that started without MPI, the library defines that name too, as an
 *                   IFUNC: a function that the loader calls for the address. It looks for an MPI, and answers that
 *                   __gmon_start__ does not exist.
 *
 * Invariant: a version that cannot be changed (the pages stay read-only, or the loader is not glibc's) stays as in the
 * file. The library then never wraps newer functions: their calls go to the MPI directly.
 */
#pragma once

#include <stdbool.h>

/*
 * Shows and hides the names at the start. Called by the constructor. acts: there is a configuration; without one, no
 * function becomes seen that was not.
 */
void names_settle(bool acts);
