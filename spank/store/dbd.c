#include "spank/store/dbd.h"

#include "spank/base/cleanup.h"
#include "spank/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS 64 /* this program's descriptors are below this number */

/* Slurm 25.11 and later can set the TRES of a job that has ended. */
#define HAS_TRES (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0))

static const char *const field_names[] = {"admin_comment", "system_comment", "extra"};

/* In the order of enum site_field. Slurm 23.02 and later have the third field. */
static const size_t field_offsets[] = {
        offsetof(slurmdb_job_rec_t, admin_comment),
        offsetof(slurmdb_job_rec_t, system_comment),
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
        offsetof(slurmdb_job_rec_t, extra),
#endif
};

#define FIELD_COUNT (sizeof(field_offsets) / sizeof(field_offsets[0]))

struct dbd {
	void *connection;
	bool failed; /* slurmdbd failed once, and a transaction may be open: nothing more is stored */
};

/*
 * Sets TCP_NODELAY on the connection. libslurm writes a message's length and the message apart, and Nagle's algorithm
 * holds the message back until the length is acknowledged, 40 ms later: half the time of storing a record. libslurm
 * does not tell its descriptor, but this program has no other connection. Best effort.
 */
static void write_at_once(void)
{
	for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++) {
		struct sockaddr_storage peer;
		socklen_t length = sizeof(peer);
		const int on = 1;

		if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
		    (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
}

int dbd_open(struct dbd **ret_dbd, struct error *error)
{
	static bool initialised;
	struct dbd *dbd = calloc(1, sizeof(*dbd));

	if (!dbd)
		return error_set(error, -ENOMEM, "out of memory");
	if (!initialised)
		slurm_init(NULL);
	initialised = true;
	errno = 0;
	dbd->connection = slurmdb_connection_get(NULL);
	if (!dbd->connection || errno) {
		error_set(error, DBD_AWAY, "no connection to slurmdbd: %s", slurm_strerror(errno));
		dbd_close(dbd);
		return DBD_AWAY;
	}
	write_at_once();
	*ret_dbd = dbd;
	return 0;
}

void dbd_close(struct dbd *dbd)
{
	if (!dbd)
		return;
	if (dbd->connection)
		slurmdb_connection_close(&dbd->connection);
	free(dbd);
}

static char **field_of(slurmdb_job_rec_t *job, size_t field)
{
	return (char **)((char *)job + field_offsets[field]);
}

/* Has slurmdbd change the row's field and energy, but does not commit. Returns 0 or -EPROTO. */
static int row_modify(struct dbd *dbd, struct query *query, size_t field, char *text, double joules,
                      struct error *error)
{
	slurmdb_job_rec_t change = {.derived_ec = NO_VAL}; /* slurmdbd would write any other value of derived_ec */
	void *changed;
	int count;

	*field_of(&change, field) = text;
#if HAS_TRES
	char tres[40];

	snprintf(tres, sizeof(tres), "3=%.0f", joules); /* 3: the id of the TRES energy in every release */
	if (joules >= 0)
		change.tres_alloc_str = tres;
#else
	(void)joules;
#endif
	errno = 0;
	changed = slurmdb_job_modify(dbd->connection, &query->condition, &change);
	if (!changed)
		return error_set(error, -EPROTO, "slurmdbd did not modify the job: %s", slurm_strerror(errno));
	count = slurm_list_count(changed);
	slurm_list_destroy(changed);
	return count == 1 ? 0 : error_set(error, -EPROTO, "slurmdbd modified %d rows instead of one", count);
}

/* Commits, and reads the row again, since slurmdbd may have lost the change. Returns 0 or -EPROTO. */
static int row_commit(struct dbd *dbd, struct query *query, size_t field, const char *text, struct error *error)
{
	__attribute__((cleanup(row_free))) struct row row = {0};

	if (slurmdb_connection_commit(dbd->connection, 1) != SLURM_SUCCESS)
		return error_set(error, -EPROTO, "slurmdbd did not commit: %s", slurm_strerror(errno));
	if (row_again(dbd->connection, query, &row, error) == 1 && row.job && *field_of(row.job, field) &&
	    strcmp(*field_of(row.job, field), text) == 0)
		return 0;
	return error_set(error, -EPROTO, "slurmdbd accepted the record but returns the job without it");
}

/*
 * Chooses the first field from *field on that is free or holds a record, and writes its new text to *ret_text. Returns
 * 0, -EALREADY or -EEXIST.
 */
static int field_choose(const struct row *row, size_t *field, const struct record *record, char **ret_text)
{
	for (size_t i = *field; i < FIELD_COUNT; i++) {
		int result = record_combine(*field_of(row->job, i), record, ret_text);

		*field = i;
		if (result != -EEXIST && result != -EFBIG)
			return result;
	}
	return -EEXIST;
}

int dbd_store(struct dbd *dbd, const struct dbd_run *run, enum site_field field, const struct record *record,
              double joules, struct error *error)
{
	__attribute__((cleanup(row_free))) struct row row = {0};
	__attribute__((cleanup(query_free))) struct query query = {0};
	cleanup_free char *text = NULL;
	size_t chosen = field;
	int result = dbd->failed ? error_set(error, -EPROTO, "nothing is stored after a failure")
	                         : row_find(dbd->connection, run, &query, &row, error);

	dbd->failed |= result == -EPROTO;
	if (result)
		return result;
	result = field_choose(&row, &chosen, record, &text);
	if (result == -EEXIST)
		return error_set(error, result,
		                 "no field from \"%s\" on has room: each has somebody else's text, or would be too "
		                 "long; free one, or set sink=file",
		                 field_names[field]);
	if (result)
		return error_set(error, result, "%s", strerror(-result));
	if (chosen != field)
		log_info("job %" PRIu32 ": \"%s\" holds somebody else's text; the record goes into \"%s\"", run->job_id,
		         field_names[field], field_names[chosen]);
	result = row_modify(dbd, &query, chosen, text, joules, error);
	if (!result)
		result = row_commit(dbd, &query, chosen, text, error);
	dbd->failed |= result != 0;
	return result;
}
