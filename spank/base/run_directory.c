#include "spank/base/run_directory.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int state_place_init(const char *root, struct state_place *ret_place)
{
	struct state_place place = {0};
	const char *node = getenv("SLURMD_NODENAME");

	if (node && strlen(node) < sizeof(place.node))
		strcpy(place.node, node);
	else if (node || gethostname(place.node, sizeof(place.node) - 1))
		return -EINVAL;
	else
		place.node[strcspn(place.node, ".")] = '\0';
	if (!files_name_ok(place.node))
		return -EINVAL;
	if ((size_t)snprintf(place.root, sizeof(place.root), "%s", root ? root : STATE_ROOT) >= sizeof(place.root))
		return -EINVAL;
	*ret_place = place;
	return 0;
}

int state_open_node(const struct state_place *place)
{
	cleanup_close int root = files_directory_path(place->root, 0700);

	return root < 0 ? root : files_directory(root, place->node, 0700);
}

int state_make_job(const struct state_place *place, uint32_t job_id, mode_t mode)
{
	cleanup_close int node = state_open_node(place);
	char name[16];

	if (node < 0)
		return node;
	snprintf(name, sizeof(name), "%" PRIu32, job_id);
	return files_directory(node, name, mode);
}

int state_open_job(const struct state_place *place, uint32_t job_id)
{
	return state_make_job(place, job_id, 0);
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
