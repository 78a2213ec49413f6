/*
 * What a task finds in its environment: our library in front of LD_PRELOAD, and MPI_WAIT_CONFIG. Nothing else of ours,
 * and nothing that an outer step of ours left.
 */
#pragma once

#include <slurm/spank.h>

#include "spank/base/error.h"
#include "spank/plugin/segment.h"
#include "spank/policy/openmp.h"

/* Removes our entries from the task's LD_PRELOAD, MPI_WAIT_CONFIG, and what inject_threads set in an outer step and
 * nobody has changed since. Returns 0 or negative errno. */
int inject_clean(spank_t spank, struct error *error);

/*
 * Prepends library (see preload_path_name) to LD_PRELOAD and sets MPI_WAIT_CONFIG to flat, plus added (more fields of
 * it, or ""), plus where the segment is (descriptor -1: none), which is handed down. To be called in the task itself,
 * after inject_clean. Returns 0, with error set where the task has no segment, or negative errno with the environment
 * untouched or clean.
 */
int inject_task(spank_t spank, const char *library, const char *flat, const char *added, const struct segment *segment,
                struct error *error);

/* Sets what the OpenMP runtime of this program is told (openmp.h), in the task itself and after inject_clean. */
void inject_threads(spank_t spank, enum site_threads threads, uint64_t spins, const char *program);

/*
 * Copies an LD_PRELOAD value without the entries whose file name is library_name, and without those by descriptor
 * (preload_path.h), which mean nothing in a new task; other entries keep their order and separators become ':'.
 * ret_value has room for strlen(value) + 1 bytes. Pure.
 */
void inject_strip(const char *value, const char *library_name, char *ret_value);
