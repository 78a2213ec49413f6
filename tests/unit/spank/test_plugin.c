/*
 * The plugin, driven through its callbacks by a double of Slurm: what it does to a task's environment, and what it
 * logs. Runs in a mount namespace of its own with an empty /run; without the right to make one it is skipped (exit 77).
 */
#include "tests/lib/doubles/fake_host.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/contract/notes.h"
#include "tests/lib/check.h"

static const char *plugin;
static char policies[PATH_MAX + 16]; /* "policies=DIRECTORY": the tree's own, nothing is installed yet */
static char *no_arguments[] = {policies};

static void enter_private_run(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/run", "tmpfs", 0, "mode=755") < 0) {
		fprintf(stderr, "skipped: no mount namespace: %s\n", strerror(errno));
		exit(77);
	}
	setenv("SLURMD_NODENAME", "c1", 1);
	setenv("SLURM_CLUSTER_NAME", "test", 1);
}

/* One task of one step, from option to environment. */
static void run_task(const char *option, int argument_count, char **arguments)
{
	fake_host_load(plugin, option, argument_count, arguments);
	CHECK(fake_host_call("init_post_opt", argument_count, arguments) == 0);
	CHECK(fake_host_call("task_post_fork", argument_count, arguments) == 0);
	CHECK(fake_host_call("task_init", argument_count, arguments) == 0);
	CHECK(fake_host_call("exit", argument_count, arguments) == 0);
}

/* Of the task's configuration; false where it has none. */
static bool config_says(const char *part)
{
	const char *config = fake_host_getenv("MPI_WAIT_CONFIG");

	return config && strstr(config, part);
}

static bool preload_is(const char *value)
{
	const char *preload = fake_host_getenv("LD_PRELOAD");

	return preload && strcmp(preload, value) == 0;
}

static void injects_in_front(void)
{
	const char *preload;

	fake_host_reset(S_CTX_REMOTE);
	spank_setenv(NULL, "LD_PRELOAD", "libother.so /x/libthird.so", 1);
	run_task("nap,slowdown=5", 1, no_arguments);
	preload = fake_host_getenv("LD_PRELOAD");
	CHECK(preload && strstr(preload, "/libmpiwait.so:libother.so"));
	CHECK(config_says("rungs=pause+nap;"));
	CHECK(config_says(";slowdown_ppm=50000;"));
	CHECK(config_says(";segment=7"));
	CHECK(fake_host.log[0] == '\0');
}

static bool variable_is(const char *name, const char *value)
{
	const char *found = fake_host_getenv(name);

	return value ? found && strcmp(found, value) == 0 : !found;
}

/* One task under these words, whose user has set that variable, if any. */
static void run_threads(const char *option, const char *name, const char *value)
{
	fake_host_reset(S_CTX_REMOTE);
	if (name)
		spank_setenv(NULL, name, value, 1);
	run_task(option, 1, no_arguments);
}

/* What the user has set stays, and outweighs nothing that was not set; the runtimes that he did not speak to are told.
 */
static void tells_openmp(void)
{
	run_threads("nap", NULL, NULL);
	CHECK(fake_host_getenv("GOMP_SPINCOUNT") && variable_is("KMP_BLOCKTIME", "1"));
	CHECK(variable_is("OMP_WAIT_POLICY", NULL) && fake_host_getenv("MPI_WAIT_THREADS"));
	run_threads("nap,threads=passive", NULL, NULL);
	CHECK(variable_is("OMP_WAIT_POLICY", "passive") && variable_is("GOMP_SPINCOUNT", "0"));
	run_threads("nap", "OMP_WAIT_POLICY", "active");
	CHECK(variable_is("OMP_WAIT_POLICY", "active") && variable_is("GOMP_SPINCOUNT", NULL));
	CHECK(variable_is("KMP_BLOCKTIME", NULL) && variable_is("MPI_WAIT_THREADS", NULL));
	run_threads("nap,threads=passive", "KMP_BLOCKTIME", "");
	CHECK(variable_is("KMP_BLOCKTIME", "") && variable_is("OMP_WAIT_POLICY", NULL));
	CHECK(variable_is("MPI_WAIT_THREADS", "GOMP_SPINCOUNT=0"));
	run_threads("nap,threads=keep", NULL, NULL);
	CHECK(variable_is("GOMP_SPINCOUNT", NULL) && variable_is("MPI_WAIT_THREADS", NULL));
	run_threads("nap", "OMP_NUM_THREADS", "1");
	CHECK(variable_is("OMP_WAIT_POLICY", NULL) && variable_is("KMP_BLOCKTIME", "1"));
	run_threads("nap", "OMP_NUM_THREADS", "100000"); /* more than this task has CPUs */
	CHECK(variable_is("OMP_WAIT_POLICY", "passive") && variable_is("KMP_BLOCKTIME", "0"));
	run_threads("profile", NULL, NULL);
	CHECK(variable_is("GOMP_SPINCOUNT", NULL) && config_says("profile=1"));
}

static unsigned threads_now(void)
{
	DIR *directory = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned count = 0;

	while (directory && (entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return count;
}

/* A thread that was joined may be there for a moment yet. */
static bool has_threads(unsigned count)
{
	for (int i = 0; i < 10000 && threads_now() != count; i++)
		usleep(1000);
	return threads_now() == count;
}

/* As Slurm does if two lines of plugstack.conf name the plugin. */
static void call_twice(const char *hook, char **first, char **second)
{
	CHECK(fake_host_call(hook, 2, first) == 0);
	CHECK(fake_host_call(hook, 2, second) == 0);
}

/* A second line would begin a step that nobody ends, and its epilog would make another record of the job. */
static void heeds_the_first_of_two_lines(void)
{
	char *nap[] = {policies, "default=nap"}, *off[] = {policies, "default=off"};
	char config[4096];

	setenv("SLURM_JOB_ID", "9", 1);
	CHECK(has_threads(1));
	for (int second_is_off = 0; second_is_off < 2; second_is_off++) {
		char **second = second_is_off ? off : nap;

		fake_host_reset(S_CTX_REMOTE);
		fake_host.job_id = 9;
		fake_host_load(plugin, NULL, 2, nap);
		CHECK(fake_host_call("init", 2, second) == 0);
		CHECK_CONTAINS(fake_host.log, "2 lines of plugstack.conf name the plugin; the first one counts");
		fake_host.log[0] = '\0';
		call_twice("init_post_opt", nap, second);
		CHECK(has_threads(2)); /* the sampler */
		call_twice("task_post_fork", nap, second);
		CHECK(fake_host_call("task_init", 2, nap) == 0 && config_says(";segment="));
		snprintf(config, sizeof(config), "%s", fake_host_getenv("MPI_WAIT_CONFIG"));
		CHECK(fake_host_call("task_init", 2, second) == 0 && config_says(config));
		call_twice("task_exit", nap, second);
		call_twice("exit", nap, second);
		CHECK(has_threads(1) && fake_host.log[0] == '\0');
		fake_host_reset(S_CTX_JOB_SCRIPT);
		fake_host_load(plugin, NULL, 2, nap);
		fake_host_call("init", 2, second);
		call_twice("job_epilog", nap, second);
		CHECK(access("/run/mpi-wait/c1/9", F_OK) < 0 && access("/run/mpi-wait/c1/9.3", F_OK) < 0);
	}
	CHECK(access("/run/mpi-wait/c1/9.2", F_OK) == 0);
	setenv("SLURM_JOB_ID", "7", 1);
}

/* In a step inside of a step: what the outer one was told is not the user's, until he changes it. */
static void tells_openmp_anew(void)
{
	run_threads("nap,threads=passive", NULL, NULL);
	run_task("off", 1, no_arguments);
	CHECK(variable_is("OMP_WAIT_POLICY", NULL) && variable_is("GOMP_SPINCOUNT", NULL));
	CHECK(variable_is("KMP_BLOCKTIME", NULL) && variable_is("MPI_WAIT_THREADS", NULL));
	run_threads("nap,threads=passive", NULL, NULL);
	spank_setenv(NULL, "OMP_WAIT_POLICY", "active", 1);
	run_task("nap", 1, no_arguments);
	CHECK(variable_is("OMP_WAIT_POLICY", "active") && variable_is("GOMP_SPINCOUNT", NULL));
	CHECK(variable_is("KMP_BLOCKTIME", NULL));
}

/* One task under these words, whose user has set ASAN_OPTIONS to that, if he has. */
static void run_sanitized(const char *option, const char *value)
{
	fake_host_reset(S_CTX_REMOTE);
	if (value)
		spank_setenv(NULL, "ASAN_OPTIONS", value, 1);
	run_task(option, 1, no_arguments);
}

/* The user's own word stays, ours is added once, and an inner step under "off" has what the user had. */
static void tells_the_sanitizer(void)
{
	run_sanitized("nap", NULL);
	CHECK(variable_is("ASAN_OPTIONS", "verify_asan_link_order=0") && variable_is("MPI_WAIT_ASAN", "1"));
	run_task("off", 1, no_arguments);
	CHECK(variable_is("ASAN_OPTIONS", NULL) && variable_is("MPI_WAIT_ASAN", NULL));
	run_sanitized("profile", "detect_leaks=0");
	CHECK(variable_is("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"));
	run_task("nap", 1, no_arguments);
	CHECK(variable_is("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"));
	run_task("off", 1, no_arguments);
	CHECK(variable_is("ASAN_OPTIONS", "detect_leaks=0"));
	run_sanitized("nap", "verify_asan_link_order=1");
	CHECK(variable_is("ASAN_OPTIONS", "verify_asan_link_order=1") && variable_is("MPI_WAIT_ASAN", NULL));
	run_sanitized("off", "a=1:verify_asan_link_order=0");
	CHECK(variable_is("ASAN_OPTIONS", "a=1:verify_asan_link_order=0"));
}

/* A runtime that must be the first library of a program stays first, in an inner step too. */
static void stays_behind_a_runtime(void)
{
	const char *ours, *preload;

	fake_host_reset(S_CTX_REMOTE);
	spank_setenv(NULL, "LD_PRELOAD", "/x/libasan.so.8:libother.so", 1);
	run_task("nap", 1, no_arguments);
	run_task("nap", 1, no_arguments);
	preload = fake_host_getenv("LD_PRELOAD");
	ours = preload ? strstr(preload, "/libmpiwait.so:libother.so") : NULL;
	CHECK(ours && strncmp(preload, "/x/libasan.so.8:", strlen("/x/libasan.so.8:")) == 0 &&
	      !strstr(ours + 2, "libmpiwait.so"));
	run_task("off", 1, no_arguments);
	CHECK(preload_is("/x/libasan.so.8:libother.so"));
}

/* What the task may run on when slurmstepd lets it go; the test is the task. */
static cpu_set_t affinity_of_task(uint32_t task, const char *option, int argument_count, char **arguments)
{
	cpu_set_t before, bound;

	fake_host_reset(S_CTX_REMOTE);
	fake_host.local_tasks = 2;
	fake_host.cores = "0-1";
	fake_host.task = task;
	CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
	run_task(option, argument_count, arguments);
	CHECK(sched_getaffinity(0, sizeof(bound), &bound) == 0);
	CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
	return bound;
}

/* Two cores, and the right to run on both. With hardware threads, two CPUs may be one core. */
static bool has_two_cores(const cpu_set_t *cpus)
{
	FILE *file = fopen("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "r");
	char siblings[16] = "";
	bool alone = file && fgets(siblings, sizeof(siblings), file) && strcmp(siblings, "0\n") == 0;

	if (file)
		fclose(file);
	return CPU_COUNT(cpus) == sysconf(_SC_NPROCESSORS_ONLN) && CPU_COUNT(cpus) >= (alone ? 2 : 3);
}

/* Each of two tasks has one of two cores, unless the site says otherwise. */
static void binds_each_task_to_its_cores(void)
{
	char *unbound[] = {policies, "pin=none"};
	cpu_set_t all, first, second, both;

	memset(&all, 0xff, sizeof(all)); /* as slurmstepd has it, wherever the test runs */
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	first = affinity_of_task(0, "nap", 2, unbound);
	CHECK(CPU_EQUAL(&first, &all));
	first = affinity_of_task(0, NULL, 1, no_arguments);
	CHECK(CPU_EQUAL(&first, &all));
	if (!has_two_cores(&all))
		return;
	first = affinity_of_task(0, "nap", 1, no_arguments);
	second = affinity_of_task(1, "nap", 1, no_arguments);
	CPU_AND(&both, &first, &second);
	CHECK(CPU_COUNT(&first) > 0 && CPU_COUNT(&second) > 0 && CPU_COUNT(&both) == 0);
	CHECK(fake_host.log[0] == '\0');
}

/* A number of the job's state on this node, -1: there is none. */
static long state_number(const char *name)
{
	char text[8192] = "", wanted[64];
	FILE *file = fopen("/run/mpi-wait/c1/7/job.json", "r");
	const char *found;

	if (file) {
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
	}
	snprintf(wanted, sizeof(wanted), "\"%s\":", name);
	found = strstr(text, wanted);
	return found ? strtol(found + strlen(wanted), NULL, 10) : -1;
}

static void run_counted(enum fake_cores counts, const char *cores)
{
	fake_host_reset(S_CTX_REMOTE);
	fake_host.counts = counts;
	fake_host.cores = cores;
	CHECK(system("rm -rf /run/mpi-wait/c1/7") == 0);
	run_task("nap", 1, no_arguments);
}

/* Slurm's core is what slurmstepd says: a core, a hardware thread, or nothing that is known. */
static void counts_cores_as_slurm_does(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t all, first;

	run_counted(FAKE_CORES, "0");
	CHECK(state_number("cores") == 1 && state_number("cores_total") >= 1 && state_number("cores_total") <= cpus);
	run_counted(FAKE_THREADS, "0");
	CHECK(state_number("cores") == 1 && state_number("cores_total") == cpus);
	CHECK(fake_host.log[0] == '\0');
	run_counted(FAKE_TOO_MANY, "0");
	CHECK(state_number("cores") == 0 && state_number("cores_total") == 0);
	CHECK(strstr(fake_host.log, "more cores here than the"));
	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	fake_host_reset(S_CTX_REMOTE);
	fake_host.local_tasks = 2;
	fake_host.cores = "0-1";
	fake_host.counts = FAKE_TOO_MANY;
	run_task("nap", 1, no_arguments);
	CHECK(sched_getaffinity(0, sizeof(first), &first) == 0 && CPU_EQUAL(&first, &all));
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	CHECK(file && fputs(text, file) >= 0);
	if (file)
		fclose(file);
}

/* A job that has all cores but those that slurm.conf keeps from jobs has all that there are. */
static void leaves_out_what_no_job_can_have(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	write_file("/run/slurm.conf", "NodeName=DEFAULT CoreSpecCount=1\nNodeName=c[1-2] CPUs=2\n");
	setenv("SLURM_CONF", "/run/slurm.conf", 1);
	run_counted(FAKE_THREADS, "0");
	CHECK(state_number("cores_total") == (cpus > 1 ? cpus - 1 : 1));
	setenv("SLURM_CONF", "/nonexistent", 1);
	run_counted(FAKE_THREADS, "0");
	CHECK(state_number("cores_total") == cpus);
	unsetenv("SLURM_CONF");
}

static size_t topology_copies(void)
{
	DIR *directory = opendir("/run/mpi-wait/c1");
	const struct dirent *entry;
	size_t count = 0;

	while (directory && (entry = readdir(directory)))
		count += strncmp(entry->d_name, "topology-", 9) == 0;
	if (directory)
		closedir(directory);
	return count;
}

/* Nothing that hwloc shows while a CPU is offline is used when it is back. */
static void reads_the_topology_anew_with_other_cpus_online(void)
{
	const char *online = "/sys/devices/system/cpu/online";
	size_t before;

	run_counted(FAKE_CORES, "0");
	before = topology_copies();
	CHECK(before > 0);
	run_counted(FAKE_CORES, "0");
	CHECK(topology_copies() == before);
	write_file("/run/online", "0,2-70\n");
	CHECK(mount("/run/online", online, NULL, MS_BIND, NULL) == 0);
	run_counted(FAKE_CORES, "0");
	CHECK(topology_copies() == before + 1);
	CHECK(umount(online) == 0);
}

static bool says_near(const char *option, uint32_t local_tasks, uint32_t total_tasks, uint32_t stride, const char *near)
{
	const char *config;

	fake_host_reset(S_CTX_REMOTE);
	fake_host.local_tasks = local_tasks;
	fake_host.total_tasks = total_tasks;
	fake_host.task_stride = stride;
	run_task(option, 1, no_arguments);
	config = fake_host_getenv("MPI_WAIT_CONFIG");
	if (!config || !strstr(config, ";segment="))
		return false;
	return near ? strstr(config, near) != NULL : !strstr(config, ";near=");
}

/* Which of the step's tasks are here is for profiles of several nodes. */
static void names_the_tasks_of_the_node(void)
{
	CHECK(says_near("nap,profile", 4, 8, 1, ";near=8:1:1-4;"));
	CHECK(says_near("profile", 2, 8, 3, ";near=8:1:1-1,4-4;"));
	CHECK(says_near("profile", 128, 1 << 20, 8000, "-1016001;"));
	CHECK(says_near("profile", 129, 1 << 20, 8000, NULL)); /* more ranges than the library takes */
	CHECK(says_near("profile", 8, 8, 1, NULL));
	CHECK(says_near("nap", 4, 8, 1, NULL));
	fake_host.local_tasks = 1;
	fake_host.total_tasks = 0;
}

/* The number behind a key of the task's configuration; -1: it is not there. */
static int config_number(const char *key)
{
	const char *config = fake_host_getenv("MPI_WAIT_CONFIG"), *at = config ? strstr(config, key) : NULL;

	return at ? (int)strtol(at + strlen(key), NULL, 10) : -1;
}

static bool is_same_file(int left, int right)
{
	struct stat one, other;

	return fstat(left, &one) == 0 && fstat(right, &other) == 0 && one.st_ino == other.st_ino &&
	       one.st_dev == other.st_dev;
}

/* The numbers are such that no script and no loop over descriptors comes there; lower if the user's hard limit is. Runs
 * in a child of ours, since that limit is not raised again without a privilege. */
static void hands_the_segment_down(void)
{
	const struct rlimit usual = {1024, 4096}, low = {100, 300};
	struct rlimit after;
	int segment;

	CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
	fake_host_reset(S_CTX_REMOTE);
	run_task("nap", 1, no_arguments);
	segment = config_number(";segment=");
	CHECK(segment > 255 && segment < 1024 && segment + 1000 > 1024);
	CHECK(is_same_file(segment, segment + 1000));
	CHECK(getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur == 1024 && after.rlim_max == 4096);
	CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
	fake_host_reset(S_CTX_REMOTE);
	run_task("nap", 1, no_arguments);
	segment = config_number(";segment=");
	CHECK(segment >= 200 && segment < 300 && fcntl(segment, F_GET_SEALS) > 0);
	CHECK(fake_host.log[0] == '\0');
}

static void hands_the_segment_down_twice(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		check_failures = 0;
		hands_the_segment_down();
		_exit(check_failures);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Never smaller, larger, or, where the kernel can say so, executed. */
static void seals_the_segment(void)
{
	const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, never_executed = 0x0020;
	const char *config, *segment;
	int seals;

	fake_host_reset(S_CTX_REMOTE);
	fake_host_load(plugin, "nap", 1, no_arguments);
	CHECK(fake_host_call("init_post_opt", 1, no_arguments) == 0);
	CHECK(fake_host_call("task_init", 1, no_arguments) == 0);
	config = fake_host_getenv("MPI_WAIT_CONFIG");
	segment = config ? strstr(config, ";segment=") : NULL;
	CHECK(segment);
	seals = segment ? fcntl((int)strtol(segment + strlen(";segment="), NULL, 10), F_GET_SEALS) : 0;
	CHECK((seals & wanted) == wanted);
	CHECK(seals & never_executed || access("/proc/sys/vm/memfd_noexec", F_OK) < 0);
	CHECK(fake_host_call("exit", 1, no_arguments) == 0);
}

static void leaves_others_alone(void)
{
	fake_host_reset(S_CTX_REMOTE);
	fake_host.job_id = 8;
	spank_setenv(NULL, "LD_PRELOAD", "libother.so", 1);
	run_task(NULL, 1, no_arguments);
	CHECK(preload_is("libother.so"));
	CHECK(!fake_host_getenv("MPI_WAIT_CONFIG"));
	CHECK(access("/run/mpi-wait/c1/8", F_OK) < 0);
	CHECK(fake_host.log[0] == '\0');
}

static void removes_what_was_inherited(void)
{
	static const char *const cases[][2] = {
	        {"/opt/x/libmpiwait.so", NULL},
	        {"libmpiwait.so", NULL},
	        {"/a/libmpiwait.so:libother.so", "libother.so"},
	        {"libfirst.so /a/libmpiwait.so:libother.so", "libfirst.so:libother.so"},
	        {"libnotmpiwait.so", "libnotmpiwait.so"},
	        {"/a/libmpiwait.so.bak", "/a/libmpiwait.so.bak"},
	        {"/a/libmpiwait.so /b/libmpiwait.so", NULL},
	        {"/proc/self/fd/230", NULL},
	        {"/proc/self/fd/230:libother.so", "libother.so"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *left;

		fake_host_reset(S_CTX_REMOTE);
		spank_setenv(NULL, "LD_PRELOAD", cases[i][0], 1);
		spank_setenv(NULL, "MPI_WAIT_CONFIG", "v=1;rungs=nap", 1);
		run_task("off", 1, no_arguments);
		left = fake_host_getenv("LD_PRELOAD");
		CHECK(cases[i][1] ? left && strcmp(left, cases[i][1]) == 0 : !left);
		CHECK(!fake_host_getenv("MPI_WAIT_CONFIG"));
	}
}

static void survives_a_huge_preload(void)
{
	size_t size = (size_t)4 << 20;
	char *huge = malloc(size);

	memset(huge, 'x', size - 1);
	huge[size - 1] = '\0';
	fake_host_reset(S_CTX_REMOTE);
	spank_setenv(NULL, "LD_PRELOAD", huge, 1);
	run_task("nap", 1, no_arguments);
	CHECK(preload_is(huge));
	CHECK_CONTAINS(fake_host.log, "LD_PRELOAD is left alone");
	free(huge);
}

static void follows_precedence(void)
{
	char *site_nap[] = {policies, "default=nap"};

	fake_host_reset(S_CTX_REMOTE);
	run_task(NULL, 2, site_nap);
	CHECK(fake_host_getenv("LD_PRELOAD"));
	fake_host_reset(S_CTX_REMOTE);
	spank_setenv(NULL, "MPI_WAIT_POLICY", "yield", 1);
	run_task(NULL, 2, site_nap);
	CHECK(config_says("rungs=pause+yield;"));
	fake_host_reset(S_CTX_REMOTE);
	spank_setenv(NULL, "MPI_WAIT_POLICY", "yield", 1);
	run_task("off", 2, site_nap);
	CHECK(!fake_host_getenv("MPI_WAIT_CONFIG"));
	fake_host_reset(S_CTX_REMOTE);
	run_task("no-such-policy", 2, site_nap); /* forged: the site's default holds */
	CHECK(config_says("rungs=pause+nap;"));
	CHECK_CONTAINS(fake_host.log, "unknown policy 'no-such-policy'");
}

static void respects_enforcement(void)
{
	char *enforced[] = {policies, "default=nap", "enforce=yes"};
	char *killed[] = {policies, "default=off", "allow=off"};

	fake_host_reset(S_CTX_REMOTE);
	run_task("off", 3, enforced);
	CHECK(fake_host_getenv("MPI_WAIT_CONFIG"));
	fake_host_reset(S_CTX_REMOTE);
	run_task("nap", 3, killed);
	CHECK(!fake_host_getenv("MPI_WAIT_CONFIG"));
}

static void is_inert_on_a_bad_line(void)
{
	char *wrong[] = {policies, "default=nap", "colour=red"};

	fake_host_reset(S_CTX_REMOTE);
	run_task("nap", 3, wrong);
	CHECK(!fake_host_getenv("LD_PRELOAD"));
	CHECK_CONTAINS(fake_host.log, "'colour=red' (no such argument); the plugin does nothing");
}

/* A job's words are found in the node state by a step that sees no option. */
static void remembers_the_job(void)
{
	char *site_nap[] = {policies, "default=nap"};

	fake_host_reset(S_CTX_JOB_SCRIPT);
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_JOB_NODELIST", "c1", 1);
	fake_host.option = "yield";
	fake_host_load(plugin, NULL, 2, site_nap);
	CHECK(fake_host_call("job_prolog", 2, site_nap) == 0);
	fake_host_reset(S_CTX_REMOTE);
	run_task(NULL, 2, site_nap);
	CHECK(config_says("rungs=pause+yield;"));
	fake_host_reset(S_CTX_JOB_SCRIPT);
	fake_host_load(plugin, NULL, 2, site_nap);
	CHECK(fake_host_call("job_epilog", 2, site_nap) == 0);
	CHECK(access("/run/mpi-wait/c1/7", F_OK) < 0);
	fake_host.option = "off";
	CHECK(fake_host_call("job_prolog", 2, site_nap) == 0);
	fake_host_reset(S_CTX_REMOTE);
	run_task(NULL, 2, site_nap);
	CHECK(!fake_host_getenv("MPI_WAIT_CONFIG"));
}

/* Returns true if the job's state has that text. */
static bool state_says(const char *text)
{
	static char state[65536];
	FILE *file = fopen("/run/mpi-wait/c1/7/job.json", "r");
	size_t length = file ? fread(state, 1, sizeof(state) - 1, file) : 0;

	if (file)
		fclose(file);
	state[length] = '\0';
	return strstr(state, text);
}

/* Parts of a device are others' too. Shards are told to steps alone, and MPS's percentage is a user's there. */
static void notes_parts_of_gpus(void)
{
	char *site_nap[] = {policies, "default=nap"};

	for (int parts = 0; parts < 3; parts++) {
		fake_host_reset(S_CTX_JOB_SCRIPT);
		setenv("SLURM_JOB_ID", "7", 1);
		setenv("SLURM_JOB_NODELIST", "c1", 1);
		setenv("SLURM_JOB_GPUS", "0", 1);
		if (parts == 1)
			setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1);
		fake_host_load(plugin, NULL, 2, site_nap);
		CHECK(fake_host_call("job_prolog", 2, site_nap) == 0);
		unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
		CHECK(state_says(parts == 1 ? "\"gpu_list\":\"parts\"" : "\"gpu_list\":\"0\""));
		fake_host_reset(S_CTX_REMOTE);
		spank_setenv(NULL, parts == 2 ? "SLURM_SHARDS_ON_NODE" : "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "2", 1);
		run_task(NULL, 2, site_nap);
		CHECK(state_says(parts > 0 ? "\"gpu_list\":\"parts\"" : "\"gpu_list\":\"0\""));
		CHECK(system("rm -r /run/mpi-wait/c1/7") == 0);
		unsetenv("SLURM_JOB_GPUS");
	}
}

/* The record must not tell a saving on cores that another job has too, whether their clock may change or not. */
static void notes_shared_cores(void)
{
	char *site_nap[] = {policies, "default=nap", "grant=off"};

	fake_host_reset(S_CTX_JOB_SCRIPT);
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_JOB_OVERSUBSCRIBE", "YES", 1);
	fake_host_load(plugin, NULL, 3, site_nap);
	CHECK(fake_host_call("job_prolog", 3, site_nap) == 0);
	CHECK(state_says("\"shared_cores\":true"));
	CHECK(system("rm -r /run/mpi-wait/c1/7") == 0);
	unsetenv("SLURM_JOB_OVERSUBSCRIBE");
}

static bool is_there(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/run/mpi-wait/c1/7/%s", name);
	return access(path, F_OK) == 0;
}

/* A job that says so, one step of it that says so, and what its node has noted of them before the epilog. */
static bool is_noted(const char *job, const char *step, const char *record)
{
	char *arguments[] = {policies, (char *)record};
	bool noted;

	fake_host_reset(S_CTX_JOB_SCRIPT);
	fake_host.option = job;
	fake_host_load(plugin, NULL, 2, arguments);
	CHECK(fake_host_call("job_prolog", 2, arguments) == 0);
	fake_host_reset(S_CTX_REMOTE);
	run_task(step, 2, arguments);
	CHECK(!fake_host_getenv("LD_PRELOAD") && !fake_host_getenv("MPI_WAIT_CONFIG"));
	noted = is_there("step.0.json");
	fake_host_reset(S_CTX_JOB_SCRIPT);
	fake_host_load(plugin, NULL, 2, arguments);
	CHECK(fake_host_call("job_epilog", 2, arguments) == 0);
	CHECK(!is_there("."));
	return noted;
}

/* Nothing is loaded into what runs under "off"; its energy is noted where the site or the job records. */
static void notes_the_energy_of_off(void)
{
	CHECK(is_noted("off", "off", "record=all"));
	CHECK(is_noted(NULL, "off", "record=all"));
	CHECK(!is_noted("off", "off", "record=policy"));
	CHECK(!is_noted("off", "off", "record=mpi"));
	CHECK(is_noted("nap", "off", "record=policy"));
	CHECK(is_noted("nap", "off", "record=mpi"));
	CHECK(!is_noted("nap", "off", "record=none"));
	CHECK(!is_noted(NULL, NULL, "record=all"));
}

static bool step_says(const char *part)
{
	FILE *file = fopen("/run/mpi-wait/c1/7/step.0.json", "r");
	char text[8192] = "";
	size_t got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	return got > 0 && strstr(text, part);
}

/* Writes a file that has what decides of a program, and that somebody else owns. */
static void program_write(const char *path, uint16_t type, uint32_t segment_type, mode_t mode)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr segment;
	} program = {.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
	                      .e_type = type,
	                      .e_phoff = sizeof(Elf64_Ehdr),
	                      .e_phnum = 1,
	                      .e_phentsize = sizeof(Elf64_Phdr)},
	             .segment = {.p_type = segment_type}};
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);

	CHECK(write(file, &program, sizeof(program)) == (ssize_t)sizeof(program));
	CHECK(fchown(file, 4711, 4711) == 0 && fchmod(file, mode) == 0);
	close(file);
}

/* Runs a step of one task with that program, in which `count` ranks are noted. Returns true if the node has noted that
 * text of it, or nothing for NULL. */
static bool is_missed_as(char *program, enum mpiwait_note note, int count, const char *noted)
{
	struct mpiwait_notes *page;
	int id;

	fake_host_reset(S_CTX_REMOTE);
	fake_host.words[0] = program;
	spank_setenv(NULL, "PATH", "/no-such-directory:/run/programs", 1);
	fake_host_load(plugin, "nap", 1, no_arguments);
	CHECK(fake_host_call("init_post_opt", 1, no_arguments) == 0);
	CHECK(fake_host_call("task_init", 1, no_arguments) == 0);
	id = config_number(";notes=");
	page = shmat(id, NULL, 0);
	CHECK(id >= 0 && page != (void *)-1);
	if (page != (void *)-1) {
		page->count[note] += (uint32_t)count;
		CHECK(shmdt(page) == 0);
	}
	CHECK(fake_host_call("exit", 1, no_arguments) == 0);
	CHECK(shmat(id, NULL, 0) == (void *)-1);
	fake_host.words[0] = NULL;
	return noted ? step_says(noted) : step_says("\"id\"") && !step_says("\"missed\"");
}

static bool is_missed(char *program, int lost, const char *noted)
{
	return is_missed_as(program, MPIWAIT_NOTE_LOST, lost, noted);
}

static void notes_who_is_missed(void)
{
	CHECK(mkdir("/run/programs", 0755) == 0);
	program_write("/run/programs/dynamic", ET_EXEC, PT_INTERP, 0755);
	program_write("/run/programs/static", ET_EXEC, PT_LOAD, 0755);
	program_write("/run/programs/loader", ET_DYN, PT_LOAD, 0755);
	program_write("/run/programs/setuid", ET_EXEC, PT_INTERP, 04755);
	program_write("/run/programs/setgid", ET_DYN, PT_INTERP, 02755);
	CHECK(is_missed(NULL, 0, NULL) && is_missed("dynamic", 0, NULL) && is_missed("loader", 0, NULL));
	CHECK(is_missed("no-such-program", 0, NULL) && is_missed("/run", 0, NULL) && is_missed("/dev/null", 0, NULL));
	CHECK(is_missed("static", 0, "\"missed\":{\"static\":1}"));
	CHECK(is_missed("/run/programs/setuid", 0, "\"missed\":{\"setuid\":1}"));
	CHECK(is_missed("setgid", 0, "\"missed\":{\"setuid\":1}"));
	/* as home directories are mounted, below which "chmod -R g+s" has left its mark on programs */
	CHECK(mount("tmpfs", "/run/programs", "tmpfs", MS_NOSUID, "mode=755") == 0);
	program_write("/run/programs/setgid", ET_EXEC, PT_INTERP, 06755);
	CHECK(is_missed("setgid", 0, NULL));
	CHECK(umount("/run/programs") == 0);
	CHECK(is_missed("dynamic", 2, "\"missed\":{\"lost\":2}"));
	CHECK(is_missed("static", -1, "\"missed\":{\"lost\":1000000,\"static\":1}"));
	CHECK(fake_host.log[0] == '\0');
	CHECK(is_missed_as("dynamic", MPIWAIT_NOTE_UNFIT, 3, "\"missed\":{\"unfit\":3}"));
	CHECK_CONTAINS(fake_host.log, "a libmpiwait.so of another release");
}

static void promotes_at_submit(void)
{
	fake_host_reset(S_CTX_LOCAL);
	fake_host_load(plugin, "nap,slowdown=3", 1, no_arguments);
	CHECK(fake_host_call("init_post_opt", 1, no_arguments) == 0);
	CHECK(strcmp(fake_host.promoted, "MPI_WAIT_POLICY=nap,slowdown=3") == 0);
}

/* Whether a command of that kind keeps the option of an outer job where MPI_WAIT_POLICY is set to that. */
static bool keeps_the_outer_option(enum spank_context context, const char *policy)
{
	static const char variable[] = "_SLURM_SPANK_OPTION_mpi_wait_mpi_wait_policy";
	bool kept;

	setenv(variable, "nap", 1);
	if (policy)
		setenv("MPI_WAIT_POLICY", policy, 1);
	fake_host_reset(context);
	fake_host_load(plugin, NULL, 1, no_arguments);
	kept = getenv(variable) != NULL;
	unsetenv(variable);
	unsetenv("MPI_WAIT_POLICY");
	return kept;
}

/* For a new job the user's variable is nearer than what the job around it was submitted with; for a step it is not. */
static void weighs_the_outer_job_s_option(void)
{
	CHECK(!keeps_the_outer_option(S_CTX_ALLOCATOR, "yield"));
	CHECK(keeps_the_outer_option(S_CTX_ALLOCATOR, NULL));
	CHECK(keeps_the_outer_option(S_CTX_ALLOCATOR, ""));
	CHECK(keeps_the_outer_option(S_CTX_LOCAL, "yield"));
	CHECK(keeps_the_outer_option(S_CTX_REMOTE, "yield"));
}

/* Submits from a child of ours, since a refusal ends the process. Returns its exit status, *ret_log what it logged. */
static int submits(enum spank_context context, const char *option, char *log, size_t size)
{
	int ends[2], status = -1;
	pid_t child;
	ssize_t got;

	CHECK(pipe(ends) == 0);
	child = fork();
	if (child == 0) {
		close(ends[0]);
		fake_host_reset(context);
		fake_host.log_to = ends[1];
		fake_host_load(plugin, option, 1, no_arguments);
		fake_host_call("init_post_opt", 1, no_arguments);
		_exit(0);
	}
	close(ends[1]);
	for (size_t used = 0; (got = read(ends[0], log + used, size - 1 - used)) > 0; used += (size_t)got)
		log[used + (size_t)got] = '\0';
	close(ends[0]);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* As --mpi-wait-policy="$UNSET" gives it. */
static void refuses_an_empty_value(void)
{
	char log[1024] = "";

	CHECK(submits(S_CTX_LOCAL, "nap", log, sizeof(log)) == 0 && !log[0]);
	CHECK(submits(S_CTX_LOCAL, "", log, sizeof(log)) == 1);
	CHECK_CONTAINS(log, "--mpi-wait-policy: the policy is missing: the value is empty");
	CHECK_CONTAINS(log, "nothing was submitted");
}

/* Scripts that ask for a policy go on working where the site has switched them off, and are told so. */
static void says_that_it_is_switched_off(void)
{
	char *killed[] = {policies, "default=off", "allow=off"};

	fake_host_reset(S_CTX_LOCAL);
	fake_host_load(plugin, "nap", 3, killed);
	CHECK(fake_host_call("init_post_opt", 3, killed) == 0);
	CHECK_CONTAINS(fake_host.log,
	               "--mpi-wait-policy: the site has switched wait policies off, the job runs without");
}

int main(int argument_count, char **arguments)
{
	if (argument_count != 2)
		return 2;
	plugin = arguments[1];
	snprintf(policies, sizeof(policies), "policies=%s", MPIWAIT_POLICIES);
	enter_private_run();
	/* The outbox is below /var/spool; nothing of this test belongs there. */
	if (mount("tmpfs", "/var/spool", "tmpfs", 0, "mode=755") < 0)
		return 77;
	injects_in_front();
	counts_cores_as_slurm_does();
	leaves_out_what_no_job_can_have();
	reads_the_topology_anew_with_other_cpus_online();
	binds_each_task_to_its_cores();
	tells_openmp();
	tells_openmp_anew();
	tells_the_sanitizer();
	stays_behind_a_runtime();
	names_the_tasks_of_the_node();
	hands_the_segment_down_twice();
	seals_the_segment();
	leaves_others_alone();
	removes_what_was_inherited();
	survives_a_huge_preload();
	follows_precedence();
	respects_enforcement();
	is_inert_on_a_bad_line();
	remembers_the_job();
	notes_parts_of_gpus();
	notes_shared_cores();
	notes_the_energy_of_off();
	notes_who_is_missed();
	promotes_at_submit();
	weighs_the_outer_job_s_option();
	refuses_an_empty_value();
	says_that_it_is_switched_off();
	heeds_the_first_of_two_lines();
	return CHECK_RESULT;
}
