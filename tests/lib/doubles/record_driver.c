/*
 * Lets tests call the modules between energy counters and record: one subcommand per entry point, arguments as words,
 * results as JSON on standard output. A failure prints {"error": ..., "code": ...}.
 */
#include "preload/contract/looks.h"
#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/node/composer.h"
#include "spank/node/ending.h"
#include "spank/node/recorder.h"
#include "spank/node/sampler.h"
#include "spank/node/slots.h"
#include "spank/record/merge.h"
#include "spank/record/parts/power.h"
#include "spank/record/parts/saving.h"
#include "spank/record/parts/throttle.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int show(json_t *json)
{
	int result = json ? json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15)) : -1;

	putchar('\n');
	json_decref(json);
	return result ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int show_result(int code, const struct error *error)
{
	return show(json_pack("{s:i, s:s}", "code", code, "error", error->text));
}

static uint64_t number(const char *text)
{
	return strtoull(text, NULL, 0);
}

static struct run_directory run_directory_of(const char *root)
{
	struct run_directory run_directory;

	if (run_directory_init(root, &run_directory))
		exit(EXIT_FAILURE);
	return run_directory;
}

/* add RANGE_UJ POWER_UW [AT_S ENERGY_UJ]...: samples one zone at those times */
static int run_add(int count, char *words[])
{
	struct energy_snapshot snapshot = {0};
	struct rapl_zone zone = {.name = "package-0", .range_uj = number(words[0]), .power_max_uw = number(words[1])};

	for (int i = 2; i + 1 < count; i += 2) {
		zone.energy_uj = number(words[i + 1]);
		energy_add(&snapshot, &zone, 1, (uint64_t)(strtod(words[i], NULL) * 1e9));
	}
	return show(energy_to_json(&snapshot));
}

static struct rapl_zone zone_of(const json_t *json)
{
	struct rapl_zone zone = {0};
	const char *name = "", *kind = "";
	json_int_t instance = 0, energy = 0, range = 0, power = 0;

	json_unpack((json_t *)json, "{s:s, s:s, s:I, s:I, s:I, s:I}", "name", &name, "kind", &kind, "instance",
	            &instance, "energy_uj", &energy, "range_uj", &range, "power_max_uw", &power);
	snprintf(zone.name, sizeof(zone.name), "%s", name);
	zone.kind = (enum rapl_kind)rapl_kind_find(kind);
	zone.instance = (uint32_t)instance;
	zone.energy_uj = (uint64_t)energy;
	zone.range_uj = (uint64_t)range;
	zone.power_max_uw = (uint64_t)power;
	zone.mirror = json_is_true(json_object_get(json, "mirror"));
	return zone;
}

static json_t *window_show(const struct energy_window *window, const struct energy_share *share)
{
	json_t *zones = json_object(), *json;
	uint64_t own_uj = 0;

	for (uint32_t i = 0; i < window->zone_count; i++) {
		const struct energy_zone *zone = &window->zone[i];
		const char *why = energy_problem_name(zone->problem);
		char name[64];

		snprintf(name, sizeof(name), "%u/%s", zone->instance, zone->name);
		json_object_set_new(zones, name,
		                    json_pack("{s:I, s:i, s:s, s:f}", "used_uj", (json_int_t)zone->used_uj, "gaps",
		                              (int)zone->gaps, "why", why ? why : "", "share",
		                              energy_share_of(share, window, zone)));
	}
	json = json_pack("{s:o, s:I}", "zones", zones, "all_uj", (json_int_t)energy_window_uj(window));
	if (energy_share_uj(share, window, &own_uj))
		json_object_set_new(json, "own_uj", json_integer((json_int_t)own_uj));
	return json;
}

/* samples FILE CORES TOTAL CPUS [USABLE]: puts [{"at_s": T, "zones": [...]}, ...] into an accumulator; prints the
 * window since the first sample */
static int run_samples(int count, char *words[])
{
	json_auto_t *samples = json_load_file(words[0], 0, NULL);
	struct energy_snapshot snapshot = {0}, first = {0};
	struct energy_window window;
	struct energy_share share;
	json_t *sample;
	size_t i, j;

	json_array_foreach(samples, i, sample)
	{
		struct rapl_zone zones[RAPL_ZONES_MAX];
		json_t *list = json_object_get(sample, "zones"), *zone;
		json_auto_t *stored = NULL;

		json_array_foreach(list, j, zone) zones[j] = zone_of(zone);
		energy_add(&snapshot, zones, json_array_size(list),
		           (uint64_t)(json_number_value(json_object_get(sample, "at_s")) * 1e9) + 1);
		stored = energy_to_json(&snapshot); /* stored and read, as between two processes that sample */
		if (energy_from_json(stored, &snapshot))
			return EXIT_FAILURE;
		if (i == 0)
			first = snapshot;
	}
	energy_between(&first, &snapshot, &window);
	energy_share_read((uint32_t)number(words[1]), (uint32_t)number(words[2]), words[3], count > 4 ? words[4] : "",
	                  &share);
	return show(window_show(&window, &share));
}

/* update ROOT: samples the zones of /sys into the node's accumulator */
static int run_update(int count, char *words[])
{
	struct run_directory run_directory = run_directory_of(words[0]);
	struct energy_snapshot snapshot;
	struct error error = {0};
	cleanup_close int node = run_directory_open_node(&run_directory);
	int result = energy_sample(node, &snapshot, &error);

	(void)count;
	return result ? show_result(result, &error) : show(energy_to_json(&snapshot));
}

/* leaks: prints whether a program started while the zones are open inherits their descriptors */
static int run_leaks(int count, char *words[])
{
	struct error error = {0};
	struct rapl *rapl = NULL;

	(void)count;
	(void)words;
	if (rapl_open(&rapl, &error))
		return show_result(-1, &error);
	fflush(stdout);
	return execlp("ls", "ls", "-l", "/proc/self/fd", NULL);
}

/* begin ROOT JOB CORES TOTAL CLUSTER NODES POLICY RESTART [CPUS [USABLE [anew]]] */
static int run_begin(int count, char *words[])
{
	struct run_directory run_directory = run_directory_of(words[0]);
	const char *gpus = getenv("SLURM_JOB_GPUS"), *sources = getenv("MPIWAIT_SOURCES");
	struct state_job job;
	struct error error = {0};

	state_job_init((uint32_t)number(words[1]), &job);
	job.gpus = gpus != NULL;
	snprintf(job.gpu_list, sizeof(job.gpu_list), "%s", gpus ? gpus : "");
	snprintf(job.sources, sizeof(job.sources), "%s", sources ? sources : "");
	snprintf(job.cpus, sizeof(job.cpus), "%s", count > 8 ? words[8] : "");
	snprintf(job.usable, sizeof(job.usable), "%s", count > 9 ? words[9] : "");
	job.cores = (uint32_t)number(words[2]);
	job.cores_total = (uint32_t)number(words[3]);
	snprintf(job.cluster, sizeof(job.cluster), "%s", words[4]);
	snprintf(job.nodes, sizeof(job.nodes), "%s", words[5]);
	job.restart_known = words[7][0];
	job.restart_count = (uint32_t)number(words[7]);
	if (words[6][0])
		job.policy = (struct policy_use){.by = "job"};
	snprintf(job.policy.asked, sizeof(job.policy.asked), "%s", words[6]);
	snprintf(job.policy.used, sizeof(job.policy.used), "%s", words[6]);
	return show_result(state_job_begin(&run_directory, &job, count > 10, &error), &error);
}

static int threads_of_self(void)
{
	cleanup_closedir DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	while (tasks && readdir(tasks))
		count++;
	return count - 2;
}

/* Stands for the step's grant: notes which thread asks for it, as each tick does. */
static json_t *thread_note(void *context)
{
	*(pid_t *)context = gettid();
	return NULL;
}

/* step ROOT JOB STEP MILLISECONDS FAST [SEGMENT]: plays a whole step; prints the number of threads during and after
 * it, and whether a thread of the sampler's made the last tick */
static int run_step(int count, char *words[])
{
	cleanup_close int segment = count > 5 ? open(words[5], O_RDONLY | O_CLOEXEC) : -1;
	pid_t last = 0;
	struct sampler_config config = {
	        .run_directory = run_directory_of(words[0]),
	        .job_id = (uint32_t)number(words[1]),
	        .step_id = (uint32_t)number(words[2]),
	        .fast = number(words[4]) != 0,
	        .segment = segment,
	        .grant_read = thread_note,
	        .grant_context = &last,
	};
	struct timespec pause = {.tv_sec = (time_t)(number(words[3]) / 1000),
	                         .tv_nsec = (long)(number(words[3]) % 1000) * 1000000};
	struct sampler *sampler = NULL;
	struct error error = {0};
	int result = sampler_start(&config, &sampler, &error), meanwhile;

	if (result)
		return show_result(result, &error);
	meanwhile = threads_of_self();
	nanosleep(&pause, NULL);
	if (config.step_id == 666)
		raise(SIGKILL);
	sampler_stop(sampler);
	return show(json_pack("{s:i, s:i, s:b}", "meanwhile", meanwhile, "after", threads_of_self(), "apart",
	                      last != getpid()));
}

/* Makes the node's records, as the helper does that the epilog starts. */
static int records_make(const struct run_directory *run_directory, const char *outbox, struct error *error)
{
	cleanup_turn struct turn turn;

	turn_init(run_directory, NULL, &turn);
	return recorder_make(run_directory, outbox, NULL, &turn, error);
}

/* finish ROOT JOB OUTBOX HELPER [ARGUMENT...]: runs the epilog, prints whether it left a child, then does the first
 * work of its helper */
static int run_finish(int count, char *words[])
{
	struct run_directory run_directory = run_directory_of(words[0]);
	struct error error = {0};
	int result = ending_note(&run_directory, (uint32_t)number(words[1]), &error);
	bool child;

	if (result > 0 && words[3][0])
		result = outbox_writer_start(words[3], count - 4, words + 4, &error);
	child = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
	if (result >= 0)
		result = records_make(&run_directory, words[2], &error);
	return show(json_pack("{s:i, s:s, s:b}", "code", result, "error", error.text, "child", child));
}

/* end ROOT JOB: runs the epilog alone */
static int run_end(int count, char *words[])
{
	struct run_directory run_directory = run_directory_of(words[0]);
	struct error error = {0};
	int result = ending_note(&run_directory, (uint32_t)number(words[1]), &error);

	(void)count;
	return show_result(result, &error);
}

/* make ROOT OUTBOX: makes the records of jobs that have ended */
static int run_make(int count, char *words[])
{
	struct run_directory run_directory = run_directory_of(words[0]);
	struct error error = {0};
	int result = records_make(&run_directory, words[1], &error);

	(void)count;
	return show_result(result, &error);
}

/* slots FILE BEGUN_NS NOW_NS */
static int run_slots(int count, char *words[])
{
	cleanup_close int segment = open(words[0], O_RDONLY | O_CLOEXEC);
	cleanup_free struct slots *slots = NULL;
	struct error error = {0};
	int result = slots_read(segment, number(words[1]), number(words[2]), &slots, &error);

	(void)count;
	return result ? show_result(result, &error) : show(slots_to_json(slots));
}

/* merge NODES_OF WHY FILE...: merges node records, which are trusted no more than in the spool, into the job's
 * record */
static int run_merge(int count, char *words[])
{
	cleanup_free struct record_node **nodes = calloc((size_t)count, sizeof(*nodes));
	json_auto_t *keep = json_array(); /* nodes borrow from the JSON that they were parsed from */
	cleanup_record struct record record = {.line = NULL};
	struct error error = {0};
	size_t good = 0;
	int result = 0;

	for (int i = 2; i < count && !result; i++) {
		json_t *json = json_load_file(words[i], 0, NULL);

		json_array_append_new(keep, json);
		result = json ? record_node_parse(json, &nodes[good], &error) : -EBADMSG;
		good += !result;
	}
	if (!result)
		result = record_merge((const struct record_node *const *)nodes, good, (uint32_t)number(words[0]),
		                      words[1][0] ? words[1] : NULL, &record, &error);
	for (size_t i = 0; i < good; i++) {
		if (nodes[i]->left_out[0])
			fprintf(stderr, "%s\n", nodes[i]->left_out);
		record_node_free(nodes[i]);
	}
	if (result)
		return show_result(result, &error);
	puts(record.line);
	return EXIT_SUCCESS;
}

static json_t *extreme_energy(uint64_t number)
{
	struct energy_window window = {.source = "rapl", .gaps = (uint32_t)number, .zone_count = RAPL_ZONES_MAX};
	const struct energy_share share = {.node = 0.5};

	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++) {
		window.has[kind] = true;
		window.kind_uj[kind] = number;
	}
	for (size_t i = 0; i < RAPL_ZONES_MAX; i++) {
		window.zone[i] = (struct energy_zone){.used_uj = number, .problem = ENERGY_NONSENSE};
		memset(window.zone[i].name, 'z', RAPL_NAME_MAX - 1);
		window.zone[i].kind = (enum rapl_kind)(i % RAPL_KIND_COUNT);
		window.zone[i].instance = (uint32_t)(i / RAPL_KIND_COUNT);
	}
	return record_energy_write(&window, &share);
}

/* Returns power over three seconds: the greatest value, nothing, the greatest again. */
static json_t *extreme_power(uint64_t number)
{
	struct power_points points = {.count = 4, .spacing_ns = SECOND_NS};
	struct power_curve curve = {0};
	json_t *json;

	for (uint32_t i = 0; i < points.count; i++)
		points.point[i] = (struct power_point){
		        .at_ns = (i + 1) * SECOND_NS, .used_uj = i % 2 ? number : 0, .gaps = 0, .whole = true};
	power_curve_add(&curve, &points);
	json = record_power_write(&curve);
	power_curve_free(&curve);
	return json ? json : json_null();
}

static json_t *extreme_saving(uint64_t number)
{
	struct saving saving = {.each = 1U << 20, .count = SAVING_PAIRS_MAX - 1, .asleep_s = 1, .spent_s = 1};

	for (uint32_t i = 0; i < saving.count; i++)
		saving.pair[i] = (struct saving_pair){(double)number + 1, (double)number * (i % 3)};
	return record_saving_write(&saving, NULL);
}

static json_t *extreme_throttle(uint64_t number)
{
	struct record_throttle throttle = {.known = true};

	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
		throttle.events[kind] = number;
	return record_throttle_write(&throttle);
}

static json_t *extreme_grant(uint64_t number)
{
	struct record_grant grant = {.mode = "lease", .refusals = RECORD_GRANT_REFUSALS};

	grant.cores = grant.transitions = grant.low_us = number;
	for (size_t i = 0; i < grant.refusals; i++) {
		snprintf(grant.refusal[i].why, sizeof(grant.refusal[i].why), "reason %zu", i);
		grant.refusal[i].cores = number > 0 ? number : 1;
	}
	return record_grant_write(&grant);
}

/* extremes NUMBER: prints the parts of a node's record in which every count is that number */
static int run_extremes(int count, char *words[])
{
	uint64_t most = number(words[0]);

	(void)count;
	return show(json_pack("{s:o, s:o, s:o, s:o, s:o}", "energy", extreme_energy(most), "power_mw",
	                      extreme_power(most), "saving", extreme_saving(most), "throttle", extreme_throttle(most),
	                      "grant", extreme_grant(most)));
}

/* combine HELD LINE */
static int run_combine(int count, char *words[])
{
	cleanup_free char *text = NULL;
	struct error error = {0};
	json_auto_t *line = json_loads(words[1], 0, NULL);
	int result = record_combine(words[0], &(struct record){.json = line, .line = words[1]}, &text);

	(void)count;
	return result ? show_result(result, &error) : show(json_pack("{s:i, s:s}", "code", 0, "text", text));
}

/* looks SEED TOLD FROM_NS COUNT: prints the ranks' next looks from then on, [begin, end] by the node's clock in ns */
static int run_looks(int count, char *words[])
{
	uint64_t now_ns = number(words[2]);
	json_t *list = json_array();
	struct looks looks;

	(void)count;
	for (uint64_t i = 0; i < number(words[3]); i++, now_ns = looks.until_ns) {
		if (!looks_follow(&looks, number(words[0]), number(words[1]), now_ns))
			return EXIT_FAILURE;
		looks_find(&looks, now_ns, now_ns);
		json_array_append_new(list, json_pack("[I, I]", (json_int_t)looks.from_ns, (json_int_t)looks.until_ns));
	}
	return show(list);
}

/* key TEXT */
static int run_key(int count, char *words[])
{
	char cluster[64] = "";
	uint32_t job_id = 0, restart_count = 0;
	int result = outbox_key_parse(words[0], cluster, &job_id, &restart_count);

	(void)count;
	return show(json_pack("{s:i, s:s, s:I, s:I}", "code", result, "cluster", cluster, "job", (json_int_t)job_id,
	                      "restart", (json_int_t)restart_count));
}

static const struct {
	const char *name;
	int words;
	int (*run)(int count, char *words[]);
} commands[] = {
        {"samples", 4, run_samples}, {"add", 2, run_add},           {"update", 1, run_update},
        {"leaks", 0, run_leaks},     {"begin", 8, run_begin},       {"step", 5, run_step},
        {"finish", 4, run_finish},   {"slots", 3, run_slots},       {"merge", 3, run_merge},
        {"make", 2, run_make},       {"looks", 4, run_looks},       {"combine", 2, run_combine},
        {"key", 1, run_key},         {"extremes", 1, run_extremes}, {"end", 2, run_end},
};

int main(int count, char *words[])
{
	for (size_t i = 0; count > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(words[1], commands[i].name) == 0 && count - 2 >= commands[i].words)
			return commands[i].run(count - 2, words + 2);
	fprintf(stderr, "record_driver: no such command\n");
	return 64;
}
