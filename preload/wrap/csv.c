/* Writes the files of csv=. The invariant stands in csv.h. */
#include "preload/wrap/csv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/mpi/next.h"
#include "preload/process/decimal.h"
#include "preload/process/process.h"
#include "preload/process/segment.h"

#define BUFFER_BYTES 32768
#define LINE_MOST    256 /* most bytes of a line */
#define NAME_BYTES   256 /* most bytes of a file name that file systems take, the NUL included */
#define DIGITS_MOST  20  /* most digits of a 64-bit number */
#define SECOND_NS    UINT64_C(1000000000)

/* A rank of the node. The ranks are sorted as the rows are. */
struct csv_rank {
	int32_t rank;
	uint32_t pid;
	uint32_t slot;
};

/* The draft that is being written. */
struct csv_file {
	int fd;
	int error;     /* errno of the first failure, 0: none */
	uint64_t left; /* bytes that the process may write into one file */
	size_t used;
	char bytes[BUFFER_BYTES];
};

static struct {
	char text[MPIWAIT_CSV_MAX]; /* value of MPI_WAIT_CSV */
	const char *directory;      /* directory for the files, NULL: nobody asked for files */
	size_t suffix;              /* length of JOB.STEP.NODE, with which the text begins */
	pid_t owner;                /* process that is counted as alive, 0: none */
} csv;

/* Buffers of the rank that writes. Other processes never touch these pages, so they cost no memory there. */
static struct csv_rank ranks[MPIWAIT_SLOTS_MAX];
static struct mpiwait_call_stats sums[CALL_ROWS];
static struct csv_file out;

/* Writes the buffered bytes into the draft. A failure stays in out.error, and later calls write nothing. */
static void flush(void)
{
	size_t done = 0;

	/* A write beyond the limit would raise SIGXFSZ, which ends the program. */
	if (!out.error && out.used > out.left)
		out.error = EFBIG;
	while (!out.error && done < out.used) {
		ssize_t wrote = write(out.fd, out.bytes + done, out.used - done);

		if (wrote > 0)
			done += (size_t)wrote;
		else if (wrote == 0 || errno != EINTR)
			out.error = wrote < 0 ? errno : EIO;
	}
	out.left -= done;
	out.used = 0;
}

/* Adds bytes to the buffer, which has room: line_begin sees to that. */
static void add_bytes(const char *text, size_t length)
{
	memcpy(out.bytes + out.used, text, length);
	out.used += length;
}

static void add_text(const char *text)
{
	add_bytes(text, strlen(text));
}

/* Adds a number of `least` or more digits, with zeros before it. */
static void add_digits(uint64_t number, int least)
{
	char digits[DIGITS_MOST];
	int at = DIGITS_MOST;

	do
		digits[--at] = (char)('0' + number % 10);
	while ((number /= 10) > 0 || DIGITS_MOST - at < least);
	add_bytes(digits + at, (size_t)(DIGITS_MOST - at));
}

/* Adds a field and the comma behind it, as add_seconds and add_call do. */
static void add_number(uint64_t number)
{
	add_digits(number, 1);
	add_text(",");
}

/* Adds a time in seconds with nine decimals. */
static void add_seconds(uint64_t ns)
{
	add_digits(ns / SECOND_NS, 1);
	add_text(".");
	add_digits(ns % SECOND_NS, 9);
	add_text(",");
}

/* Begins a line with the rank's number and process id. */
static void line_begin(const struct csv_rank *rank)
{
	if (out.used > sizeof(out.bytes) - LINE_MOST)
		flush();
	if (rank->rank < 0)
		add_text("-");
	add_number(rank->rank < 0 ? 0 - (uint64_t)rank->rank : (uint64_t)rank->rank);
	add_number(rank->pid);
}

/* Ends the line: the newline replaces the comma behind the last field. */
static void line_end(void)
{
	out.bytes[out.used - 1] = '\n';
}

static void add_call(enum call_row row)
{
	add_text("MPI_");
	add_text(next_call_name(row));
	add_text(",");
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * Adds a lane, the counts of one thread, to the sums: one sum for each row of mpi_calls.def. If the lane has an open
 * wait, its time so far counts too: a killed rank died in it. If the rank has ended, it is in no wait, and an open one
 * is a leftover.
 */
static void lane_add(const struct mpiwait_lane *lane, bool ended)
{
	uint64_t open_ns = lane->open_last_ns - lane->open_since_ns;

	for (uint32_t row = 0; row < CALL_ROWS; row++) {
		const struct mpiwait_call_stats *from = &lane->calls[row];
		struct mpiwait_call_stats *sum = &sums[row];

		sum->calls += from->calls;
		sum->time_ns += from->time_ns;
		sum->wait_ns += from->wait_ns;
		sum->longest_ns = greater(sum->longest_ns, from->longest_ns);
		sum->bytes += from->bytes;
		if (ended || lane->open_call != row + 1 || lane->open_last_ns <= lane->open_since_ns)
			continue;
		sum->time_ns += open_ns;
		sum->wait_ns += open_ns;
		sum->longest_ns = greater(sum->longest_ns, open_ns);
	}
}

/* Adds the lines of a rank to the table of times: one line for each function that it called. */
static void times_add(const struct segment_view *view, const struct csv_rank *rank)
{
	const struct mpiwait_slot *slot = segment_view_slot(view, rank->slot);
	bool ended = slot && slot->state == MPIWAIT_SLOT_FINALIZED;

	memset(sums, 0, sizeof(sums));
	for (uint32_t i = 0; slot && i < slot->lanes && i < MPIWAIT_LANES; i++)
		lane_add(&slot->lane[i], ended);
	segment_unmap(slot, sizeof(*slot));
	if (!slot)
		out.error = ENOMEM;
	for (uint32_t row = 0; row < CALL_ROWS; row++) {
		const struct mpiwait_call_stats *sum = &sums[row];

		if (sum->calls == 0)
			continue;
		line_begin(rank);
		add_text(ended ? "finalized," : "died,");
		add_call((enum call_row)row);
		add_number(sum->calls);
		add_seconds(greater(sum->time_ns, sum->wait_ns));
		add_seconds(sum->wait_ns);
		add_seconds(sum->longest_ns);
		add_number(sum->bytes);
		line_end();
	}
}

/* Adds the lines of a rank and function to the table of sizes: one line for each class that has calls. */
static void sizes_row_add(const struct csv_rank *rank, enum call_row row, const uint64_t calls[MPIWAIT_SIZES_ROOM])
{
	for (uint32_t i = 0; i < MPIWAIT_SIZES; i++) {
		uint64_t count = calls[i];

		/* Sizes from the last class on are one class. */
		for (uint32_t more = MPIWAIT_SIZES; i == MPIWAIT_SIZES - 1 && more < MPIWAIT_SIZES_ROOM; more++)
			count += calls[more];
		if (count == 0)
			continue;
		line_begin(rank);
		add_call(row);
		add_number(i == 0 ? 0 : UINT64_C(1) << (i - 1));
		add_number(count);
		line_end();
	}
}

/* Adds the lines of a rank to the table of sizes. */
static void sizes_add(const struct segment_view *view, const struct csv_rank *rank)
{
	const struct mpiwait_sizes *sizes = segment_view_sizes(view, rank->slot);

	for (uint32_t row = 0; sizes && row < CALL_ROWS; row++)
		sizes_row_add(rank, (enum call_row)row, sizes->calls[row]);
	segment_unmap(sizes, sizeof(*sizes));
	if (!sizes)
		out.error = ENOMEM;
}

/* The files, each a table. */
static const struct table {
	const char *name; /* begin of the file's name */
	const char *head; /* first line, which names the columns */
	void (*add)(const struct segment_view *view, const struct csv_rank *rank);
} tables[] = {
        {"mpi-wait_time.", "rank,pid,end,function,calls,time_s,wait_s,longest_wait_s,bytes\n", times_add},
        {"mpi-wait_msg.", "rank,pid,function,bytes_from,calls\n", sizes_add},
};

#define TABLES (sizeof(tables) / sizeof(tables[0]))

static bool is_before(const struct csv_rank *left, const struct csv_rank *right)
{
	return left->rank != right->rank ? left->rank < right->rank : left->pid < right->pid;
}

/* Inserts a rank in order. The C library's qsort may allocate, and the slots are nearly in this order already. */
static void rank_insert(const struct csv_rank *rank, size_t count)
{
	for (; count > 0 && is_before(rank, &ranks[count - 1]); count--)
		ranks[count] = ranks[count - 1];
	ranks[count] = *rank;
}

/* Fills `ranks` with the ranks whose slots have been claimed. Returns their number. */
static size_t ranks_find(const struct segment_view *view)
{
	size_t count = 0;

	for (uint32_t i = 0; i < view->slots; i++) {
		const struct mpiwait_slot *slot = segment_view_slot(view, i);
		struct csv_rank rank = {.slot = i};
		bool taken = false;

		if (slot) {
			taken = slot->state == MPIWAIT_SLOT_RUNNING || slot->state == MPIWAIT_SLOT_FINALIZED;
			rank.rank = slot->rank;
			rank.pid = slot->pid;
		}
		segment_unmap(slot, sizeof(*slot));
		if (taken)
			rank_insert(&rank, count++);
	}
	return count;
}

/* Makes a file name: `begin`, the table's name, JOB.STEP.NODE, `end`. Returns false if it is too long. */
static bool name_make(const char *begin, const struct table *table, const char *end, char name[NAME_BYTES])
{
	char *at = name;

	if (strlen(begin) + strlen(table->name) + csv.suffix + strlen(end) >= NAME_BYTES)
		return false;
	at = stpcpy(stpcpy(at, begin), table->name);
	memcpy(at, csv.text, csv.suffix);
	strcpy(at + csv.suffix, end);
	return true;
}

/*
 * Creates the draft. A draft that exists was left by a rank that was killed here in an earlier run of the job: it is
 * removed.
 */
static int draft_open(int directory, const char *draft)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(directory, draft, flags, 0666);

	if (fd >= 0 || errno != EEXIST || unlinkat(directory, draft, 0) < 0)
		return fd;
	return openat(directory, draft, flags, 0666);
}

/*
 * Writes a table into the open draft: its head, and the lines of the first `count` of `ranks`. Stops at the first
 * failure, which is in out.error.
 */
static void draft_fill(const struct table *table, const struct segment_view *view, size_t count)
{
	struct rlimit limit;

	out.error = 0;
	out.used = 0;
	out.left = getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
	add_text(table->head);
	for (size_t i = 0; i < count && !out.error; i++)
		table->add(view, &ranks[i]);
	flush();
}

/* Creates, fills and closes the draft of a table. Returns 0 or an errno. */
static int draft_write(const struct table *table, const struct segment_view *view, size_t count, int directory,
                       const char *draft)
{
	out.fd = draft_open(directory, draft);
	if (out.fd < 0)
		return errno;
	draft_fill(table, view, count);
	if (close(out.fd) < 0 && !out.error)
		out.error = errno;
	return out.error;
}

/* Opens the directory, which is created if necessary. Returns a descriptor, or -1 with errno. */
static int directory_open(void)
{
	if (mkdir(csv.directory, 0777) < 0 && errno != EEXIST)
		return -1;
	return open(csv.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Writes each file under a name that no other rank of the step uses, and renames all files when they are complete.
 * ordinal: number of this rank among those that have left MPI, which makes the names differ. Returns 0 or an errno.
 */
static int tables_write(const struct segment_view *view, int directory, uint32_t ordinal)
{
	char name[TABLES][NAME_BYTES], draft[TABLES][NAME_BYTES], end[16] = ".";
	size_t count = ranks_find(view);
	int error = 0;

	*decimal_write(end + 1, ordinal) = '\0';
	for (size_t i = 0; i < TABLES; i++)
		if (!name_make("", &tables[i], ".csv", name[i]) || !name_make(".", &tables[i], end, draft[i]))
			return ENAMETOOLONG;
	for (size_t i = 0; i < TABLES && !error; i++)
		error = draft_write(&tables[i], view, count, directory, draft[i]);
	for (size_t i = 0; i < TABLES && !error; i++)
		if (renameat(directory, draft[i], directory, name[i]) < 0)
			error = errno;
	for (size_t i = 0; i < TABLES && error; i++)
		unlinkat(directory, draft[i], 0);
	return error;
}

/* Returns what the record says of an errno. */
static enum mpiwait_csv outcome_of(int error)
{
	switch (error) {
	case 0:
		return MPIWAIT_CSV_WRITTEN;
	case ENOENT:
	case ENOTDIR:
		return MPIWAIT_CSV_NO_DIRECTORY;
	case EACCES:
	case EPERM:
	case EROFS:
		return MPIWAIT_CSV_NOT_ALLOWED;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return MPIWAIT_CSV_NO_SPACE;
	default:
		return MPIWAIT_CSV_FAILED;
	}
}

/* Writes all files. Returns the outcome, for the segment's header. */
static enum mpiwait_csv files_write(uint32_t ordinal)
{
	struct segment_view view;
	int directory, error;

	if (!segment_view_open(&process.config, &view))
		return MPIWAIT_CSV_FAILED;
	directory = directory_open();
	error = directory < 0 ? errno : tables_write(&view, directory, ordinal);
	if (directory >= 0)
		close(directory);
	segment_view_close(&view);
	return outcome_of(error);
}

void csv_load(void)
{
	const char *text = getenv(MPIWAIT_CSV_VARIABLE);
	const char *colon = text ? strchr(text, ':') : NULL;

	if (!colon || strlen(text) >= sizeof(csv.text))
		return;
	strcpy(csv.text, text);
	csv.suffix = (size_t)(colon - text);
	csv.directory = csv.text + csv.suffix + 1;
}

void csv_rank_begins(void)
{
	if (!csv.directory || process.node == segment_header_private())
		return;
	csv.owner = getpid();
	__atomic_fetch_add(&process.node->alive, 1, __ATOMIC_ACQ_REL);
}

/*
 * Writes the files as the last rank that leaves. Ranks that begin and leave meanwhile write too, and may have been
 * faster. So this rank writes again until none has left meanwhile, or another one is in MPI.
 */
static void last_leaves(struct mpiwait_header *header, uint32_t ordinal)
{
	uint32_t seen;

	for (int round = 0; round < (int)MPIWAIT_SLOTS_MAX; round++) {
		seen = __atomic_load_n(&header->left, __ATOMIC_ACQUIRE);
		__atomic_store_n(&header->csv, files_write(ordinal), __ATOMIC_RELEASE);
		if (__atomic_load_n(&header->left, __ATOMIC_ACQUIRE) == seen ||
		    __atomic_load_n(&header->alive, __ATOMIC_ACQUIRE) > 0)
			return;
	}
}

void csv_rank_leaves(void)
{
	int saved = errno;
	uint32_t ordinal;

	if (csv.owner == 0 || csv.owner != getpid())
		return;
	csv.owner = 0;
	ordinal = __atomic_add_fetch(&process.node->left, 1, __ATOMIC_ACQ_REL);
	if (__atomic_sub_fetch(&process.node->alive, 1, __ATOMIC_ACQ_REL) == 0)
		last_leaves(process.node, ordinal);
	errno = saved;
}
