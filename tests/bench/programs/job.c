/*
 * Tells by how much a job is longer, not a rank. Plays the jobs of tests/lib/emulate_job.h. Times are virtual: results
 * do not depend on the machine.
 *
 *     job [RANKS [STEPS [EXIT_US [EXIT99_US [TAIL [DEEP_US [HOLDS [COLD_US [DRAW]]]]]]]]] [NAME...]
 *
 * RANKS ranks (1000) play STEPS steps (400) of 1 ms each. A sleep ends later than asked by a lognormal time with the
 * median EXIT_US (5) and the 99th percentile EXIT99_US (12). One sleep in TAIL ends 200 us later than that in the mean
 * (0: none). One in 16 sleeps of 200 us or more ends DEEP_US later in the mean (0). The machine holds up a computing
 * rank HOLDS times a second, for 80 us in the mean, one hold-up in 16 for 1.6 ms (0). A step after naps is COLD_US
 * longer for all ranks (0). Another DRAW (0) has other work, exits and looks by chance. The names select patterns,
 * meetings and ways; a kind without a name is played whole:
 *
 *     always late rotating wandering half drifting periodic even uneven heavy      which rank is slow, how work varies
 *     grows shrinks                                                           steps of 1 ms, then 5 ms; the reverse
 *     max tree ring                                                           which rank waits for which
 *     ladder telling silent                                                   what a rank does in a wait
 *
 * Prints a line for each pattern and meeting. It has three figures for each way: how much longer the job is than one
 * that polls (%), the CPU time of the waits (% of what polling takes), and the measurement of the job's accounts (%).
 * The ways are the ladder without an account, and forecasts with an account of 1 %, in a telling and in a silent
 * runtime. A way that is not selected is "-".
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/emulate_job.h"

#define NUMBERS 9
#define HOLD_US 80
#define TAIL_US 200

/* Selection of what to play: bits by index in the tables. */
struct selection {
	unsigned patterns, meetings, ways;
};

static bool is_named(const char *word, const char *name, unsigned place, unsigned *bits)
{
	if (strcmp(word, name) != 0)
		return false;
	*bits |= 1u << place;
	return true;
}

static bool name_take(struct selection *selection, const char *word)
{
	for (unsigned i = 0; i < job_pattern_count; i++)
		if (is_named(word, job_patterns[i].word, i, &selection->patterns))
			return true;
	for (unsigned i = 0; i < JOB_MEETINGS; i++)
		if (is_named(word, job_meeting_names[i], i, &selection->meetings))
			return true;
	for (unsigned i = JOB_LADDER; i < JOB_WAYS; i++)
		if (is_named(word, job_way_names[i], i, &selection->ways))
			return true;
	return false;
}

static bool is_selected(unsigned bits, unsigned place)
{
	return bits == 0 || (bits >> place & 1);
}

static bool play(struct job *job, enum job_way way)
{
	job->way = way;
	return job_play(job);
}

/* Prints the line of one pattern and meeting. Returns false if there is no memory for it. */
static bool line_print(struct job *job, const struct selection *selection)
{
	double bare_ns;

	printf("%-30s %-5s", job->pattern->name, job_meeting_names[job->meeting]);
	if (!play(job, JOB_BARE))
		return false;
	bare_ns = job->lasted_ns;
	for (unsigned way = JOB_LADDER; way < JOB_WAYS; way++) {
		if (!is_selected(selection->ways, way)) {
			printf("  %6s %5s %7s", "-", "-", "-");
			continue;
		}
		if (!play(job, (enum job_way)way))
			return false;
		printf("  %+6.2f %5.0f %+7.2f", 100 * (job->lasted_ns / bare_ns - 1), 100 * job_cpu(job),
		       100 * job_measured(job));
	}
	printf("\n");
	fflush(stdout);
	return true;
}

static bool lines_print(struct job *job, const struct selection *selection)
{
	printf("%d ranks, %d steps of 1 ms, sleeps end %.0f us late: job longer by %%, CPU of waits in %%, measured by "
	       "%%\n%-36s  %-20s  %-20s  %s\n",
	       job->ranks, job->steps, job->exits.median_us, "", "ladder", "forecasts", "silent");
	for (unsigned i = 0; i < job_pattern_count; i++)
		for (unsigned meeting = 0; meeting < JOB_MEETINGS; meeting++) {
			if (!is_selected(selection->patterns, i) || !is_selected(selection->meetings, meeting))
				continue;
			job->pattern = &job_patterns[i];
			job->meeting = (enum job_meeting)meeting;
			if (!line_print(job, selection))
				return false;
		}
	return true;
}

/* Reads the leading arguments that are numbers. Returns their count. */
static int numbers_read(char **words, double *numbers)
{
	int count = 0;

	for (; count < NUMBERS && words[count] && isdigit((unsigned char)words[count][0]); count++)
		numbers[count] = strtod(words[count], NULL);
	return count;
}

int main(int argc, char **argv)
{
	double numbers[NUMBERS] = {1000, 400, 5, 12, 0, 0, 0, 0, 0};
	struct selection selection = {0};
	struct job job = {0};

	for (int i = 1 + numbers_read(argv + 1, numbers); i < argc; i++)
		if (!name_take(&selection, argv[i])) {
			fprintf(stderr, "job: '%s' names no pattern, meeting or way; the head of job.c lists them\n",
			        argv[i]);
			return 2;
		}
	job.ranks = (int)numbers[0];
	job.steps = (int)numbers[1];
	job.exits = (struct job_exits){numbers[2], numbers[3], numbers[4], TAIL_US, numbers[5]};
	job.holds = (struct job_holds){numbers[6], HOLD_US};
	job.cold_us = numbers[7];
	job.draw = (unsigned)numbers[8];
	if (job.ranks < 1 || job.steps < 1 || numbers[2] <= 0 || numbers[3] <= numbers[2]) {
		fprintf(stderr, "job: RANKS and STEPS are 1 at least, EXIT_US more than 0 and less than EXIT99_US\n");
		return 2;
	}
	return lines_print(&job, &selection) ? 0 : 1;
}
