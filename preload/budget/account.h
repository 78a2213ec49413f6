/*
 * The account of a job: what its ranks' sleeping costs, as measured, and how much it may cost. Pure: times go in,
 * decisions come out. Each thread that waits keeps an account; all of them measure the same job.
 *
 *     kind     the calls of one key (forecast.h): the same call, again and again
 *     period   the time from one end of such a call to the next
 *     look     a window of the nodes' clocks in which no rank sleeps; the window's number identifies it (looks.h)
 *     charge   to book what a period, or a nap, has cost as loss
 *     cut      to count a period as at most a quarter longer or shorter than usual
 *     streak   periods outside of looks, in a row, that were cut to the same side
 *     pause    a time in which nobody sleeps, after a loss or a streak
 *     try      the time from the opening, or from the end of a pause, to the next pause
 *
 * The measure: a call that repeats has a period, the time from one of its ends to the next. The account adds up the
 * periods of calls in which sleeping was allowed, and takes off the periods of the same calls in looks
 * (contract/looks.h), in which no rank sleeps. The difference is what sleeping costs, whichever rank slept. Each period
 * is cut at a quarter beside what is usual, so that a hiccup of the machine counts little. A call is charged at once,
 * against the looks before it. The next look corrects the charge: half of the change from look to look is taken for the
 * program's own, up to all that was charged. Calls that repeat at the same time measure the same loss, so the loss is
 * divided by their number.
 *
 * A rare nap that ends later than that cut costs more than the periods show. The rank that overslept tells the others
 * of its node, in the segment, and each of them is charged what lies beyond the cut: in full, and once for each node of
 * the job, since the other nodes' ranks are taken to oversleep as much. Without that, 400 waits of 64 ranks, of whose
 * sleeps one in 100 ends 4 ms late, took up to 0.30 s longer, and 0.04 s with it (emulated). An oversleep delays nobody
 * if the call's next period is shorter by as much: one of two ranks then takes it back. Without that, 150 waits of 5
 * ms, of whose sleeps one in 450 ends 2 ms late in the mean, kept 7 percent of their CPU time, and with it 4: in 15 and
 * in 4 of 200 launches more than 20 percent (emulated).
 *
 * Time in which others had the core, after the nap was over, is no oversleep (rung/run_delay.h): a thread that polls
 * loses its core to them as well. Of 320 launches of 700 waits of 1 ms, under five MPIs, 15 kept more than 20 percent
 * of their CPU time, up to 81; with this, and with ends kept after a nap in the first quarter of the wait (forecast.h),
 * 7, up to 31 (measured).
 *
 * The law: at each time T after the opening,
 *
 *     measured loss  <=  start + slowdown * T + its own error        (the allowance: contract/allowance.h)
 *
 * since nobody sleeps while the loss is larger. Allowance that is not spent is kept up to a limit. A call whose periods
 * are not known yet is charged by the clock: a nap in which something arrived may have cost its whole length, and no
 * more. Such a nap lasts no longer than the allowance that is left. This is the hard cap, which needs no statistics. A
 * nap of a call whose periods are known lasts no longer than what may be kept. Time in which this rank may not sleep,
 * in a pause or because nothing is left, is neither charged nor counted as a gain: else a program that works faster
 * than in its looks pays for its naps.
 *
 * A look sees a period only if both of its ends lie in the window, so it sees few of the long ones: those with output,
 * say, or with a new list of neighbours. Each charge is therefore multiplied by how often a look sees a period of that
 * length, as a part of how often it sees a usual one. Without that, each 40th step three times as long, and a swing of
 * 3 percent, 16 ranks kept 80 percent of their waits' CPU time, with it 42 (emulated).
 *
 * Periods that vary much are known late: not before the standard error of their mean is a sixteenth of it. Sixty-four
 * ranks that wait for 0 to 20 ms, by chance, lost 3.3 percent of their time where 1 is allowed, now 0.1 (emulated): a
 * look of six periods gave a mean that was too long by a third, so each step with a nap seemed shorter than usual.
 * Short periods count in full there. Cut, those of ranks that wait for 0.1 or 1.9 ms, by chance, seemed to vary by 0.2
 * ms: a first look with more long ones was taken for sure, and 64 ranks lost 20 ms in 0.4 s, now 2 (emulated).
 *
 * A loss may seem small by chance where periods vary. Among more than two ranks, twice its standard error may be as
 * much as the allowance: what it exceeds that by is taken off what is left. So the true loss is at most twice the
 * allowance in 95 of 100 cases. Without that, 1000 ranks with uneven work, of whose sleeps one in 1000 ends 0.2 ms
 * late, lost up to 2.2 percent of their time, 1.2 in the mean of six draws; with it 1.1 and 0.8 (emulated). The first
 * look of three periods had shown longer ones than usual.
 *
 * By its own clock a rank cannot see what the naps of other ranks cost. So the cap is stricter while the rank compares
 * less than half of its time: the allowance divided by the number of ranks, plus the slowdown of the wait so far.
 *
 * Where sleeping does not pay, the account gives it up soon and tries it again rarely. Each try may lose little: 0.4
 * milliseconds, and 60 percent of what slowdown allows in its time. What the latest period can be charged at most
 * counts in place of the 0.4 milliseconds if it is more, so that one held-up step does not end a try of long steps.
 * Without that, sixteen ranks with steps of 5 ms and 14 hold-ups a second kept 44 percent of their waits' CPU time, not
 * 34 (emulated). A larger loss begins a pause, in which nobody sleeps. With 40 percent, two ranks whose naps cost half
 * of what slowdown allows kept half of their waits' CPU time, not a fifth; with 80 percent, jobs whose naps cost twice
 * of what it allows became 1.6 percent longer (emulated). All ranks end the pause at the same moment of their nodes'
 * clocks: when the number of the turn (four windows of the looks) becomes a multiple of the pause's length, 1 turn at
 * first and 4096 at most. A look outside of pauses halves that length, so a hiccup of the machine costs a short pause.
 *
 * A try that fails as well makes the next pause longer. If the try lost more than twice what slowdown allows in its
 * time, sleeping does not pay: the pause is four times as long. If not, but the try lost more than 60 percent of what
 * slowdown allows since the pause before began, it is twice as long. So a job in which a nap costs a little more than
 * it may, as where wake-ups find cold caches, sleeps for a part of its time.
 *
 * A program may go on with steps that are several times as long, or as short. Three periods in a row that are cut to
 * the same side therefore begin a pause as well. If eight periods in that pause are cut to one side too, neither a nap
 * nor chance is the cause. The account then learns the usual period anew, takes back what it charged for the streak,
 * and ends the pause. So does it if the streak lies in a pause that a loss began. With three periods in place of eight,
 * 64 ranks that wait for one that is late by chance, for 0.1 or 1.9 ms, lost up to 6.5 percent of their time
 * (emulated): by chance the long period was taken for the usual one, and each short one for a gain.
 *
 * A rank of two learns in another way that periods have become longer, since nobody but one other rank can have made
 * them so by a nap: its own waits outlast all known ends, or its own work takes longer (forecast.h). Then the periods
 * of all calls are outdated, what was charged for them in a streak is taken back, and a pause ends. The clock charges
 * naps until the next look. Several periods of a call in one are cut as one period is: the calls in between found their
 * messages at once, so this rank slept in none of them.
 *
 * A loss may be the program's own, or an error of the measure: in a job of two ranks each pause counts as a look. Once
 * it has shown 16 periods of a call, it ends if half of that call's loss was the program's own. Among more ranks,
 * others may sleep in that pause.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/allowance.h"

#define ACCOUNT_KEPT_NS 10000000.0 /* most allowance that is kept unspent */
#define ACCOUNT_KNOWN   3u         /* number of periods that make the usual one known */
#define ACCOUNT_SAMPLES 16u        /* periods kept from one look */
#define ACCOUNT_CUT     4          /* divisor of the usual period: a period counts at most this part beside it */

struct account {
	uint64_t opened_ns;    /* when the job began */
	uint64_t slowdown_ppm; /* allowed slowdown; 0: the job has no account */
	uint32_t ranks;        /* number of ranks of the job; each has an account */
	double spent_ns;       /* measured loss, plus what was charged by the clock */
	double variance;       /* variance of the measured loss, in square nanoseconds; fades */
	double forgiven_ns;    /* loss that is overlooked: the standard error of the measured one, up to 0.4 ms */
	bool paused;           /* true while nobody may sleep */
	uint32_t pause;        /* turns between two moments at which a pause may end; at least 1 while paused */
	uint64_t paused_ns;    /* when the pause began */
	uint64_t resumed_ns;   /* when the latest try began: at the end of the latest pause, or at the opening */
	double cut_ns;         /* most that the latest charged period can have added to spent_ns */
	double tried_ns;       /* spent_ns when the latest try began, plus charges that are no loss of the try */
	double covered_ns;     /* sum of the periods charged since since_ns; halved when four seconds have passed */
	uint64_t since_ns;     /* from when on covered_ns counts; 0: nothing was charged yet */
	/*
	 * Sums since the opening, for the record: usual time of the charged calls, excess over it, variance of the
	 * excess.
	 */
	double slept_ns, more_ns, variance_sum;
	uint64_t windows, latest; /* number of looks that calls were compared with, and the latest one's own number */
	uint32_t changes;         /* number of changes of the program */
};

/* The periods of one kind. All zero: no period is known. */
struct account_periods {
	double usual_ns;   /* mean period in looks */
	double variance;   /* variance of one period, in square nanoseconds */
	float weight;      /* number of periods that usual_ns is the mean of; fades */
	double charged_ns; /* excess charged since the latest look */
	uint32_t slept;    /* periods charged since the latest look */
	uint32_t looked;   /* number of samples of the latest look */
	int32_t strayed;   /* length of the latest streak: positive above the usual period, negative below it */
	double streak_ns;  /* sum of the charges in that streak */
	uint32_t changes;  /* the account's number of changes when the first of these periods was seen */
	uint32_t count;    /* number of samples */
	uint64_t window;   /* number of the look that the samples are from; UINT64_MAX: they are from a pause */
	float sample[ACCOUNT_SAMPLES]; /* periods seen there and not yet learned from, in ascending order */
};

/* Opens the account of a rank of a job that began at now_ns. ppm: allowed slowdown. */
void account_open(struct account *account, uint64_t now_ns, uint64_t ppm, uint32_t ranks);

/* Returns how much the job may have lost by now: the allowance. */
double account_allowed(const struct account *account, uint64_t now_ns);

/* Returns how much may be lost now; 0: nobody sleeps. */
uint64_t account_room(const struct account *account, uint64_t now_ns);

/*
 * Returns how much a nap may cost at now_ns in a call whose periods are not known; 0: nobody sleeps. since_ns: when the
 * call began to wait.
 */
uint64_t account_room_unmeasured(const struct account *account, uint64_t since_ns, uint64_t now_ns);

/*
 * Returns true if the usual period is known well enough to charge calls against it: its standard error is at most a
 * quarter of what one period is cut at, so a sixteenth of it.
 */
static inline bool account_knows(const struct account_periods *periods)
{
	return periods->weight >= ACCOUNT_KNOWN &&
	       256 * periods->variance <= periods->weight * periods->usual_ns * periods->usual_ns;
}

/*
 * Learns the period of a call, period_ns from one of its ends to the next, both of which lay in the same look. window:
 * number of that look (struct looks).
 */
void account_looked(struct account *account, struct account_periods *periods, uint64_t window, uint64_t period_ns,
                    uint64_t now_ns);

/*
 * Returns true if ACCOUNT_KNOWN calls in a row were cut to the same side, with two ranks to that of shorter periods:
 * the program may have changed.
 */
static inline bool account_strayed(const struct account *account, const struct account_periods *periods)
{
	return periods->strayed * (periods->strayed < 0 ? -1 : account->ranks > 2) >= (int32_t)ACCOUNT_KNOWN;
}

/*
 * Learns the period of a call, both of whose ends lay in the same pause. Called only in a pause that is to show whether
 * the program or its naps have changed the periods: after a streak, or of two ranks. Returns true if it was the
 * program: then the pause is over. After a streak the usual period is learned anew, else by the next call.
 */
bool account_relearned(struct account *account, struct account_periods *periods, uint64_t period_ns, uint64_t now_ns);

/* Learns that the program has changed: all periods are outdated. Ends a pause. */
void account_change(struct account *account, uint64_t now_ns);

/*
 * Forgets the periods of a call if they are outdated, and takes back what was charged for a streak of longer ones.
 * Until the next look naps of the call are charged by the clock.
 */
void account_renew(struct account *account, struct account_periods *periods, uint64_t now_ns);

/*
 * Charges a call outside of looks that ended passed_ns after an earlier end, in which many periods passed. window_ns:
 * length of a look. Charges nothing in a pause, nothing while the room is 0, and nothing while the usual period is
 * unknown.
 */
void account_slept(struct account *account, struct account_periods *periods, uint64_t passed_ns, uint32_t many,
                   uint64_t window_ns, uint64_t now_ns);

/* Charges nap_ns by the clock: a nap in which something arrived. The charge is no loss of the try. */
void account_charge(struct account *account, double nap_ns);

/*
 * Charges what `here` ranks overslept beyond the cut, in all, for all ranks of the job: the others are taken to
 * oversleep as much. Negative: they take it back. Counts it as measured. 0 ranks are taken for one.
 */
void account_overslept(struct account *account, int64_t over_ns, uint32_t here, uint64_t now_ns);

/*
 * Called once for each look. Drops unspent allowance beyond ACCOUNT_KEPT_NS, fades the error, and halves the next
 * pause.
 */
void account_settle(struct account *account, uint64_t now_ns);

/*
 * Ends the pause if its time is over. real_ns: the node's clock at now_ns. turn_ns: the length of a turn, the same in
 * all ranks of the job.
 */
void account_resume(struct account *account, uint64_t turn_ns, uint64_t now_ns, uint64_t real_ns);
