/* A SPANK plugin that tells whether another plugin with a task_init stands behind it. */
#include "spank/plugin/stack.h"

int slurm_spank_task_init(void);
bool probe_sees_one_behind(void);

int slurm_spank_task_init(void)
{
	return 0;
}

bool probe_sees_one_behind(void)
{
	return stack_has_task_init_behind();
}
