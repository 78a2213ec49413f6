/* A journal's file: opened as hostile input, whoever opens it. */
#ifndef MPIWAIT_SPANK_JOURNAL_FILE_H
#define MPIWAIT_SPANK_JOURNAL_FILE_H

#include "spank/cpufreq/journal_line.h"

/*
 * Opens a journal by its name in a job's directory, for reading and locking. Returns a descriptor, -ENOENT, -EPERM (no
 * regular file, a link, another's, writable by others) or -errno.
 */
int journal_file_open(int job_directory, const char *name, struct error *error);

/*
 * Takes the journal's lock, for two seconds at most. Returns 0, -ESTALE (it has been removed: somebody else has ended
 * it), -EBUSY or -errno.
 */
int journal_file_lock(int file);

/*
 * Reads and parses it. Its head must be of that job and of that name. Returns 0 with *ret_text to be freed, -EFBIG,
 * -EBADMSG, -ENOMEM or -errno.
 */
int journal_file_read(int file, const char *name, uint32_t job_id, struct journal_text *ret_text, struct error *error);

#endif
