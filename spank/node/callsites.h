/* The waits of one rank by where the program called MPI from, out of its slot: hostile input, bounded. */
#pragma once

#include "preload/stats.h"
#include "spank/node/bounds.h"
#include "spank/record/waits/rows.h"

/* Adds what the slot says of its call sites, of so many lanes. rank: its number, -1 where it is not known. */
void callsites_of(struct record_rows *sum, const struct mpiwait_sites *sites, uint32_t lanes, int32_t rank,
                  struct bounds *bounds);
