/*
 * Outbox: the directory on a node's own disk where its record of a job stays until the record is stored or moved to the
 * shared spool.
 *
 * A record's file is <outbox>/<cluster>-<job id>-<restart count>.<node>.json, root's, with mode 0600.
 * mpi-wait-node writes it; the epilog starts that program and does not wait for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/base/files.h"
#include "spank/base/run_directory.h"
#include "spank/record/parse.h"

#define OUTBOX_DIRECTORY "/var/spool/mpi-wait/out"
#define OUTBOX_KEY_MAX   112 /* bytes of a key, its NUL included */

/*
 * Writes the key of a run of a job: "cluster-123-0". Returns 0, or -EINVAL if the cluster's name may not be part of a
 * path.
 */
int outbox_key(const char *cluster, uint32_t job_id, uint32_t restart_count, char key[OUTBOX_KEY_MAX],
               struct error *error);

/* Takes a key apart. The cluster's name may have dashes itself. Returns 0 or -EINVAL. */
int outbox_key_parse(const char *key, char cluster[64], uint32_t *ret_job_id, uint32_t *ret_restart_count);

/* Writes the file name of a node's record. Returns 0 or -ENAMETOOLONG. */
int outbox_name(const char *key, const char *node, char name[FILES_NAME_MAX + 1]);

/* The run whose record a file holds. */
enum outbox_verdict {
	OUTBOX_NONE,  /* none that can be told: there is no file, or it is no record */
	OUTBOX_SAME,  /* the run that was asked for */
	OUTBOX_OTHER, /* another run of the job */
	OUTBOX_UNREAD /* the file could not be read now */
};

/* Reads a record's file and returns whose run it is: `run`, another one, or none that can be told. */
enum outbox_verdict outbox_judge(int directory, const char *name, const struct job_run *run);

/* Returns true if no record of another run lies in the outbox under that key. directory NULL: OUTBOX_DIRECTORY. */
bool outbox_is_free(const char *directory, const char *key, const char *node, const struct job_run *run);

/* Returns true if the node's record is in the outbox. directory: its descriptor. */
bool outbox_has(int directory, const char *key, const char *node);

/* Returns the age of a file in the outbox in seconds, by the node's clock; 0 if it is gone. */
long long outbox_age_s(int directory, const char *name);

/* Returns true if the node's record is older than a day: only a sweep still tries to store it. */
bool outbox_is_old(int directory, const char *key, const char *node);

/*
 * Writes a node's record durably, shortened to what the outbox has room for (budget.h). directory NULL:
 * OUTBOX_DIRECTORY. Returns 0 or -errno.
 */
int outbox_put(const char *directory, const char *key, const struct run_directory *run_directory, const char *record,
               struct error *error);

/*
 * Starts "<helper> drain [argument...]" by detach_start, with no descriptors and with the variables that libslurm
 * needs. The helper is no child of this process, and is not waited for. Returns 0 or -errno.
 */
int outbox_writer_start(const char *helper, int argument_count, char *const arguments[], struct error *error);
