/*
 * A double of slurmdbd: the file $MPIWAIT_ACCOUNT. Each stored record becomes a line, [job id, joules, record]. Without
 * the variable slurmdbd is down. From the job id $MPIWAIT_WRONG on it refuses jobs, and a connection refuses everything
 * after that. The file $MPIWAIT_TRIED gets a byte for each attempt to connect.
 */
#include "spank/base/cleanup.h"
#include "spank/store/account.h"

#include <errno.h>
#include <stdio.h>

struct account {
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

int account_open(struct account **ret_account, struct error *error)
{
	const char *path = getenv("MPIWAIT_ACCOUNT");
	struct account *account = calloc(1, sizeof(*account));

	tried();
	if (account && path)
		account->file = fopen(path, "a");
	if (!account || !account->file) {
		free(account);
		return error_set(error, ACCOUNT_AWAY, "slurmdbd is away");
	}
	*ret_account = account;
	return 0;
}

void account_close(struct account *account)
{
	if (account)
		fclose(account->file);
	free(account);
}

int account_store(struct account *account, const struct account_run *run, enum site_field field,
                  const struct record *record, double joules, struct error *error)
{
	const char *wrong = getenv("MPIWAIT_WRONG");

	(void)field;
	account->failed |= wrong && run->job_id >= strtoul(wrong, NULL, 10);
	if (account->failed)
		return error_set(error, -EPROTO, "slurmdbd does not take job %u", run->job_id);
	if (fprintf(account->file, "[%u, %.17g, %s]\n", run->job_id, joules, record->line) < 0)
		return error_set(error, -EPROTO, "slurmdbd does not answer");
	return 0;
}
