#include "spank/store/budget.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/json.h"
#include "spank/record/parse.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define SUM_FILE     ".outbox"
#define SUM_MAX      4096
#define BUDGET_MAX   (256ULL * 1024 * 1024)
#define BUDGET_LEAST (16ULL * 1024 * 1024)
#define BLOCK        4096        /* bytes that a file takes of a disk at least */
#define SHORT_MAX    (64 * 1024) /* bytes of a record when half of the budget is used */
#define LEAST_MAX    4096        /* bytes of a record when the budget is used up */
#define AGAIN_S      600         /* after this time the outbox is counted again */
#define AGAIN_FULL_S 60          /* the same when half is used: the sum does not see records that left the outbox */

/* Returns how many bytes of the disk a file of that length takes. */
static uint64_t space_of(size_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* Returns how many bytes the records in the outbox take on the disk. */
static uint64_t outbox_count(int outbox)
{
	cleanup_closedir DIR *entries = files_entries(outbox);
	const struct dirent *entry;
	struct stat status;
	uint64_t sum = 0;

	while (entries && (entry = readdir(entries)))
		if (entry->d_name[0] != '.' && fstatat(outbox, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
			sum += space_of((size_t)status.st_size);
	return sum;
}

static void sum_store(const struct budget *budget)
{
	json_auto_t *json =
	        json_pack("{s:I, s:I}", "used", (json_int_t)budget->used, "counted_s", (json_int_t)budget->counted_s);

	if (json)
		files_write_json(budget->node, SUM_FILE, 0600, json, false);
}

/* Returns how many bytes the outbox may take: a hundredth of its file system, but 16 MiB to 256 MiB. */
static uint64_t outbox_most(int outbox)
{
	struct statvfs system;
	uint64_t part = BUDGET_MAX;

	if (fstatvfs(outbox, &system) == 0)
		part = (uint64_t)system.f_blocks * system.f_frsize / 100;
	return part < BUDGET_LEAST ? BUDGET_LEAST : part < BUDGET_MAX ? part : BUDGET_MAX;
}

void budget_init(int node, int outbox, struct budget *ret_budget)
{
	struct budget budget = {.node = node, .most = outbox_most(outbox)};
	uint64_t now_s = (uint64_t)clock_wall_s(), again_s;
	json_auto_t *json = NULL;

	if (files_read_json(node, SUM_FILE, SUM_MAX, &json) || !integer_get(json, "used", INT64_MAX, &budget.used) ||
	    !integer_get(json, "counted_s", INT64_MAX, &budget.counted_s))
		budget.counted_s = 0;
	again_s = budget.used < budget.most / 2 ? AGAIN_S : AGAIN_FULL_S;
	if (now_s < budget.counted_s || now_s - budget.counted_s >= again_s) {
		budget.used = outbox_count(outbox);
		budget.counted_s = now_s;
		sum_store(&budget);
	}
	*ret_budget = budget;
}

size_t budget_record_most(const struct budget *budget)
{
	if (budget->used < budget->most / 2)
		return NODE_RECORD_MAX;
	return budget->used < budget->most ? SHORT_MAX : LEAST_MAX;
}

void budget_add(struct budget *budget, size_t bytes)
{
	budget->used += space_of(bytes);
	sum_store(budget);
}
