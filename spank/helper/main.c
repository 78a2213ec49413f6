/*
 * mpi-wait-node: delivers records while Slurm does not wait, and restores frequencies whose holder died. Runs as root
 * on a node, or from a timer on any host that reaches slurmdbd and the spool.
 *
 * Each epilog starts "drain", of which one per node keeps running; "sweep" delivers what was left. The log goes to
 * standard error if that is a terminal or the command is "restore", whose callers read it; else to syslog (daemon).
 */
#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/cpufreq/cpufreq.h"
#include "spank/cpufreq/restore.h"
#include "spank/energy/meters_read.h"
#include "spank/machine/gpus.h"
#include "spank/machine/rapl.h"
#include "spank/node/composer.h"
#include "spank/node/meters_ask.h"
#include "spank/node/prolog_epilog.h"
#include "spank/node/recorder.h"
#include "spank/node/state.h"
#include "spank/policy/choices.h"
#include "spank/policy/policy.h"
#include "spank/policy/site.h"
#include "spank/store/nodelist.h"
#include "spank/store/outbox.h"
#include "spank/store/sweep.h"
#include "spank/store/writer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>

#define EXIT_LEFT  2 /* some records could not be stored yet */
#define EXIT_USAGE 64

#define SITE_WORDS_MAX 32768

#define NO_NODE \
	"neither SLURMD_NODENAME nor the host's name is a node name (letters, digits, . _ -): set SLURMD_NODENAME"

/* The command line behind the command's name. */
struct arguments {
	const char *state_root;
	struct run_directory run_directory; /* zeros if run_directory_result is an error */
	int run_directory_result;
	bool options_ended; /* "--" was given: all later words are the site's */
	bool dry_run;
	struct writer_config writer;
	struct site site;
	int site_count;
	char **site_words;
	struct error error; /* error message; "": the result says all */
};

static void log_to_syslog(enum log_level level, const char *line)
{
	static const int priorities[] = {LOG_ERR, LOG_INFO, LOG_DEBUG};

	syslog(priorities[level], "%s", line);
}

/* Logs a failure. Returns the exit status of a result. */
static int report(const struct arguments *arguments, int result)
{
	if (result < 0)
		log_error("%s", arguments->error.text[0] ? arguments->error.text : strerror(-result));
	if (result < 0)
		return EXIT_FAILURE;
	return result == WRITER_LEFT ? EXIT_LEFT : EXIT_SUCCESS;
}

/*
 * Prints `json` and drops the reference. NULL, from a failed allocation, is reported as an error. Returns the exit
 * status.
 */
static int print(const struct arguments *arguments, json_t *json)
{
	json_auto_t *taken = json;

	if (!taken || json_dumpf(taken, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)))
		return report(arguments, -EIO);
	putchar('\n');
	return EXIT_SUCCESS;
}

static bool is_first(const char *nodes, const char *node)
{
	char first[RECORD_NODE_NAME_MAX];

	return nodelist_first(nodes, first, sizeof(first)) == 0 || strcmp(first, node) == 0;
}

/* Returns which records are made here. Without a shared spool only the first node of a job can use its record. */
static record_wanted wanted(const struct site *site)
{
	return !site->spool[0] && site->writer == SITE_WRITER_NODE ? is_first : NULL;
}

static int run_drain(struct arguments *arguments)
{
	char words[SITE_WORDS_MAX] = "";
	cleanup_turn struct turn turn = {.directory = -1, .lock = -1};
	int made, result;

	for (int i = 0; i < arguments->site_count; i++)
		if (strlen(words) + strlen(arguments->site_words[i]) + 2 < sizeof(words))
			strcat(strcat(words, arguments->site_words[i]), " ");
	if (arguments->run_directory_result)
		return report(arguments, error_set(&arguments->error, -EINVAL, NO_NODE));
	turn_init(&arguments->run_directory, words, &turn);
	made = recorder_make(&arguments->run_directory, arguments->writer.outbox, wanted(&arguments->site), &turn,
	                     &arguments->error);
	if (made == -EBUSY) /* the process that makes the records also delivers them */
		return EXIT_SUCCESS;
	result = writer_drain(&arguments->writer, &turn, arguments->run_directory.node, &arguments->error);
	return report(arguments, made ? made : result);
}

static int run_sweep(struct arguments *arguments)
{
	recorder_make_all(arguments->state_root, arguments->writer.outbox, wanted(&arguments->site));
	return report(arguments, sweep_run(&arguments->writer, &arguments->error));
}

/* Returns the job's option as Slurm passes it to prologs, or as SPANK spells it. */
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
	struct restore_count count = {0};
	int result = restore_host(arguments->state_root, arguments->dry_run, &count);

	log_info("%u orphaned domains%s: %u settings %s, %u left alone, %u failed, %u refused; %u domains are in use",
	         count.domains, arguments->dry_run ? " (nothing is changed)" : "", count.settings,
	         arguments->dry_run ? "would be put back" : "put back", count.left, count.failed, count.refused,
	         count.live);
	if (result)
		return EXIT_FAILURE;
	return arguments->dry_run && count.domains ? EXIT_LEFT : EXIT_SUCCESS;
}

static json_t *rungs_json(const struct policy_support *support)
{
	json_t *rungs = json_object();

	for (unsigned i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		json_object_set_new(rungs, policy_rung_name(i), json_string(support->why[i]));
	return rungs;
}

static json_t *policies_json(const struct policy_set *set, const struct site *site,
                             const struct policy_support *support)
{
	json_t *policies = json_array();

	for (size_t i = 0; i < set->count; i++) {
		const struct policy *policy = &set->policy[i];
		struct policy_use use = {.asked = ""};

		policy_resolve(set, policy->name, support, &use);
		json_array_append_new(policies, json_pack("{s:s,s:s,s:s,s:s,s:b}", "name", policy->name, "summary",
		                                          policy->summary, "used", use.used, "why", use.why, "allowed",
		                                          site_allows(site, policy->name)));
	}
	return policies;
}

static json_t *energy_json(void)
{
	static struct rapl_zone zone[RAPL_ZONES_MAX];
	struct error error = {""};
	struct rapl *rapl = NULL;
	json_t *zones = json_array();
	size_t count = 0;

	if (getuid() != 0)
		error_set(&error, 0, "not root");
	else if (rapl_open(&rapl, &error) == 0)
		count = rapl_read(rapl, zone);
	rapl_close(rapl);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(
		        zones, json_pack("{s:s,s:s,s:I,s:I,s:I,s:b}", "name", zone[i].name, "kind",
		                         rapl_kind_name(zone[i].kind), "energy_uj", (json_int_t)zone[i].energy_uj,
		                         "range_uj", (json_int_t)zone[i].range_uj, "power_max_uw",
		                         (json_int_t)zone[i].power_max_uw, "mirror", (int)zone[i].mirror));
	return json_pack("{s:s,s:s,s:b,s:o}", "source", rapl_source(), "why", error.text, "gpus", gpus_count() > 0,
	                 "zones", zones);
}

/*
 * Reads the meters. Runs in a process of its own, because a driver may hang: the alarm ends it. It leaves no core file,
 * which would have root's memory in it.
 */
static int run_meters(struct arguments *arguments)
{
	const struct rlimit none = {0, 0};
	cleanup_free struct meters *meters = malloc(sizeof(*meters));
	json_auto_t *json = NULL;

	setrlimit(RLIMIT_CORE, &none);
	alarm(METERS_ALARM_S);
	if (!meters)
		return report(arguments, -ENOMEM);
	meters_read(arguments->site.energy, meters);
	json = meters_to_json(meters);
	if (!json || json_dumpf(json, stdout, JSON_COMPACT) || fflush(stdout))
		return report(arguments, -EIO);
	return EXIT_SUCCESS;
}

/* Returns what the site's policies by program are: null without such a file, else why it counts for nothing, or "". */
static json_t *programs_json(const struct site *site, const struct policy_set *set)
{
	cleanup_free struct choices *choices = NULL;
	struct error error = {""};

	if (!site->programs[0])
		return json_null();
	choices = choices_load(site, set, &error);
	return json_pack("{s:s,s:I}", "why", error.text, "names",
	                 (json_int_t)(choices ? choices->programs.name_count : 0));
}

/*
 * Prints how this release understands the site's arguments and this host, for "mpi-wait check". Only root reads zones.
 *
 *   {"release", "node", "library", "policies_directory", "tsc_khz",
 *    "rungs": {NAME: why it is unusable, "" if it is usable},
 *    "policies": [{"name", "summary", "used", "why", "allowed"}],
 *    "left_out": the first policy file that was refused,
 *    "programs": null without programs=, else {"why": why the file counts for nothing, "", "names": their number},
 *    "energy": {"source", "why", "gpus": the node has some, "zones": [{"name", "kind", "energy_uj", "range_uj",
 *                                 "power_max_uw", "mirror": it shows another die's counter}]}}
 */
static int run_probe(struct arguments *arguments)
{
	const struct site *site = &arguments->site;
	cleanup_free struct policy_set *set = calloc(1, sizeof(*set));
	struct policy_support support;
	struct error left_out = {""};
	struct cpu cpu;

	if (!set)
		return report(arguments, -EIO);
	cpu_probe(&cpu);
	policy_probe(&cpu, site->grant, &support);
	policy_load(site->policies, MPIWAIT_POLICIES, NULL, set, &left_out);
	return print(arguments,
	             json_pack("{s:s,s:s,s:s,s:s,s:I,s:o,s:o,s:s,s:o,s:o}", "release", MPIWAIT_RELEASE, "node",
	                       arguments->run_directory.node, "library", MPIWAIT_LIBRARY, "policies_directory",
	                       MPIWAIT_POLICIES, "tsc_khz", (json_int_t)cpu.tsc_khz, "rungs", rungs_json(&support),
	                       "policies", policies_json(set, site, &support), "left_out", left_out.text, "programs",
	                       programs_json(site, set), "energy", energy_json()));
}

static const struct command {
	const char *name;
	int (*run)(struct arguments *arguments);
	const char *help;
} commands[] = {
        {"drain", run_drain,
         "makes the records of jobs that ended here, and takes them to the spool and slurmdbd (for epilogs)"},
        {"sweep", run_sweep, "stores every record that was left in outbox and spool in slurmdbd (for a timer)"},
        {"prolog", run_prolog, "for Prolog=, if Slurm calls no SPANK prolog: makes node state and energy baseline"},
        {"epilog", run_epilog, "for Epilog=, likewise: notes the job's end and starts 'drain'"},
        {"restore", run_restore,
         "puts back what a dead slurmstepd left changed in cpufreq (at boot, for health checks)"},
        {"probe", run_probe,
         "prints how it understands the site arguments and this host, as JSON (for mpi-wait check)"},
        {"meters", run_meters, "prints the energy counters other than powercap's, as JSON (for prolog and epilog)"},
};

static void help_print(void)
{
	puts("usage: mpi-wait-node COMMAND [OPTION...] [--] [SITE-ARGUMENT...]\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		printf("  %-7s %s\n", commands[i].name, commands[i].help);
	puts("\nSITE-ARGUMENTs are those of the line in plugstack.conf: spool=DIR spool_user=NAME sink=... field=...\n"
	     "\n"
	     "  --first-delay S   seconds from a job's end to the first try (default: 8, plus jitter)\n"
	     "  --collect S       seconds for which the first node waits for the others (default: 60)\n"
	     "  --now             with sweep: at once and whatever the records' age, for 20 s at most\n"
	     "  --only-move       with sweep: only from this node's outbox to the spool\n"
	     "  --partial         with sweep: also jobs with missing nodes\n"
	     "  --dry-run         with restore: only say what would be done; exit 2 if something would\n"
	     "  --outbox DIR      the outbox (default: " OUTBOX_DIRECTORY ")\n"
	     "  --state DIR       the nodes' state (default: " STATE_ROOT ")\n"
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

/*
 * Parses one option. Returns the number of words that it took, 0 if the next word is none or "--" was given, or
 * -EINVAL.
 */
static int option_take(int count, char *words[], struct arguments *arguments)
{
	const struct {
		const char *name;
		bool *flag;
		const char **text;
		unsigned *seconds;
	} options[] = {
	        {"--", .flag = &arguments->options_ended},
	        {"--now", .flag = &arguments->writer.at_once},
	        {"--only-move", .flag = &arguments->writer.only_moves},
	        {"--partial", .flag = &arguments->writer.partial},
	        {"--dry-run", .flag = &arguments->dry_run},
	        {"--outbox", .text = &arguments->writer.outbox},
	        {"--state", .text = &arguments->state_root},
	        {"--first-delay", .seconds = &arguments->writer.first_delay_s},
	        {"--collect", .seconds = &arguments->writer.collect_s},
	};

	if (arguments->options_ended || strncmp(words[0], "--", 2) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (strcmp(words[0], options[i].name) != 0)
			continue;
		if (options[i].flag) {
			*options[i].flag = true;
			return 1;
		}
		if (count < 2 || (options[i].seconds && !number_parse(words[1], options[i].seconds)))
			break;
		if (options[i].text)
			*options[i].text = words[1];
		return 2;
	}
	return -EINVAL;
}

static int arguments_parse(int count, char *words[], struct arguments *arguments)
{
	struct error *error = &arguments->error;

	for (int taken; count > 0; count -= taken, words += taken) {
		taken = option_take(count, words, arguments);
		if (taken < 0)
			return error_set(error, -EINVAL,
			                 "option \"%s\" is unknown, or its value is missing or not a whole number of "
			                 "seconds; see mpi-wait-node(8)",
			                 words[0]);
		if (taken == 0)
			break;
	}
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
	struct arguments arguments = {.state_root = STATE_ROOT, .writer = WRITER_DEFAULTS};
	const struct command *command;

	signal(SIGPIPE, SIG_IGN);
	umask(022); /* a shell's or slurmd's, such as 077, would hide kept records from the job's group */
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
	if (!command || arguments_parse(count - 2, words + 2, &arguments)) {
		fprintf(stderr, "mpi-wait-node: %s; see mpi-wait-node --help\n",
		        command ? arguments.error.text : "no such command");
		return EXIT_USAGE;
	}
	arguments.writer.site = &arguments.site;
	arguments.run_directory_result = run_directory_init(arguments.state_root, &arguments.run_directory);
	return command->run(&arguments);
}
