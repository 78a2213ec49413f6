/*
 * Outbox: where a node leaves its record of a job, on its own disk, until somebody has stored it.
 *
 * <outbox>/<cluster>-<job id>-<restart count>.<node>.json, 0600 root. Put there by the
 * program that the epilog starts, which is no child of anybody by the time the epilog returns.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/base/files.h"
#include "spank/base/run_directory.h"
#include "spank/record/node.h"

#define OUTBOX_DIRECTORY "/var/spool/mpi-wait/out"
#define OUTBOX_KEY_MAX   112

/* "cluster-123-0". -EINVAL where the cluster's name is none that may be part of a path. */
int outbox_key(const char *cluster, uint32_t job_id, uint32_t restart_count, char key[OUTBOX_KEY_MAX],
               struct error *error);

/* Takes a key apart; the cluster's name may contain dashes itself. Returns 0 or -EINVAL. */
int outbox_key_parse(const char *key, char cluster[64], uint32_t *ret_job_id, uint32_t *ret_restart_count);

/* What a node's record is called there. Returns 0 or -ENAMETOOLONG. */
int outbox_name(const char *key, const char *node, char name[FILES_NAME_MAX + 1]);

/* What a file says to a run: it is of none, as far as can be told, of that, of another; or it could not be read. */
enum outbox_verdict { OUTBOX_NONE, OUTBOX_SAME, OUTBOX_OTHER, OUTBOX_UNREAD };
enum outbox_verdict outbox_judge(int directory, const char *name, const struct job_run *run);

/* Whether no record of another run of the job lies there under that key. */
bool outbox_is_free(const char *directory, const char *key, const char *node, const struct job_run *run);

/*
 * Stores the record of a node durably, with as much of it as the outbox has room for (budget.h); directory NULL:
 * OUTBOX_DIRECTORY. Returns 0 or -errno.
 */
int outbox_put(const char *directory, const char *key, const struct state_place *place, const char *record,
               struct error *error);

/*
 * Starts "<helper> drain [argument...]" in a session of its own, nicer than others and the first to go where memory is
 * short, with /dev/null as descriptors 0 to 2, no other
 * descriptor, and of the environment only what Slurm's client library needs. Leaves no child; returns as soon as the
 * helper is on its own, and never waits for its work. Returns 0 or -errno.
 */
int outbox_writer_start(const char *helper, int argument_count, char *const arguments[], struct error *error);
