/*
 * The table of calls and their ends. The rules stand in forecast.h.
 */
#include "preload/budget/forecast.h"

#include <string.h>

#include "preload/contract/hash.h"

#define EXIT_FIRST_NS UINT64_C(30000)
#define EXIT_STEPS    32u
#define TAIL_ONE      64u
#define BACK_LEAST    16u   /* divisor of the margin for what a call in time gives back, with two ranks */
#define BACK_MOST     384u  /* the same divisor, with 64 ranks or more */
#define LEVEL_NS      2250u /* time that one level of a tree of ranks takes to pass on what has come */
#define CLASS_FIRST   15    /* log2 of the first class's limit in ns: 32 us; each class is four times as long */

uint64_t forecast_call(uint64_t caller, uint64_t row, uint64_t handle, uint64_t peer)
{
	return hash_add(hash_add(hash_add(hash_add(0, caller), row), handle), peer) | 1;
}

/* Returns the number of levels of a binary tree of the job's ranks. */
static unsigned levels(const struct forecast *forecast)
{
	return forecast->ranks > 1 ? 32 - (unsigned)__builtin_clz(forecast->ranks - 1) : 0;
}

/* Returns the margin of a key before anything was learned of it. */
static uint32_t margin_first_ns(const struct forecast *forecast)
{
	return (uint32_t)FORECAST_NAP_NS + levels(forecast) * LEVEL_NS;
}

/* Returns the class of naps of that length. */
static unsigned class_of(uint64_t ask_ns)
{
	unsigned class = (unsigned)(64 - __builtin_clzll(ask_ns >> CLASS_FIRST << 1 | 1)) / 2;

	return class < FORECAST_CLASSES ? class : FORECAST_CLASSES - 1;
}

/* A class without a measurement takes that of the next shorter class. */
uint64_t forecast_exit_ns(const struct forecast *forecast, uint64_t ask_ns)
{
	for (unsigned class = class_of(ask_ns) + 1; class -- > 0;)
		if (forecast->exit_ns[class] != 0)
			return forecast->exit_ns[class];
	return EXIT_FIRST_NS;
}

uint64_t forecast_part_ns(const struct forecast *forecast, uint64_t ask_ns)
{
	uint64_t tail_ns = forecast->tail_ns[class_of(ask_ns)], short_ns = FORECAST_SHORT_NS;
	uint64_t cost_ns = forecast_exit_ns(forecast, short_ns) + FORECAST_NAP_NS;
	const struct forecast_entry *entry = forecast->entry;

	if (ask_ns > 2 * short_ns && !account_knows(&entry->periods) && entry->margin_ns >= margin_first_ns(forecast))
		return ask_ns / 2;
	if (ask_ns < 2 * short_ns || (tail_ns != 0 && tail_ns < forecast->tail_ns[class_of(short_ns)] + cost_ns))
		return ask_ns;
	tail_ns = tail_ns < ask_ns / 2 ? tail_ns : ask_ns / 2;
	return ask_ns - (tail_ns > short_ns ? tail_ns : short_ns);
}

/* Moves a running quantile: one sample in TAIL_ONE is larger. Returns its new value. */
static uint64_t tail_moved(uint64_t tail_ns, uint64_t over_ns)
{
	uint64_t known_ns = tail_ns != 0 ? tail_ns : FORECAST_SHORT_NS, unit_ns = known_ns / (2 * TAIL_ONE) + 1;

	return over_ns > known_ns ? known_ns + (TAIL_ONE - 1) * unit_ns : known_ns - (known_ns > unit_ns ? unit_ns : 0);
}

/*
 * The first nap of a class counts at most for what is known of the shorter class: the kernel may end a single nap late.
 */
void forecast_woke(struct forecast *forecast, uint64_t ask_ns, uint64_t actual_ns)
{
	uint64_t *exit_ns = &forecast->exit_ns[class_of(ask_ns)], *tail_ns = &forecast->tail_ns[class_of(ask_ns)];
	uint64_t known_ns = forecast_exit_ns(forecast, ask_ns), sample_ns = actual_ns > ask_ns ? actual_ns - ask_ns : 0;

	*tail_ns = tail_moved(*tail_ns, sample_ns > known_ns ? sample_ns - known_ns : 0);
	if (*exit_ns == 0)
		*exit_ns = 1 + (sample_ns < known_ns ? sample_ns : known_ns);
	else if (sample_ns > *exit_ns)
		*exit_ns += *exit_ns / EXIT_STEPS + 1;
	else
		*exit_ns -= *exit_ns / EXIT_STEPS;
}

/* Returns how many periods passed since the same call ended before, 0 if unknown. */
static uint32_t periods_since(const struct forecast *forecast, const struct forecast_entry *entry)
{
	uint32_t calls = forecast->number - entry->number;

	return entry->ended_ns != 0 && entry->stride != 0 && calls % entry->stride == 0 ? calls / entry->stride : 0;
}

/* The shortest kept end, and the two longest. */
struct range {
	uint32_t least, second, most;
};

/* Returns the range of the kept ends but the latest `from`; all 0 without an end. */
static struct range range_of(const struct forecast_ends *ends, unsigned from)
{
	struct range range = {ends->count > from ? UINT32_MAX : 0, 0, 0};

	for (unsigned i = from; i < ends->count; i++) {
		uint32_t at = ends->at[i], less = at < range.most ? at : range.most;

		range.least = at < range.least ? at : range.least;
		range.second = less > range.second ? less : range.second;
		range.most = at > range.most ? at : range.most;
	}
	return range;
}

/*
 * Returns by how much own work must change to tell of a change: by a sixteenth of the wait, and by 0.1 ms. One end may
 * be an outlier: the longest does not count.
 */
static uint64_t work_least_ns(const struct forecast_entry *entry)
{
	uint64_t part_ns = ((uint64_t)range_of(&entry->wait, 0).second << FORECAST_UNIT) / 16;

	return part_ns > FORECAST_SHORT_NS ? part_ns : FORECAST_SHORT_NS;
}

/*
 * Measures the thread's own work since the open call ended before, without its waits in other calls. When a job's steps
 * become shorter, each rank sees that at once: no rank's nap can hide it.
 */
static void work_open(struct forecast *forecast)
{
	static const struct forecast_entry none;
	const struct forecast_entry *entry = forecast->entry ? forecast->entry : &none;
	uint64_t work_ns = forecast->began_ns - entry->ended_ns - forecast->waited_ns + entry->waited_ns;
	uint32_t periods = periods_since(forecast, entry);

	forecast->work_ns = periods > 0 ? work_ns / periods : 0;
	forecast->shorter = forecast->work_ns != 0 && forecast->work_ns < entry->work_ns - entry->work_ns / 4 &&
	                    forecast->work_ns + work_least_ns(entry) < entry->work_ns;
}

/* Learns how long the thread worked before the call, and adds the call's wait to the waits so far. */
static void work_learn(struct forecast *forecast, struct forecast_entry *entry, struct forecast_seen seen)
{
	if (forecast->shorter || entry->work_ns == 0)
		entry->work_ns = forecast->work_ns;
	else if (seen.look != 0 && forecast->work_ns != 0)
		entry->work_ns += forecast->work_ns / FORECAST_ENDS - entry->work_ns / FORECAST_ENDS;
	forecast->waited_ns += seen.ended_ns - forecast->began_ns;
	entry->waited_ns = forecast->waited_ns;
}

/* Returns the time that the ends of the second clock count from, 0 if that clock tells no more than the first. */
static uint64_t since_origin(const struct forecast *forecast, const struct forecast_entry *entry)
{
	struct range since = range_of(&entry->since, 0), wait = range_of(&entry->wait, 0);
	uint32_t periods = periods_since(forecast, entry);

	/* One end may be an outlier: the longest does not count. */
	if (entry->since.count < FORECAST_KNOWN || periods == 0 ||
	    (since.second - since.least) / 2 > wait.second - wait.least)
		return 0;
	return entry->ended_ns + ((uint64_t)since.least << FORECAST_UNIT) * (periods - 1);
}

void forecast_open(struct forecast *forecast, uint64_t call, uint32_t number, uint64_t now_ns)
{
	struct forecast_entry *set;

	forecast->call = call;
	forecast->key = hash_add(hash_add(0, call), forecast->previous) | 1;
	forecast->began_ns = now_ns;
	forecast->number = number;
	forecast->stamp++;
	forecast->entry = NULL;
	set = forecast->table[forecast->key >> 32 & (FORECAST_SETS - 1)];
	for (unsigned way = 0; way < FORECAST_WAYS; way++)
		if (set[way].key == forecast->key) {
			set[way].stamp = forecast->stamp;
			forecast->entry = &set[way];
		}
	forecast->origin_ns = forecast->entry ? since_origin(forecast, forecast->entry) : 0;
	work_open(forecast);
}

/* Replaces the entry that was not used for longest. */
static struct forecast_entry *entry_make(struct forecast *forecast)
{
	struct forecast_entry *set = forecast->table[forecast->key >> 32 & (FORECAST_SETS - 1)], *oldest = &set[0];

	for (unsigned way = 1; way < FORECAST_WAYS; way++)
		if (forecast->stamp - set[way].stamp > forecast->stamp - oldest->stamp)
			oldest = &set[way];
	*oldest = (struct forecast_entry){
	        .key = forecast->key, .stamp = forecast->stamp, .margin_ns = margin_first_ns(forecast)};
	return oldest;
}

uint64_t forecast_end(const struct forecast *forecast, uint64_t now_ns, uint64_t *ret_past_ns)
{
	const struct forecast_ends *ends = forecast->origin_ns ? &forecast->entry->since : &forecast->entry->wait;
	uint64_t origin_ns = forecast->origin_ns ? forecast->origin_ns : forecast->began_ns, earliest_ns = UINT64_MAX;
	unsigned count = 0;

	*ret_past_ns = 0;
	for (unsigned i = 0; i < ends->count; i++) {
		uint64_t end_ns = origin_ns + ((uint64_t)ends->at[i] << FORECAST_UNIT);

		end_ns = end_ns > forecast->began_ns ? end_ns : forecast->began_ns;
		if (now_ns >= end_ns + (end_ns - forecast->began_ns) / 4) {
			*ret_past_ns = end_ns > *ret_past_ns ? end_ns : *ret_past_ns;
			continue;
		}
		count++;
		earliest_ns = end_ns < earliest_ns ? end_ns : earliest_ns;
	}
	return count >= FORECAST_KNOWN ? earliest_ns : 0;
}

uint64_t forecast_least_ns(const struct forecast *forecast)
{
	return (uint64_t)range_of(&forecast->entry->wait, 0).least << FORECAST_UNIT;
}

/*
 * A margin shrinks only once periods are compared. Until then an expected end tells more than the shortest time so far.
 */
bool forecast_is_late(const struct forecast *forecast, uint64_t landed_ns, uint64_t aimed_ns, uint64_t ended_ns)
{
	uint64_t own_ns = forecast->entry->own_ns, margin_ns = forecast->entry->margin_ns;
	bool is_expected = margin_ns >= margin_first_ns(forecast) && ended_ns + margin_ns / 2 >= aimed_ns &&
	                   ended_ns <= aimed_ns + margin_ns / 2;

	return !(own_ns && is_expected) && ended_ns < landed_ns + (levels(forecast) + 1) * LEVEL_NS + own_ns * 3 / 2;
}

void forecast_own(struct forecast *forecast, uint64_t took_ns)
{
	struct forecast_entry *entry = forecast->entry;

	if (entry->own_ns == 0 || took_ns < entry->own_ns)
		entry->own_ns = took_ns < UINT32_MAX ? (uint32_t)took_ns : UINT32_MAX;
}

/* Returns a time in the unit of kept ends; 0 for a negative one. */
static uint32_t units(uint64_t from_ns, uint64_t until_ns)
{
	uint64_t many = until_ns > from_ns ? (until_ns - from_ns) >> FORECAST_UNIT : 0;

	return many < UINT32_MAX ? (uint32_t)many : UINT32_MAX;
}

/* Keeps an end as the latest, in place of the oldest one if there is no room. */
static void end_keep(struct forecast_ends *ends, uint32_t at)
{
	memmove(&ends->at[1], &ends->at[0], sizeof(ends->at) - sizeof(ends->at[0]));
	ends->at[0] = at;
	ends->count = (uint8_t)(ends->count + (ends->count < FORECAST_ENDS));
}

/*
 * Learns how many calls of the function lie between two ends. Returns how many periods passed since the end before, 0
 * if unknown.
 */
static uint32_t stride_learn(const struct forecast *forecast, struct forecast_entry *entry)
{
	uint32_t calls = forecast->number - entry->number, periods = periods_since(forecast, entry);
	bool more = entry->stride != 0 && calls > entry->stride;

	entry->strayed = (uint8_t)(more ? entry->strayed + 1 : 0);
	if (calls != entry->stride && (!more || entry->strayed == FORECAST_ENDS)) {
		entry->stride = calls;
		entry->since = (struct forecast_ends){.count = 0};
		entry->periods = (struct account_periods){.count = 0};
		periods = entry->strayed = 0;
	}
	entry->number = forecast->number;
	return periods;
}

/*
 * Counts the waits in a row that outlast all known ends by more than a quarter, or follow work that was longer than
 * twice the usual. The ends of such waits that are kept, in a look say, do not count as known. Returns true if
 * FORECAST_KNOWN waits show that the program has changed, and forgets the ends. With two ranks alone: among more,
 * others may have slept.
 */
static bool change_learn(const struct forecast *forecast, struct forecast_entry *entry, struct forecast_seen seen)
{
	uint32_t known = range_of(&entry->wait, entry->kept).most;
	uint32_t wait = units(forecast->began_ns, seen.ended_ns);
	bool outlasts = entry->wait.count >= FORECAST_KNOWN && !seen.late && wait > known + known / 4 &&
	                wait >= FORECAST_SHORT_NS / 2 >> FORECAST_UNIT;
	bool longer = entry->work_ns != 0 && forecast->work_ns > 2 * entry->work_ns + work_least_ns(entry);

	entry->outlasted = (uint8_t)(forecast->ranks <= 2 && (outlasts || longer) ? entry->outlasted + 1 : 0);
	entry->kept = entry->outlasted > 1 ? entry->kept : 0;
	if (entry->outlasted < FORECAST_KNOWN)
		return false;
	entry->work_ns = entry->wait.count = entry->since.count = entry->outlasted = entry->looked = 0;
	return true;
}

/* Keeps the end of the call by both clocks, if it may be kept (forecast.h). */
static void ends_learn(const struct forecast *forecast, struct forecast_entry *entry, struct forecast_seen seen,
                       uint32_t periods, bool changed)
{
	uint32_t wait = units(forecast->began_ns, seen.ended_ns), margin = entry->margin_ns >> FORECAST_UNIT;
	/* At least one of several periods was as short as their mean. */
	uint32_t since = units(entry->ended_ns, seen.ended_ns) / (periods > 1 ? periods : 1);
	bool is_unknown = !seen.slept || (entry->wait.count > 0 && entry->wait.count < FORECAST_KNOWN);
	bool taken = is_unknown && wait >= FORECAST_LONG_NS >> FORECAST_UNIT;
	bool missed = forecast_end(forecast, seen.ended_ns, &(uint64_t){0}) == 0;
	bool is_first = changed || (forecast->ranks > 2 ? taken && !entry->looked : (taken || seen.awake) && missed);

	if (seen.late && entry->wait.count < FORECAST_KNOWN)
		entry->wait.count = entry->since.count = 0;
	if (seen.late || (forecast->late && !forecast->shorter))
		return;
	if (seen.look != 0 || is_first || wait + margin < range_of(&entry->wait, 0).least) {
		end_keep(&entry->wait, wait);
		entry->kept = (uint8_t)(entry->kept + (entry->outlasted > 0));
	}
	if (seen.look != 0 ? periods == 1 && entry->look == seen.look
	                   : periods != 0 && (is_first || since + margin < range_of(&entry->since, 0).least))
		end_keep(&entry->since, since);
	entry->looked |= seen.look != 0;
}

/* Widens the margin of a late call. Narrows it a little if the thread slept and the call was in time. */
static void margin_learn(const struct forecast *forecast, struct forecast_entry *entry, struct forecast_seen seen)
{
	uint32_t many = forecast->ranks < 64 ? forecast->ranks * (BACK_MOST / 64) : BACK_MOST;
	uint32_t least_ns = (levels(forecast) + 2) * LEVEL_NS;

	if (seen.late) {
		entry->late = (uint8_t)(entry->late == 0 && forecast->ranks > 2 ? 2 : entry->late + (entry->late < 3));
		forecast_widen(entry);
		return;
	}
	if (!forecast->late || entry->late < 3)
		entry->late = 0;
	if (seen.slept && entry->margin_ns > least_ns && (entry->own_ns == 0 || account_knows(&entry->periods)))
		entry->margin_ns -= entry->margin_ns / (many > BACK_LEAST ? many : BACK_LEAST);
}

struct forecast_passed forecast_close(struct forecast *forecast, struct forecast_seen seen)
{
	struct forecast_entry *entry = forecast->entry ? forecast->entry : entry_make(forecast);
	uint64_t passed_ns = seen.ended_ns - entry->ended_ns, least_ns = forecast->before_ns;
	uint32_t periods = stride_learn(forecast, entry);
	bool looked = seen.look != 0 && entry->look == seen.look, changed = change_learn(forecast, entry, seen);
	bool counts = seen.ended_ns - forecast->began_ns >= least_ns;

	forecast->entry = entry;
	forecast->origin_ns = 0; /* the end before is no longer known: the first clock tells what was missed */
	ends_learn(forecast, entry, seen, periods, changed);
	margin_learn(forecast, entry, seen);
	work_learn(forecast, entry, seen);
	forecast->late = seen.late;
	entry->ended_ns = seen.ended_ns;
	entry->look = seen.look;
	forecast->previous = counts ? forecast->call : forecast->previous;
	least_ns = counts ? (seen.ended_ns - forecast->began_ns) / 64 : least_ns - least_ns / 8;
	forecast->before_ns = least_ns > FORECAST_SHORT_NS ? least_ns : FORECAST_SHORT_NS;
	return (struct forecast_passed){periods == 0 ? 0 : passed_ns, periods, looked, changed};
}

void forecast_widen(struct forecast_entry *entry)
{
	uint32_t wider_ns = entry->margin_ns + entry->margin_ns / 2;

	entry->margin_ns = wider_ns < FORECAST_LONG_NS ? wider_ns : (uint32_t)FORECAST_LONG_NS;
}
