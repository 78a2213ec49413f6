#include "spank/base/run_directory.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int run_directory_init(const char *root, struct run_directory *ret_run_directory)
{
	struct run_directory run_directory = {0};
	const char *node = getenv("SLURMD_NODENAME");

	if (node && strlen(node) < sizeof(run_directory.node))
		strcpy(run_directory.node, node);
	else if (node || gethostname(run_directory.node, sizeof(run_directory.node) - 1))
		return -EINVAL;
	else
		run_directory.node[strcspn(run_directory.node, ".")] = '\0';
	if (!files_name_ok(run_directory.node))
		return -EINVAL;
	if ((size_t)snprintf(run_directory.root, sizeof(run_directory.root), "%s", root ? root : STATE_ROOT) >=
	    sizeof(run_directory.root))
		return -EINVAL;
	*ret_run_directory = run_directory;
	return 0;
}

int run_directory_open_node(const struct run_directory *run_directory)
{
	cleanup_close int root = files_directory_path(run_directory->root, 0700);

	return root < 0 ? root : files_directory(root, run_directory->node, 0700);
}

int run_directory_make_job(const struct run_directory *run_directory, uint32_t job_id, mode_t mode)
{
	cleanup_close int node = run_directory_open_node(run_directory);
	char name[16];

	if (node < 0)
		return node;
	snprintf(name, sizeof(name), "%" PRIu32, job_id);
	return files_directory(node, name, mode);
}

int run_directory_open_job(const struct run_directory *run_directory, uint32_t job_id)
{
	return run_directory_make_job(run_directory, job_id, 0);
}

void state_step_name(uint32_t step_id, char name[16])
{
	if (step_id == STATE_STEP_EXTERN)
		strcpy(name, "extern");
	else if (step_id == STATE_STEP_BATCH)
		strcpy(name, "batch");
	else if (step_id == STATE_STEP_INTERACTIVE)
		strcpy(name, "interactive");
	else
		snprintf(name, 16, "%" PRIu32, step_id);
}
