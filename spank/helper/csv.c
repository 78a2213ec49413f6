/*
 * mpi-wait-csv: writes the times and message sizes of one step's ranks on one node into two files. Runs as the job's
 * user, with the stats segment on descriptor 3, started by slurmstepd (run_as_user.h).
 *
 *     mpi-wait-csv JOB STEP NODE DIRECTORY
 *
 * DIRECTORY is made if it is not there. A file is written under another name and renamed, so that what stands in its
 * place, whatever it is, is neither followed nor half overwritten. Exits with an errno. Without a rank it writes none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/contract/stats.h"

#define SEGMENT        3
#define NAME_MAX_BYTES 256

static const char *const call_names[] = {
#define CALL(name, ...) "MPI_" #name,
#include "preload/contract/mpi_calls.def"
#undef CALL
};

#define CALLS (sizeof(call_names) / sizeof(call_names[0]))

struct rank {
	int32_t rank;
	uint32_t pid;
	bool finalized;
	struct mpiwait_call_stats call[CALLS]; /* all its threads together */
	uint64_t sizes;                        /* where they lie: those of a thousand ranks are not all held at once */
};

struct table {
	const char *name;
	const char *head;
	void (*print)(FILE *file, const struct rank *rank);
};

static void read_at(void *buffer, size_t size, uint64_t offset)
{
	ssize_t got = pread(SEGMENT, buffer, size, (off_t)offset);

	if (got != (ssize_t)size)
		exit(got < 0 ? errno : EBADMSG);
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void lane_add(struct rank *rank, const struct mpiwait_lane *lane)
{
	uint64_t open_ns = lane->open_last_ns - lane->open_since_ns;

	for (size_t row = 0; row < CALLS; row++) {
		struct mpiwait_call_stats *call = &rank->call[row];
		const struct mpiwait_call_stats *from = &lane->calls[row];

		call->calls += from->calls;
		call->time_ns += from->time_ns;
		call->wait_ns += from->wait_ns;
		call->longest_ns = greater(call->longest_ns, from->longest_ns);
		call->bytes += from->bytes;
		/* The wait that it died in. */
		if (!rank->finalized && lane->open_call == row + 1 && lane->open_last_ns > lane->open_since_ns) {
			call->time_ns += open_ns;
			call->wait_ns += open_ns;
			call->longest_ns = greater(call->longest_ns, open_ns);
		}
	}
}

/* Returns whether the slot is somebody's. */
static bool rank_read(uint32_t slot_count, uint32_t index, struct rank *ret_rank)
{
	static struct mpiwait_slot slot;

	read_at(&slot, sizeof(slot), MPIWAIT_SLOTS_OFFSET + (uint64_t)index * sizeof(slot));
	if (slot.state != MPIWAIT_SLOT_RUNNING && slot.state != MPIWAIT_SLOT_FINALIZED)
		return false;
	ret_rank->rank = slot.rank;
	ret_rank->pid = slot.pid;
	ret_rank->finalized = slot.state == MPIWAIT_SLOT_FINALIZED;
	ret_rank->sizes = mpiwait_sizes_offset(slot_count, index);
	for (uint32_t i = 0; i < slot.lanes && i < MPIWAIT_LANES; i++)
		lane_add(ret_rank, &slot.lane[i]);
	return true;
}

static int rank_compare(const void *left, const void *right)
{
	const struct rank *a = left, *b = right;

	return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank) : (a->pid > b->pid) - (a->pid < b->pid);
}

static size_t ranks_read(struct rank ranks[MPIWAIT_SLOTS_MAX])
{
	struct mpiwait_header header;
	size_t count = 0;

	read_at(&header, sizeof(header), 0);
	if (header.magic != MPIWAIT_MAGIC || header.version != MPIWAIT_VERSION ||
	    header.slot_size != sizeof(struct mpiwait_slot) || header.sizes_size != sizeof(struct mpiwait_sizes) ||
	    header.slot_count > MPIWAIT_SLOTS_MAX)
		exit(EBADMSG);
	for (uint32_t i = 0; i < header.slot_count && i < header.claimed; i++)
		count += rank_read(header.slot_count, i, &ranks[count]);
	qsort(ranks, count, sizeof(ranks[0]), rank_compare);
	return count;
}

static void times_print(FILE *file, const struct rank *rank)
{
	for (size_t row = 0; row < CALLS; row++) {
		const struct mpiwait_call_stats *call = &rank->call[row];

		if (call->calls > 0)
			fprintf(file, "%d,%u,%s,%s,%llu,%.9f,%.9f,%.9f,%llu\n", rank->rank, rank->pid,
			        rank->finalized ? "finalized" : "died", call_names[row],
			        (unsigned long long)call->calls, (double)greater(call->time_ns, call->wait_ns) / 1e9,
			        (double)call->wait_ns / 1e9, (double)call->longest_ns / 1e9,
			        (unsigned long long)call->bytes);
	}
}

static void sizes_print(FILE *file, const struct rank *rank)
{
	static struct mpiwait_sizes sizes;

	read_at(&sizes, sizeof(sizes), rank->sizes);
	for (size_t row = 0; row < CALLS; row++) {
		uint64_t *calls = sizes.calls[row];

		/* The largest sizes are one class. */
		for (size_t i = MPIWAIT_SIZES; i < MPIWAIT_SIZES_ROOM; i++)
			calls[MPIWAIT_SIZES - 1] += calls[i];
		for (size_t i = 0; i < MPIWAIT_SIZES; i++)
			if (calls[i] > 0)
				fprintf(file, "%d,%u,%s,%llu,%llu\n", rank->rank, rank->pid, call_names[row],
				        i == 0 ? 0ULL : 1ULL << (i - 1), (unsigned long long)calls[i]);
	}
}

static const struct table tables[] = {
        {"time", "rank,pid,end,function,calls,time_s,wait_s,longest_wait_s,bytes", times_print},
        {"msg", "rank,pid,function,bytes_from,calls", sizes_print},
};

static void table_write(int directory, const struct table *table, char *const words[], const struct rank ranks[],
                        size_t count)
{
	char name[NAME_MAX_BYTES], draft[NAME_MAX_BYTES];
	int descriptor, failed;
	FILE *file;

	if (snprintf(name, sizeof(name), "mpi-wait_%s.%s.%s.%s.csv", table->name, words[0], words[1], words[2]) >=
	            (int)sizeof(name) ||
	    snprintf(draft, sizeof(draft), ".mpi-wait_%s.%s.%s.%d", table->name, words[0], words[1], (int)getpid()) >=
	            (int)sizeof(draft))
		exit(ENAMETOOLONG);
	descriptor = openat(directory, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
	if (!file)
		exit(errno);
	fprintf(file, "%s\n", table->head);
	for (size_t i = 0; i < count; i++)
		table->print(file, &ranks[i]);
	failed = ferror(file);
	failed |= fclose(file);
	if (failed || renameat(directory, draft, directory, name)) {
		int code = errno;

		unlinkat(directory, draft, 0);
		exit(code ? code : EIO);
	}
}

int main(int word_count, char *words[])
{
	static struct rank ranks[MPIWAIT_SLOTS_MAX];
	size_t count;
	int directory;

	if (word_count != 5)
		return EINVAL;
	count = ranks_read(ranks);
	if (count == 0)
		return 0;
	umask(077); /* the user's own may be as strict, and is not known here */
	if (mkdir(words[4], 0777) < 0 && errno != EEXIST)
		return errno;
	directory = open(words[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return errno;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		table_write(directory, &tables[i], words + 1, ranks, count);
	return 0;
}
