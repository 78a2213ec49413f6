/*
 * Makes the kernel stop the driver in a wait, and refuse its yields.
 */
#pragma once

#include <stdbool.h>

/*
 * stand_still_begin starts a child that stops this process for 1.5 s when stand_still_until has been called often
 * enough. stand_still_until returns true some calls after the stop. stand_still_end returns the shortest time in
 * seconds for which the process can have been stopped.
 */
void stand_still_begin(void);
bool stand_still_until(void);
double stand_still_end(void);

/* Makes sched_yield fail in the kernel from now on. */
void yields_refuse(void);
