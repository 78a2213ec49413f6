#include "spank/store/round.h"

#include "spank/base/log.h"

#include <errno.h>
#include <unistd.h>

#define LOCK_WAIT_S 5  /* longest wait for a job's lock */
#define SLOT_WAIT_S 60 /* longest wait for a permit to connect */
#define IN_ROW_MAX  32 /* failures in a row after which slurmdbd, or the spool, counts as broken */
#define LINES_MAX   10 /* log lines for records that one process leaves */

int round_open(struct round *ret_round, const struct site *site, const char *outbox, struct error *error)
{
	*ret_round = (struct round){.slot = -1};
	return spool_open(site, outbox, &ret_round->spool, error);
}

void round_line(struct round *round, const char *text)
{
	if (++round->lines <= LINES_MAX)
		log_error("%s", text);
}

void round_leave(struct round *round, struct error *reason)
{
	round->left++;
	error_move(&round->why, reason);
}

void round_tell(struct round *round)
{
	if (round->left > 0)
		log_error("%zu records are left for the sweep: %s", round->left, round->why.text);
	if (round->lines > LINES_MAX)
		log_error("%zu more lines like these are left out", round->lines - LINES_MAX);
	round->left = round->lines = 0;
	round->why.text[0] = '\0';
}

void round_close(struct round *round)
{
	round_tell(round);
	spool_close(&round->spool);
}

bool round_takes(struct round *round, int result)
{
	if (result == 0)
		round->in_row = 0;
	round->in_row += result == -EPROTO;
	return result != DBD_AWAY && round->in_row < IN_ROW_MAX;
}

int round_store(struct round *round, const char *key, enum store_accept accept, struct error *error)
{
	int result;

	if (round->spool.site->sink == SITE_SINK_SLURMDBD && round->slot < 0)
		round->slot = spool_slot_take(&round->spool, SLOT_WAIT_S);
	if (round->slot == -EBUSY) {
		round->is_broken = true;
		return error_set(error, -EBUSY, "too many others are writing to slurmdbd");
	}
	result = store_job(&round->spool, &round->dbd, key, accept, LOCK_WAIT_S, error);
	round->is_broken = !round_takes(round, result);
	return result;
}

void round_end(struct round *round)
{
	dbd_close(round->dbd);
	round->dbd = NULL;
	if (round->slot >= 0)
		close(round->slot);
	round->slot = -1;
	round->is_broken = false;
	round->in_row = 0;
}

int round_move(struct round *round, const char *key, const char *node, char ret_key[OUTBOX_KEY_MAX],
               struct error *error)
{
	int result = -ENOSPC;

	if (round->unmoved < IN_ROW_MAX) {
		result = spool_move(&round->spool, key, node, ret_key, error);
	} else {
		round->left++;
		error_set(&round->why, 0, "the spool took none of the %d records before it", IN_ROW_MAX);
	}
	round->unmoved = result == 0 ? 0 : round->unmoved + spool_is_at_fault(result);
	return result;
}
