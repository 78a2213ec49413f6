/*
 * Makes the page of notes of a step (preload/contract/notes.h): memory of System V that belongs to the job's user, and
 * that ends with this process.
 */
#pragma once

#include <stdint.h>

#include "preload/contract/notes.h"
#include "spank/base/error.h"

struct notes {
	int id;                     /* -1: there is no page */
	struct mpiwait_notes *page; /* attached; of a task too, until its exec */
};

/*
 * Makes the page. notes_end detaches it. Returns 0, or negative errno and *ret_notes without a page. May be called in
 * slurmstepd only.
 */
int notes_begin(uint32_t uid, uint32_t gid, struct notes *ret_notes, struct error *error);
void notes_end(struct notes *notes);
