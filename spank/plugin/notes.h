/*
 * Makes the page of notes of a step (preload/contract/notes.h): System V shared memory that belongs to the job's user
 * and ends with this process.
 */
#pragma once

#include <stdint.h>

#include "preload/contract/notes.h"
#include "spank/base/error.h"

struct notes {
	int id;                     /* id of the shared memory, -1: there is no page */
	struct mpiwait_notes *page; /* attached memory; a forked task has it too until its exec */
};

/*
 * Makes the page, which notes_end detaches. Returns 0, or negative errno and *ret_notes without a page. Called in
 * slurmstepd only.
 */
int notes_begin(uint32_t uid, uint32_t gid, struct notes *ret_notes, struct error *error);
void notes_end(struct notes *notes);
