/*
 * mpi-wait-node: what happens to records when Slurm is not waiting for us, and to frequencies when nobody is left to
 * put them back. Runs as root on a node, or as a timer on any host that reaches slurmdbd and the spool.
 *
 * Each epilog starts "drain", of which one per node stays; "sweep" brings what was left. Standard error is the log
 * where it is a terminal, else syslog (daemon); for "restore", whose callers read it, it always is.
 */
#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/cpufreq/cpufreq.h"
#include "spank/cpufreq/restore.h"
#include "spank/helper/probe.h"
#include "spank/node/job.h"
#include "spank/node/record.h"
#include "spank/node/state.h"
#include "spank/policy/site.h"
#include "spank/store/outbox.h"
#include "spank/store/writer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <syslog.h>

#define EXIT_LEFT  2 /* not everything could be stored yet */
#define EXIT_USAGE 64

#define SITE_WORDS_MAX 32768

/* Of the command line, after the command's name. */
struct arguments {
	const char *operand; /* KEY or JOBID, NULL where the command takes none */
	const char *state_root;
	bool options_ended; /* after "--", whatever a word looks like it is the site's */
	bool dry_run;
	struct writer_config writer;
	struct site site;
	int site_count;
	char **site_words;
};

static void log_to_syslog(enum log_level level, const char *line)
{
	static const int priorities[] = {LOG_ERR, LOG_INFO, LOG_DEBUG};

	syslog(priorities[level], "%s", line);
}

static int report(int result, const struct error *error)
{
	if (result < 0)
		log_error("%s", error->text[0] ? error->text : strerror(-result));
	if (result < 0)
		return EXIT_FAILURE;
	return result == WRITER_LEFT ? EXIT_LEFT : EXIT_SUCCESS;
}

static int run_drain(struct arguments *arguments)
{
	char words[SITE_WORDS_MAX] = "";
	struct error error = {0};
	struct state_place place;

	if (state_place_init(arguments->state_root, &place))
		return report(-EINVAL, &(struct error){"SLURMD_NODENAME is no node name"});
	for (int i = 0; i < arguments->site_count; i++)
		if (strlen(words) + strlen(arguments->site_words[i]) + 2 < sizeof(words))
			strcat(strcat(words, arguments->site_words[i]), " ");
	arguments->writer.words = words;
	return report(writer_drain(&arguments->writer, place.node, &error), &error);
}

static int run_write(struct arguments *arguments)
{
	struct error error = {0};
	struct state_place place;

	if (state_place_init(arguments->state_root, &place))
		return report(-EINVAL, &(struct error){"SLURMD_NODENAME is no node name"});
	return report(writer_write(&arguments->writer, arguments->operand, place.node, &error), &error);
}

static void finish_left(const struct arguments *arguments)
{
	node_record_finish_left(arguments->state_root ? arguments->state_root : STATE_ROOT, arguments->writer.outbox);
}

static int run_sweep(struct arguments *arguments)
{
	struct error error = {0};

	finish_left(arguments);
	return report(writer_sweep(&arguments->writer, &error), &error);
}

static int run_move(struct arguments *arguments)
{
	struct error error = {0};

	finish_left(arguments);
	return report(writer_move(&arguments->writer, &error), &error);
}

static int run_flush(struct arguments *arguments)
{
	arguments->writer.at_once = true;
	return run_sweep(arguments);
}

/* The job's option as Slurm hands it to prologs, spelled as SPANK spells it. */
static const char *job_words(void)
{
	const char *words = getenv("SPANK__SLURM_SPANK_OPTION_mpi_wait_mpi_wait_policy");

	return words ? words : getenv("SPANK_MPI_WAIT_POLICY");
}

static int run_prolog(struct arguments *arguments)
{
	node_job_prolog(&arguments->site, job_words());
	return EXIT_SUCCESS;
}

static int run_epilog(struct arguments *arguments)
{
	node_job_revoke();
	node_job_epilog(&arguments->site, job_words(), arguments->site_count, arguments->site_words);
	return EXIT_SUCCESS;
}

static int run_restore(struct arguments *arguments)
{
	const char *root = arguments->state_root ? arguments->state_root : STATE_ROOT;
	struct restore_count count = {0};
	int result = restore_host(root, arguments->dry_run, &count);

	log_info("%u orphaned domains%s: %u settings %s, %u left alone, %u failed, %u refused; %u domains are in use",
	         count.domains, arguments->dry_run ? " (nothing is changed)" : "", count.settings,
	         arguments->dry_run ? "would be put back" : "put back", count.left, count.failed, count.refused,
	         count.live);
	if (result)
		return EXIT_FAILURE;
	return arguments->dry_run && count.domains ? EXIT_LEFT : EXIT_SUCCESS;
}

static int run_show(struct arguments *arguments)
{
	json_auto_t *record = NULL;
	struct state_place place;
	struct error error = {0};
	char *end;
	unsigned long job_id = strtoul(arguments->operand, &end, 10);

	if (*end || job_id == 0 || job_id >= UINT32_MAX)
		return report(-EINVAL, &(struct error){"JOBID is a number"});
	if (state_place_init(arguments->state_root, &place))
		return report(-EINVAL, &(struct error){"SLURMD_NODENAME is no node name"});
	record = node_record_show(&place, (uint32_t)job_id, &error);
	if (!record || json_dumpf(record, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)))
		return report(-EIO, &error);
	putchar('\n');
	return EXIT_SUCCESS;
}

static int run_probe(struct arguments *arguments)
{
	json_auto_t *json = probe_json(&arguments->site);

	if (!json || json_dumpf(json, stdout, JSON_INDENT(2)))
		return report(-EIO, &(struct error){""});
	putchar('\n');
	return EXIT_SUCCESS;
}

static const struct command {
	const char *name;
	const char *operand; /* NULL: none */
	int (*run)(struct arguments *arguments);
	const char *help;
} commands[] = {
        {"drain", NULL, run_drain,
         "every record in this node's outbox to the spool and, from their jobs' first nodes, to slurmdbd (epilog)"},
        {"write", "KEY", run_write, "the same for one job's record, whatever else is done"},
        {"sweep", NULL, run_sweep, "every record that was left, from outbox and spool to slurmdbd (for a timer)"},
        {"move", NULL, run_move, "every record that was left in this node's outbox to the spool (for a timer)"},
        {"flush", NULL, run_flush, "the same at once, for 20 s at most, whatever its age"},
        {"prolog", NULL, run_prolog, "for Prolog=, where Slurm calls no SPANK prolog: node state and energy baseline"},
        {"epilog", NULL, run_epilog, "for Epilog=, likewise: the node's record to the outbox, and 'drain' started"},
        {"restore", NULL, run_restore,
         "puts back what a dead slurmstepd has left changed in cpufreq (at boot, for health checks)"},
        {"show", "JOBID", run_show, "what this node knows of a running job, as JSON"},
        {"probe", NULL, run_probe,
         "what it makes of the site arguments and of this host, as JSON (for mpi-wait check)"},
};

static void help_print(void)
{
	puts("usage: mpi-wait-node COMMAND [OPTION...] [OPERAND] [--] [SITE-ARGUMENT...]\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		printf("  %-7s %-6s %s\n", commands[i].name, commands[i].operand ? commands[i].operand : "",
		       commands[i].help);
	puts("\nSite arguments are those of the line in plugstack.conf: spool=DIR spool_user=NAME sink=... field=...\n"
	     "\n"
	     "  --first-delay S   seconds from a job's end to the first try (8, plus jitter)\n"
	     "  --collect S       seconds for which the first node waits for the others (60)\n"
	     "  --partial         with sweep and flush: jobs of which nodes are missing too\n"
	     "  --dry-run         with restore: say what would be done, exit 2 if there is something\n"
	     "  --outbox DIR      instead of " OUTBOX_DIRECTORY "\n"
	     "  --state DIR       instead of " STATE_ROOT "\n"
	     "\n"
	     "It writes, as root: the outbox, and through slurmdbd the comment field of the job; as spool_user: the "
	     "spool; restore: cpufreq's files under " CPUFREQ_SYSFS ".\n"
	     "Exit status: 0 done, 1 failed (see the log), 2 something was left for the next sweep, 64 wrong usage.");
}

static bool number_parse(const char *text, unsigned *ret_number)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || number > 86400)
		return false;
	*ret_number = (unsigned)number;
	return true;
}

/* Takes one option off the front. Returns how many words it was, 0 for none or after "--", -EINVAL. */
static int option_take(int count, char *words[], struct arguments *arguments)
{
	const char *value = count > 1 ? words[1] : NULL;

	if (arguments->options_ended || strncmp(words[0], "--", 2) != 0)
		return 0;
	if (strcmp(words[0], "--") == 0) {
		arguments->options_ended = true;
		return 1;
	}
	if (strcmp(words[0], "--partial") == 0) {
		arguments->writer.partial = true;
		return 1;
	}
	if (strcmp(words[0], "--dry-run") == 0) {
		arguments->dry_run = true;
		return 1;
	}
	if (!value)
		return -EINVAL;
	if (strcmp(words[0], "--outbox") == 0)
		arguments->writer.outbox = value;
	else if (strcmp(words[0], "--state") == 0)
		arguments->state_root = value;
	else if (strcmp(words[0], "--first-delay") == 0)
		return number_parse(value, &arguments->writer.first_delay_s) ? 2 : -EINVAL;
	else if (strcmp(words[0], "--collect") == 0)
		return number_parse(value, &arguments->writer.collect_s) ? 2 : -EINVAL;
	else
		return -EINVAL;
	return 2;
}

static int arguments_parse(const struct command *command, int count, char *words[], struct arguments *arguments,
                           struct error *error)
{
	for (int taken; count > 0; count -= taken, words += taken) {
		taken = option_take(count, words, arguments);
		if (taken < 0)
			return error_set(error, -EINVAL, "option \"%s\" is unknown or lacks a value", words[0]);
		if (taken == 0 && (!command->operand || arguments->operand))
			break;
		if (taken == 0) {
			arguments->operand = words[0];
			taken = 1;
		}
	}
	if (command->operand && !arguments->operand)
		return error_set(error, -EINVAL, "%s needs a %s", command->name, command->operand);
	arguments->site_count = count;
	arguments->site_words = words;
	return site_parse(count, words, &arguments->site, error);
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int main(int count, char *words[])
{
	struct arguments arguments = {.writer = WRITER_DEFAULTS};
	const struct command *command;
	struct error error = {0};

	signal(SIGPIPE, SIG_IGN);
	if (count == 2 && strcmp(words[1], "--version") == 0)
		return puts("mpi-wait-node " MPIWAIT_RELEASE) < 0;
	if (count == 2 && strcmp(words[1], "--help") == 0) {
		help_print();
		return EXIT_SUCCESS;
	}
	command = count > 1 ? command_find(words[1]) : NULL;
	if (!isatty(STDERR_FILENO) && (!command || command->run != run_restore)) {
		openlog("mpi-wait-node", LOG_PID, LOG_DAEMON);
		log_set_sink(log_to_syslog);
	}
	if (!command || arguments_parse(command, count - 2, words + 2, &arguments, &error)) {
		fprintf(stderr, "mpi-wait-node: %s; see mpi-wait-node --help\n",
		        error.text[0] ? error.text : "no such command");
		return EXIT_USAGE;
	}
	arguments.writer.site = &arguments.site;
	return command->run(&arguments);
}
