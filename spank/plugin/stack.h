/*
 * The other SPANK plugins of this process. Slurm loads and calls them in the order of plugstack.conf; the loader's list
 * has the same order.
 */
#pragma once

#include <stdbool.h>

/*
 * Returns true if a plugin behind ours is called in each task, so that it may still move the task into another root
 * directory (pyxis).
 */
bool stack_has_task_init_behind(void);
