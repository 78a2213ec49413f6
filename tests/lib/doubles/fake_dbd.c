/*
 * A double of slurmdbd: the file $MPIWAIT_ACCOUNT. Each stored record becomes a line, [job id, joules, record]. Without
 * the variable slurmdbd is down. From the job id $MPIWAIT_WRONG on it refuses jobs, and a connection refuses everything
 * after that. The file $MPIWAIT_TRIED gets a byte for each attempt to connect.
 */
#include "spank/base/cleanup.h"
#include "spank/store/dbd.h"

#include <errno.h>
#include <stdio.h>

struct dbd {
	FILE *file;
	bool failed;
};

static void tried(void)
{
	const char *path = getenv("MPIWAIT_TRIED");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fputc('+', file);
	fclose(file);
}

int dbd_open(struct dbd **ret_dbd, struct error *error)
{
	const char *path = getenv("MPIWAIT_ACCOUNT");
	struct dbd *dbd = calloc(1, sizeof(*dbd));

	tried();
	if (dbd && path)
		dbd->file = fopen(path, "a");
	if (!dbd || !dbd->file) {
		free(dbd);
		return error_set(error, DBD_AWAY, "slurmdbd is away");
	}
	*ret_dbd = dbd;
	return 0;
}

void dbd_close(struct dbd *dbd)
{
	if (dbd)
		fclose(dbd->file);
	free(dbd);
}

int dbd_store(struct dbd *dbd, const struct dbd_run *run, enum site_field field, const struct record *record,
              double joules, struct error *error)
{
	const char *wrong = getenv("MPIWAIT_WRONG");

	(void)field;
	dbd->failed |= wrong && run->job_id >= strtoul(wrong, NULL, 10);
	if (dbd->failed)
		return error_set(error, -EPROTO, "slurmdbd does not take job %u", run->job_id);
	if (fprintf(dbd->file, "[%u, %.17g, %s]\n", run->job_id, joules, record->line) < 0)
		return error_set(error, -EPROTO, "slurmdbd does not answer");
	return 0;
}
