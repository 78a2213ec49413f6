/*
 * The predictor. Its rules stand in predictor.h.
 */
#include "preload/budget/predictor.h"

#include <stddef.h>

#include "preload/budget/account.h"

#define WHOLE_EXITS         8u
#define OVERSLEPT           8u /* exit latencies */
#define FEW_LEVELS          4u /* of a tree of 16 ranks */
#define SILENT_PART         4u
#define EXIT_FIRST_NS       UINT64_C(30000)
#define EXIT_PERCENT        99u
#define EXIT_PERCENT_SHARED 10u
#define EXIT_STEPS          1024u
#define MARGIN_BACK         512u
#define MARGIN_MOST_NS      UINT64_C(1000000000)
#define VARIED_NS           UINT64_C(2000) /* less is no difference */
#define JITTER_SHARE        32u            /* of an end: if they vary by less it is jitter, and not ends of two kinds */
#define DELAYED_ENDS        16u
#define CLASS_FIRST         15 /* naps of less than 32 us; each class is four times as long */
#define POLLED_RANK_NS      UINT64_C(20000)
#define POLLED_MOST_NS      UINT64_C(10000000)
#define UNLOOKED_SHARE      8u
#define UNLOOKED_LEAST_NS   UINT64_C(2000000)
#define MIX                 UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * MIX;
	return hash ^ hash >> 29;
}

uint64_t predictor_site(uint64_t caller, uint64_t row, uint64_t handle, uint64_t peer)
{
	return mix(mix(mix(mix(MIX, caller), row), handle), peer) | 1;
}

static unsigned class_of(uint64_t ask_ns)
{
	uint64_t quarter = ask_ns >> CLASS_FIRST;
	unsigned class = quarter == 0 ? 0 : 1 + (unsigned)(63 - __builtin_clzll(quarter)) / 2;

	return class < PREDICTOR_CLASSES ? class : PREDICTOR_CLASSES - 1;
}

/* Of a class that has not been measured: that of the next shorter one. */
static uint64_t exit_of(const struct predictor *predictor, uint64_t ask_ns)
{
	for (unsigned class = class_of(ask_ns) + 1; class -- > 0;)
		if (predictor->exit_ns[class] != 0)
			return predictor->exit_ns[class];
	return EXIT_FIRST_NS;
}

/* The first of a class counts for what is known of the next shorter one at most: one that the kernel ended some
 * milliseconds late would end all sleeping of that length. */
void predictor_woke(struct predictor *predictor, uint64_t ask_ns, uint64_t actual_ns)
{
	uint64_t *exit_ns = &predictor->exit_ns[class_of(ask_ns)];
	uint64_t known_ns = exit_of(predictor, ask_ns);
	uint64_t sample_ns = actual_ns > ask_ns ? actual_ns - ask_ns : 0, unit = *exit_ns / EXIT_STEPS + 1;
	uint64_t percent = predictor->shared ? EXIT_PERCENT_SHARED : EXIT_PERCENT;

	predictor->excess_ns = sample_ns > known_ns ? sample_ns - known_ns : 0;
	if (*exit_ns == 0)
		*exit_ns = 2 * (predictor->excess_ns > 0 ? known_ns : sample_ns) + 1;
	else if (sample_ns > *exit_ns)
		*exit_ns += percent * unit;
	else if (*exit_ns > (100 - percent) * unit)
		*exit_ns -= (100 - percent) * unit;
}

static struct predictor_entry *set_of(struct predictor *predictor, uint64_t key)
{
	return predictor->table[key >> 32 & (PREDICTOR_SETS - 1)];
}

/* One call after another is not the other after the one. */
static uint64_t key_of(const struct predictor *predictor)
{
	return mix(mix(mix(MIX, predictor->site), predictor->previous), predictor->phase) | 1;
}

static void entry_find(struct predictor *predictor)
{
	uint64_t key = key_of(predictor);
	struct predictor_entry *set = set_of(predictor, key);

	predictor->entry = NULL;
	predictor->landed_ns = 0;
	predictor->foreseen = false;
	for (unsigned way = 0; way < PREDICTOR_WAYS && predictor->phase < PREDICTOR_PHASES; way++)
		if (set[way].key == key) {
			set[way].stamp = predictor->stamp;
			predictor->entry = &set[way];
		}
}

/* By so much more than with 16 ranks. */
static uint64_t by_levels(const struct predictor *predictor, uint64_t time_ns)
{
	unsigned levels = account_levels(predictor->ranks);

	return time_ns / FEW_LEVELS * (levels > FEW_LEVELS ? levels : FEW_LEVELS);
}

static struct predictor_entry entry_new(const struct predictor *predictor, uint64_t key)
{
	return (struct predictor_entry){.key = key,
	                                .stamp = predictor->stamp,
	                                .margin_ns = by_levels(predictor, exit_of(predictor, UINT64_MAX) / 4)};
}

/* In place of the one that was not used for longest. */
static struct predictor_entry *entry_make(struct predictor *predictor)
{
	uint64_t key = key_of(predictor);
	struct predictor_entry *set = set_of(predictor, key), *oldest = &set[0];

	for (unsigned way = 1; way < PREDICTOR_WAYS; way++)
		if (predictor->stamp - set[way].stamp > predictor->stamp - oldest->stamp)
			oldest = &set[way];
	*oldest = entry_new(predictor, key);
	return oldest;
}

void predictor_open(struct predictor *predictor, uint64_t site, uint64_t now_ns)
{
	predictor->site = site;
	predictor->phase = 0;
	predictor->began_ns = now_ns;
	predictor->stamp++;
	entry_find(predictor);
}

bool predictor_knows(const struct predictor *predictor, const struct predictor_entry *entry)
{
	return entry->ends.count >= ENDS_KNOWN || (predictor->ranks <= PREDICTOR_SMALL && ends_are_pair(&entry->ends));
}

/* Whether a long nap may be the whole way: rule 2. */
static bool is_at_once(const struct predictor *predictor, uint64_t cost_ns, uint64_t room_ns)
{
	return predictor->rich && predictor->entry->ends.alike >= ENDS_ALIKE && cost_ns <= room_ns / 2;
}

/* The nap that brings us nearer to that landing, which the exit latency is still to be taken from. */
static struct predictor_nap nap_towards(const struct predictor *predictor, uint64_t left_ns, uint64_t room_ns,
                                        uint64_t most_ns)
{
	uint64_t exit_ns = exit_of(predictor, left_ns), ask_ns = left_ns > exit_ns ? left_ns - exit_ns : 0;
	uint64_t landing_ns = ask_ns;
	bool once = ask_ns >= WHOLE_EXITS * exit_ns;
	bool whole = !once || is_at_once(predictor, ask_ns + exit_ns, room_ns);

	if (!whole)
		ask_ns /= 2;
	if (most_ns != 0 && ask_ns > most_ns)
		ask_ns = most_ns;
	if (ask_ns + exit_ns > room_ns)
		ask_ns = room_ns > exit_ns ? room_ns - exit_ns : 0;
	return (struct predictor_nap){
	        .ask_ns = ask_ns, .exit_ns = exit_ns, .left_ns = landing_ns, .whole = whole, .once = whole && once};
}

static uint64_t polled_most(const struct predictor *predictor)
{
	uint64_t most_ns = predictor->ranks * POLLED_RANK_NS;

	return most_ns < POLLED_MOST_NS ? most_ns : POLLED_MOST_NS;
}

enum predictor_advice predictor_advise(struct predictor *predictor, uint64_t now_ns, uint64_t room_ns, uint64_t most_ns,
                                       struct predictor_nap *ret_nap)
{
	const struct predictor_entry *entry = predictor->entry;
	uint64_t end_ns;
	unsigned count;

	if (!entry || entry->late || !predictor_knows(predictor, entry))
		return PREDICTOR_UNKNOWN;
	end_ns = ends_next(&entry->ends, predictor->began_ns, now_ns, &count);
	if (end_ns > now_ns + entry->margin_ns) {
		struct predictor_nap nap = nap_towards(predictor, end_ns - now_ns - entry->margin_ns, room_ns, most_ns);

		if (nap.ask_ns >= PREDICTOR_NAP_NS &&
		    (predictor->foreseen || nap.left_ns >= by_levels(predictor, PREDICTOR_WAY_NS))) {
			predictor->foreseen = true;
			predictor->whole = nap.whole;
			predictor->once = nap.once;
			predictor->landed_ns = 0;
			*ret_nap = nap;
			return PREDICTOR_NAP;
		}
	}
	if (predictor->landed_ns == 0)
		predictor->landed_ns = now_ns;
	return count == 0 || now_ns - predictor->landed_ns >= polled_most(predictor) ? PREDICTOR_OUTLASTED
	                                                                             : PREDICTOR_LANDED;
}

/* Whether the latest nap was too long because the kernel ended it late, whatever the margin: rule 7. */
static bool is_kernels(const struct predictor *predictor, const struct predictor_entry *entry)
{
	uint64_t own_ns = entry->margin_ns;

	if (predictor->ranks > PREDICTOR_SMALL)
		own_ns += OVERSLEPT * exit_of(predictor, UINT64_MAX);
	return predictor->excess_ns > own_ns;
}

static void margin_add(struct predictor_entry *entry, uint64_t more_ns)
{
	entry->margin_ns = entry->margin_ns + more_ns < MARGIN_MOST_NS ? entry->margin_ns + more_ns : MARGIN_MOST_NS;
}

/* By how much it is larger after a last nap that was too long. */
static uint64_t margin_more(const struct predictor_entry *entry)
{
	uint64_t margin_ns = entry->margin_ns, vary_ns = (uint64_t)entry->ends.wait.varied << ENDS_UNIT_SHIFT;

	if (entry->ends.wait.varied >= entry->ends.wait.at[0] / JITTER_SHARE)
		return margin_ns;
	return margin_ns > vary_ns / 2 ? margin_ns : vary_ns / 2;
}

/* Rule 8. Of what the naps made the end later by, so much is believed. */
static uint64_t delay_believed(const struct predictor *predictor, struct predictor_entry *entry)
{
	uint64_t delay_ns = predictor->delay_ns, before_ns = entry->delay_ns;
	bool again = entry->delayed > 0;

	entry->delay_ns = delay_ns;
	entry->delayed = DELAYED_ENDS;
	if (predictor->ranks > PREDICTOR_SMALL)
		return delay_ns;
	if (!again)
		return 0;
	return before_ns < delay_ns ? before_ns : delay_ns;
}

/* What ends in the middle of the way is another kind of wait, rather than too small a margin. Of a nap that was the
 * whole way the next end says which it was. */
static void margin_late(const struct predictor *predictor, struct predictor_entry *entry, uint64_t least_ns)
{
	if (!predictor->whole)
		margin_add(entry, entry->margin_ns / 4 + least_ns);
	else if (!predictor->once)
		margin_add(entry, margin_more(entry) + least_ns);
	entry->outslept = predictor->once;
}

static void margin_learn(const struct predictor *predictor, struct predictor_entry *entry, bool late, bool alike)
{
	uint64_t least_ns = exit_of(predictor, UINT64_MAX) / 8, margin_ns = entry->margin_ns;
	uint64_t back = predictor->ranks > MARGIN_BACK ? predictor->ranks : MARGIN_BACK;

	if (late && is_kernels(predictor, entry))
		return;
	if (predictor->delay_ns > 0) {
		uint64_t delay_ns = delay_believed(predictor, entry);

		margin_add(entry, delay_ns > 0 ? delay_ns + least_ns : 0);
		return;
	}
	entry->delayed = (uint8_t)(entry->delayed - (entry->delayed > 0));
	if (late)
		margin_late(predictor, entry, least_ns);
	else if (entry->outslept && alike)
		margin_add(entry, margin_more(entry) + least_ns);
	else if (margin_ns > least_ns)
		entry->margin_ns -= (margin_ns - least_ns + back - 1) / back;
	entry->outslept = late && entry->outslept;
}

/* What the next wait is to be looked at for. overran: a nap was too long, but only the last one. */
static void entry_look(struct predictor_entry *entry, bool late, bool overran)
{
	entry->late = late && (!overran || entry->overran);
	entry->overran = overran && !entry->late;
}

/* Once it is known, in a tree of which nothing shows but its end. */
static void margin_first(const struct predictor *predictor, struct predictor_entry *entry, uint64_t empty_ns)
{
	uint64_t part_ns = (empty_ns - predictor->began_ns) / SILENT_PART;

	if (predictor->silent && account_levels(predictor->ranks) > FEW_LEVELS && entry->ends.count == ENDS_KNOWN &&
	    entry->margin_ns < part_ns)
		entry->margin_ns = part_ns;
}

/* Rule 9, for the next end. */
static void later_note(struct predictor *predictor, uint64_t empty_ns, enum predictor_end end)
{
	struct predictor_entry *entry = predictor->entry;

	if (end == PREDICTOR_EXACT && entry->later && empty_ns > predictor_latest(predictor)) {
		uint32_t lasted = entry->ends.lasted;

		*entry = entry_new(predictor, entry->key);
		entry->ends.lasted = lasted; /* looks may be as long */
	}
	entry->later = end == PREDICTOR_DELAYED || end == PREDICTOR_LATER;
	entry->doubted_ns = end == PREDICTOR_DELAYED ? predictor->delay_ns : 0;
}

static void learn(struct predictor *predictor, uint64_t empty_ns, enum predictor_end end)
{
	bool late = end == PREDICTOR_LATE || end == PREDICTOR_DELAYED;
	bool overran =
	        end == PREDICTOR_LATE && predictor->whole && !predictor->once && predictor->ranks <= PREDICTOR_SMALL;
	uint32_t lasted = ends_units(predictor->began_ns, empty_ns);
	bool alike, kernels;

	if (predictor->phase >= PREDICTOR_PHASES)
		return;
	if (!predictor->entry)
		predictor->entry = entry_make(predictor);
	later_note(predictor, empty_ns, end);
	alike = ends_are_like(&predictor->entry->ends, lasted);
	kernels = end == PREDICTOR_LATE && is_kernels(predictor, predictor->entry);
	if (!kernels)
		ends_count_alike(&predictor->entry->ends, alike && !late && end != PREDICTOR_LATER);
	if (end == PREDICTOR_DOUBTED && predictor->ranks <= PREDICTOR_SMALL)
		ends_forget(&predictor->entry->ends, lasted);
	if (end == PREDICTOR_EXACT)
		ends_keep(&predictor->entry->ends, predictor->began_ns, empty_ns);
	else
		ends_pass(&predictor->entry->ends, lasted);
	entry_look(predictor->entry, (late && !kernels) || end == PREDICTOR_LATER, overran && !kernels);
	if (end == PREDICTOR_LATER)
		return;
	margin_learn(predictor, predictor->entry, late, alike);
	margin_first(predictor, predictor->entry, empty_ns);
	predictor->delay_ns = 0;
}

uint64_t predictor_latest(const struct predictor *predictor)
{
	const struct predictor_entry *entry = predictor->entry;

	if (!entry || !predictor_knows(predictor, entry))
		return UINT64_MAX;
	return predictor->began_ns + (ends_latest(&entry->ends) << ENDS_UNIT_SHIFT) + VARIED_NS;
}

uint64_t predictor_unlooked(const struct predictor *predictor)
{
	const struct predictor_entry *entry = predictor->entry;
	uint64_t least_ns;
	uint32_t least;

	if (!entry || entry->later || predictor->ranks > PREDICTOR_SMALL)
		return 0;
	least = ends_earliest(&entry->ends);
	if (least == 0 || (entry->ends.lasted != 0 && entry->ends.lasted < least))
		least = entry->ends.lasted;
	least_ns = (uint64_t)(least - least / UNLOOKED_SHARE) << ENDS_UNIT_SHIFT;
	return least_ns >= UNLOOKED_LEAST_NS ? least_ns : 0;
}

enum predictor_end predictor_looked(const struct predictor *predictor, uint64_t ended_ns, bool by_job,
                                    uint64_t *ret_forgiven_ns)
{
	const struct predictor_entry *entry = predictor->entry;
	bool later = ended_ns > predictor_latest(predictor), again = entry && entry->later;

	*ret_forgiven_ns = later && again ? entry->doubted_ns : 0;
	return later && !again && !by_job ? PREDICTOR_LATER : PREDICTOR_EXACT;
}

void predictor_progress(struct predictor *predictor, uint64_t empty_ns, enum predictor_end end)
{
	learn(predictor, empty_ns, end);
	predictor->phase += predictor->phase < PREDICTOR_PHASES;
	entry_find(predictor);
}

void predictor_close(struct predictor *predictor, uint64_t empty_ns, enum predictor_end end)
{
	learn(predictor, empty_ns, end);
	predictor->previous = predictor->site;
	predictor->entry = NULL;
}

void predictor_drop(struct predictor *predictor)
{
	predictor->phase = PREDICTOR_PHASES;
	entry_find(predictor);
}
