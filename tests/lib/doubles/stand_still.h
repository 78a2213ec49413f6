/*
 * What the driver has done to itself by the kernel: to be stopped in a wait, and to have its yields refused.
 */
#pragma once

#include <stdbool.h>

/*
 * Makes a child that stops this process for a second and a half, once stand_still_until has been asked often enough.
 * That returns true some polls after. The end returns for how many seconds at least the process stood still.
 */
void stand_still_begin(void);
bool stand_still_until(void);
double stand_still_end(void);

/* From now on sched_yield fails in the kernel. */
void yields_refuse(void);
