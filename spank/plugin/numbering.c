#include "spank/plugin/numbering.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/json.h"
#include "spank/base/proc.h"

#define COUNT_FILE "slurm-cores"
#define COUNT_MAX  4096 /* most bytes of COUNT_FILE */
#define CORES_MAX  65536

/* Types of the functions xcpuinfo_abs_to_mac, xcpuinfo_mac_to_abs and slurm_xfree of Slurm 22.05 to 26.05. */
typedef int (*list_to_list)(char *list, char **ret_list);
typedef void (*text_free)(void **text);

struct asked {
	list_to_list cores_to_cpus;
	list_to_list cpus_to_cores;
	text_free release;
	unsigned count;
	hwloc_bitmap_t *core;
	hwloc_bitmap_t left; /* CPUs of the machine that no core has yet, also those offline */
};

static void asked_free(struct asked *asked)
{
	for (unsigned i = 0; i < asked->count; i++)
		hwloc_bitmap_free(asked->core[i]);
	free(asked->core);
	hwloc_bitmap_free(asked->left);
}

#define cleanup_asked __attribute__((cleanup(asked_free)))

/* Translates a list. Returns 0, -ERANGE if Slurm does not know all its numbers, or -EINVAL. */
static int list_ask(const struct asked *asked, list_to_list translate, char *list, hwloc_bitmap_t ret_set)
{
	char *answer = NULL;
	int result = translate(list, &answer) ? -ERANGE : 0;

	if (!result && (!answer || hwloc_bitmap_list_sscanf(ret_set, answer) < 0))
		result = -EINVAL;
	asked->release((void **)&answer);
	return result;
}

static int core_ask(struct asked *asked, unsigned core)
{
	cleanup_bitmap hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
	char number[16];
	int result;

	snprintf(number, sizeof(number), "%u", core);
	result = cpus ? list_ask(asked, asked->cores_to_cpus, number, cpus) : -ENOMEM;
	if (result)
		return result;
	asked->core[core] = hwloc_bitmap_dup(cpus);
	if (!asked->core[core])
		return -ENOMEM;
	asked->count = core + 1;
	hwloc_bitmap_andnot(asked->left, asked->left, cpus);
	return 0;
}

/*
 * Returns the least number of cores that Slurm has: those on which the machine's CPUs lie. slurm.conf may name more
 * cores than there are CPUs (config_overrides); several of them lie on one CPU then.
 */
static unsigned cores_least(const struct asked *asked, unsigned cpus)
{
	cleanup_bitmap hwloc_bitmap_t cores = hwloc_bitmap_alloc();
	char list[32];

	snprintf(list, sizeof(list), "0-%u", cpus - 1);
	if (!cores || list_ask(asked, asked->cpus_to_cores, list, cores))
		return 0;
	return (unsigned)(hwloc_bitmap_last(cores) + 1);
}

/*
 * slurmd names its configuration file to the processes that it starts. A configless slurmd keeps a copy in its own
 * directory.
 */
const char *numbering_configuration(void)
{
	static const char *const usual[] = {"/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf",
	                                    "/etc/slurm-llnl/slurm.conf"};
	const char *path = getenv("SLURM_CONF");

	for (size_t i = 0; !path && i < sizeof(usual) / sizeof(usual[0]); i++)
		if (access(usual[i], R_OK) == 0)
			path = usual[i];
	return path ? path : usual[1];
}

/*
 * Writes a name for the present state of Slurm's configuration on this node: the boot, the file's time, and the number
 * of CPUs online.
 */
static void configuration_name(unsigned online, char name[64 + PROC_BOOT_MAX])
{
	char boot[PROC_BOOT_MAX] = "";
	struct stat status;

	proc_boot_read(boot);
	if (stat(numbering_configuration(), &status))
		memset(&status, 0, sizeof(status));
	snprintf(name, 64 + PROC_BOOT_MAX, "%s %lld.%09ld %u", boot, (long long)status.st_mtim.tv_sec,
	         status.st_mtim.tv_nsec, online);
}

/* Returns the kept number of cores that Slurm counts under this configuration; CORES_MAX if none is kept. */
static unsigned count_read(int directory, const char *configuration)
{
	json_auto_t *json = NULL;
	uint64_t cores = 0;
	const char *of = NULL;

	if (directory < 0 || files_read_json(directory, COUNT_FILE, COUNT_MAX, &json))
		return CORES_MAX;
	of = json_string_value(json_object_get(json, "configuration"));
	if (!of || strcmp(of, configuration) != 0 || !integer_get(json, "cores", CORES_MAX, &cores))
		return CORES_MAX;
	return (unsigned)cores;
}

static void count_keep(int directory, const char *configuration, unsigned cores)
{
	json_auto_t *json = json_pack("{s:s, s:i}", "configuration", configuration, "cores", (int)cores);

	if (directory >= 0 && json)
		files_write_json(directory, COUNT_FILE, 0600, json, false);
}

/*
 * Asks for one core after the other until no CPU is left. If Slurm leaves CPUs to no core, only the question for a core
 * that Slurm does not have ends the loop. slurmstepd logs such a question as an error, so the count is kept and the
 * question asked once per configuration. cpus: all CPUs; a slurmd that started when some were offline does not count
 * them, and would take a question about them for an error.
 */
static int cores_ask(struct asked *asked, unsigned cpus, unsigned online, int directory)
{
	char configuration[64 + PROC_BOOT_MAX];
	unsigned kept, least = cores_least(asked, online);
	int result = least > cpus ? -E2BIG : 0;

	configuration_name(online, configuration);
	kept = count_read(directory, configuration);
	for (unsigned core = 0; !result && core < cpus; core++) {
		if (core >= least && (core >= kept || hwloc_bitmap_iszero(asked->left)))
			break;
		result = core_ask(asked, core);
	}
	if (result != -ERANGE)
		return result;
	count_keep(directory, configuration, asked->count);
	return 0;
}

static bool functions_find(struct asked *asked)
{
	*(void **)&asked->cores_to_cpus = dlsym(RTLD_DEFAULT, "xcpuinfo_abs_to_mac");
	*(void **)&asked->cpus_to_cores = dlsym(RTLD_DEFAULT, "xcpuinfo_mac_to_abs");
	*(void **)&asked->release = dlsym(RTLD_DEFAULT, "slurm_xfree");
	return asked->cores_to_cpus && asked->cpus_to_cores && asked->release;
}

int numbering_ask(struct topology *topology, const char *directory, struct error *error)
{
	cleanup_asked struct asked asked = {.left = hwloc_bitmap_alloc()};
	cleanup_close int kept = directory[0] ? files_directory(AT_FDCWD, directory, 0) : -1;
	unsigned cpus, online;
	int result;

	if (!functions_find(&asked))
		return error_set(error, -ENOSYS, "this slurmstepd does not say which CPUs its cores are");
	if (!asked.left)
		return error_set(error, -ENOMEM, "no memory for Slurm's numbering of cores");
	topology_add_all(topology, asked.left);
	online = (unsigned)hwloc_bitmap_weight(asked.left);
	topology_add_offline(topology, asked.left);
	cpus = (unsigned)hwloc_bitmap_weight(asked.left);
	asked.core = calloc(cpus + 1, sizeof(asked.core[0]));
	result = asked.core ? cores_ask(&asked, cpus, online, kept) : -ENOMEM;
	if (result == -E2BIG)
		return error_set(error, result, "Slurm counts more cores here than the %u CPUs that there are", cpus);
	if (result)
		return error_set(error, result, "Slurm's numbering of cores: %s", strerror(-result));
	return topology_number(topology, asked.core, asked.count, error);
}
