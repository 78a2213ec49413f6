#include "absence.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "preload/contract/stats.h"

#define LOOK_NS    200000L
#define LOOKS      3
#define ASLEEP_NS  1000000L
#define SPINS_MS   50
#define ENTERED_MS 60000

struct page {
	atomic_long entered, left, came, said, sleeps;
	atomic_int why;
};

static struct page *page;
static const struct mpiwait_slot *slot; /* slot of rank 1 */
static long number, sleeps_before, yields_before;
static int counts_switches;

static void sleep_ns(long ns)
{
	struct timespec asleep = {ns / 1000000000L, ns % 1000000000L};

	nanosleep(&asleep, NULL);
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static long number_of(const char *name, int base, long otherwise)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, base) : otherwise;
}

static void page_map(void)
{
	char path[512];
	void *mapped = MAP_FAILED;
	int fd;

	if (page || !getenv("LATE_FOLDER"))
		return;
	snprintf(path, sizeof(path), "%s/absence", getenv("LATE_FOLDER"));
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && ftruncate(fd, sizeof(*page)) == 0)
		mapped = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED) {
		perror(path);
		exit(3);
	}
	close(fd);
	page = mapped;
}

/* Maps the segment. Returns NULL if there is none. */
static const char *segment_map(void)
{
	static const char *segment;
	const char *path = getenv("LATE_SEGMENT");
	struct stat status;
	void *mapped = MAP_FAILED;
	int fd;

	if (segment || !path)
		return segment;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &status) == 0)
		mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED) {
		perror(path);
		exit(3);
	}
	close(fd);
	segment = mapped;
	return segment;
}

static uint32_t slots_number(void)
{
	const char *segment = segment_map();

	return segment ? ((const struct mpiwait_header *)(const void *)segment)->slot_count : 0;
}

static const struct mpiwait_slot *slot_at(uint32_t index)
{
	return (const void *)(segment_map() + MPIWAIT_SLOTS_OFFSET + (size_t)index * sizeof(struct mpiwait_slot));
}

/* Returns the slot of that process or, if pid is 0, of that rank. */
static const struct mpiwait_slot *slot_find(int rank, uint32_t pid)
{
	for (uint32_t i = 0; i < slots_number(); i++) {
		const struct mpiwait_slot *each = slot_at(i);

		if (each->pid != 0 && (pid ? each->pid == pid : each->rank == rank))
			return each;
	}
	return NULL;
}

/* Returns rank 1's slot, which it has since MPI_Init. */
static const struct mpiwait_slot *slot_map(void)
{
	if (!slot)
		slot = slot_find(1, 0);
	return slot;
}

static long lane_sleeps(const struct mpiwait_lane *lane)
{
	unsigned long rungs = (unsigned long)number_of("LATE_RUNGS", 16, 0);
	long sum = 0;

	for (uint32_t i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		if (rungs & 1UL << i)
			sum += (long)__atomic_load_n(&lane->naps[i], __ATOMIC_ACQUIRE);
	return sum;
}

long absence_sleeps(int lane)
{
	return slot_map() ? lane_sleeps(&slot->lane[lane]) : 0;
}

int absence_runs(void)
{
	const struct mpiwait_slot *own = slot_find(-1, (uint32_t)getpid());

	return own && __atomic_load_n(&own->state, __ATOMIC_ACQUIRE) == MPIWAIT_SLOT_RUNNING;
}

int absence_is_locked(void)
{
	const struct mpiwait_slot *own = slot_find(-1, (uint32_t)getpid());

	return own && (__atomic_load_n(&own->flags, __ATOMIC_RELAXED) & MPIWAIT_FLAG_LOCKED);
}

int absence_is_waited_for(void)
{
	for (uint32_t i = 0; i < slots_number() * MPIWAIT_LANES; i++) {
		const struct mpiwait_slot *each = slot_at(i / MPIWAIT_LANES);
		const struct mpiwait_lane *lane = &each->lane[i % MPIWAIT_LANES];

		if (each->pid == 0 || each->rank <= 0)
			continue;
		if (number_of("LATE_RUNGS", 16, 0) ? lane_sleeps(lane) > 0 : lane->open_call != 0)
			return 1;
	}
	return 0;
}

long absence_wakes(void)
{
	const struct mpiwait_slot *own = slot_find(-1, (uint32_t)getpid());

	return own ? (long)own->lane[0].event_wakes : 0;
}

long absence_forecasts(void)
{
	const struct mpiwait_slot *own = slot_find(-1, (uint32_t)getpid());

	return own ? (long)own->lane[0].forecasts : 0;
}

/* Opens a file of rank 1's thread in /proc. Returns NULL on failure. */
static FILE *thread_open(const char *name)
{
	char path[64];

	if (!slot_map())
		return NULL;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/%s", slot->pid, slot->lane[0].tid, name);
	return fopen(path, "re");
}

static long switches(void)
{
	FILE *file = thread_open("status");
	char line[256];
	long found = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &found) == 1)
			break;
	if (file)
		fclose(file);
	return found;
}

static long sleeps(void)
{
	long sum = 0;

	if (counts_switches)
		return switches();
	for (int i = 0; i < (int)MPIWAIT_LANES; i++)
		sum += absence_sleeps(i);
	return sum;
}

/* Returns true if rank 1's thread sleeps. */
static int is_asleep(void)
{
	FILE *file = thread_open("stat");
	char text[512] = "";
	const char *end;

	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	end = strrchr(text, ')');
	return end && strncmp(end, ") S", 3) == 0;
}

/* Returns true if rank 1 stays in one sleep over all checks. A nap is shorter than the time between two checks. A sleep
 * is counted when it is over, so the count stays while it lasts. */
static int sleeps_through(void)
{
	long before = sleeps();

	for (int i = 0; i < LOOKS; i++) {
		if (!is_asleep() || sleeps() != before)
			return 0;
		sleep_ns(ASLEEP_NS);
	}
	return is_asleep() && sleeps() == before;
}

static int is_listed(const char *name)
{
	const char *list = getenv("LATE_SPINS"), *found = list ? strstr(list, name) : NULL;
	size_t length = strlen(name);

	return found && (found == list || found[-1] == ',') && (found[length] == '\0' || found[length] == ',');
}

static int is_finalize(const char *name)
{
	return strcmp(name, "Finalize") == 0;
}

static char absence_end(double until_ms)
{
	long wanted = number_of("LATE_SLEEPS", 10, 0), before = sleeps();

	for (;;) {
		if (atomic_load(&page->left) >= number)
			return 'r';
		if (atomic_load(&page->said) >= number)
			return 'p';
		if (wanted > 0 && sleeps() - before >= wanted)
			return 'n';
		if ((counts_switches || getenv("LATE_ASLEEP")) && sleeps_through())
			return 's';
		if (now_ms() >= until_ms)
			return 't';
		sleep_ns(LOOK_NS);
	}
}

void absence_stay(int milliseconds, const char *name)
{
	double entered_until_ms = now_ms() + ENTERED_MS;
	static int gave_up;
	int is_short;
	char end;

	page_map();
	if (!page) {
		sleep_ns(milliseconds * 1000000L);
		return;
	}
	number++;
	counts_switches = is_finalize(name);
	while (atomic_load(&page->entered) < number && now_ms() < entered_until_ms)
		sleep_ns(LOOK_NS);
	is_short = is_listed(name) || (gave_up && milliseconds > SPINS_MS);
	end = absence_end(now_ms() + (is_short ? SPINS_MS : milliseconds));
	gave_up |= end == 't' && !is_listed(name);
	atomic_store(&page->sleeps, sleeps());
	atomic_store(&page->why, end);
	atomic_store(&page->came, number);
}

void absence_enter(const char *name)
{
	page_map();
	number++;
	counts_switches = is_finalize(name);
	sleeps_before = sleeps();
	yields_before = absence_yields();
	if (page)
		atomic_store(&page->entered, number);
}

long absence_rests_since(void)
{
	return page ? sleeps() - atomic_load(&page->sleeps) : 0;
}

long absence_yields(void)
{
	long (*count)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "yields_count");

	return count ? count() : 0;
}

void absence_say(void)
{
	if (page)
		atomic_store(&page->said, number);
}

char absence_leave(long *ret_sleeps)
{
	char end = 't';

	if (page) {
		atomic_store(&page->left, number);
		end = atomic_load(&page->came) < number ? 'r' : (char)atomic_load(&page->why);
	}
	*ret_sleeps = sleeps() - sleeps_before + (end == 'p' ? absence_yields() - yields_before : 0);
	return end;
}
