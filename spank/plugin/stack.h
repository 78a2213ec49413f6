/*
 * The other SPANK plugins of this process. Slurm loads them in the order of plugstack.conf and calls them in it; the
 * loader keeps what is loaded in the same order.
 */
#pragma once

#include <stdbool.h>

/* Returns true if a plugin that is called in each task after ours may still put the task elsewhere (pyxis). */
bool stack_has_task_init_behind(void);
