/*
 * Where csv=DIR is to be, as the submitting host sees it: what is wrong with it, and whether the nodes must find the
 * same. Reads directories as the user; nothing is made or changed.
 */
#pragma once

#include <stdbool.h>

#include "spank/base/error.h"

/* What holds between now and the end of the step. */
struct csv_submission {
	bool is_direct;   /* no script runs before the step that could make the directory */
	bool starts_here; /* the job's working directory is ours; else relative places are not looked at */
};

enum csv_place {
	CSV_PLACE_GOOD,
	CSV_PLACE_DOUBTFUL, /* it is not so here; the nodes, or later, may be another matter */
	CSV_PLACE_BAD,      /* nor will it be there */
};

/* error says what is wrong, unless it is good. */
enum csv_place csv_place_look(const char *place, const struct csv_submission *submission, struct error *error);

/* What this process, a srun, an sbatch or an salloc, is about to do. is_srun: it starts the step itself. */
struct csv_submission csv_submission_now(bool is_srun);
