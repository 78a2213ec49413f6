/* The waits of one rank by phase of the program, from its slot: hostile input, bounded. */
#pragma once

#include "preload/stats.h"
#include "spank/node/bounds.h"
#include "spank/record/waits/rows.h"

/* Adds what the slot says of its phases, of so many lanes. rank: its number, -1 where it is not known. */
void phases_add(struct record_rows *sum, const struct mpiwait_slot *slot, uint32_t lanes, int32_t rank,
                struct bounds *bounds);
