/*
 * Sweep: moves and stores the records that were left: those that could not be stored when their job ended. It runs
 * mpi-wait-node's "sweep".
 */
#pragma once

#include "spank/base/error.h"
#include "spank/store/writer.h"

/* Stores each job that is old enough, by one connection. Returns 0, WRITER_LEFT or -errno. */
int sweep_run(const struct writer_config *config, struct error *error);
