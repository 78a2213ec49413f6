#include "tests/lib/doubles/fake_host.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLES 32

struct fake_host fake_host;

static struct {
	char *name;
	char *value;
} variables[VARIABLES];
static struct spank_option registered;
static void *plugin_handle;

typedef int (*hook_function)(spank_t, int, char **);

/* slurmstepd exports these functions, but no public header declares them. */
int xcpuinfo_abs_to_mac(char *cores, char **ret_cpus);
int xcpuinfo_mac_to_abs(char *cpus, char **ret_cores);
void slurm_xfree(void **text);

static int slot_of(const char *name)
{
	for (int i = 0; i < VARIABLES; i++)
		if (variables[i].name && strcmp(variables[i].name, name) == 0)
			return i;
	return -1;
}

void fake_host_reset(enum spank_context context)
{
	for (int i = 0; i < VARIABLES; i++) {
		free(variables[i].name);
		free(variables[i].value);
		variables[i].name = variables[i].value = NULL;
	}
	memset(&fake_host, 0, sizeof(fake_host));
	fake_host.context = context;
	fake_host.job_id = 7;
	fake_host.local_tasks = 1;
	fake_host.cpus_per_task = 1;
	fake_host.cores = "0";
}

const char *fake_host_getenv(const char *name)
{
	int slot = slot_of(name);

	return slot < 0 ? NULL : variables[slot].value;
}

void fake_host_load(const char *plugin, const char *option, int argument_count, char **arguments)
{
	if (plugin_handle)
		dlclose(plugin_handle);
	plugin_handle = dlopen(plugin, RTLD_LAZY | RTLD_LOCAL);
	if (!plugin_handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	fake_host_call("init", argument_count, arguments);
	if (option)
		registered.cb(registered.val, option, fake_host.context == S_CTX_REMOTE);
}

void fake_host_unload(void)
{
	dlclose(plugin_handle);
	plugin_handle = NULL;
}

int fake_host_call(const char *hook, int argument_count, char **arguments)
{
	char name[64];
	hook_function function;

	snprintf(name, sizeof(name), "slurm_spank_%s", hook);
	*(void **)&function = dlsym(plugin_handle, name);
	if (!function) {
		fprintf(stderr, "the plugin has no %s\n", name);
		exit(1);
	}
	return function(NULL, argument_count, arguments);
}

/* Returns true if the CPU is the first thread of its core. Writes the CPUs of that core to `list`. */
static int is_first_thread(long cpu, char list[64])
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/topology/thread_siblings_list", cpu);
	file = fopen(path, "r");
	snprintf(list, 64, "%ld", cpu);
	if (file && fgets(list, 64, file))
		list[strcspn(list, "\n")] = '\0';
	if (file)
		fclose(file);
	return strtol(list, NULL, 10) == cpu;
}

/* Stands for slurmstepd's function: returns one core's CPUs, -1 if Slurm has no such core. */
int xcpuinfo_abs_to_mac(char *cores, char **ret_cpus)
{
	long core = strtol(cores, NULL, 10), cpus = sysconf(_SC_NPROCESSORS_ONLN), place = 0;
	char list[64];

	if (fake_host.counts != FAKE_CORES)
		return core < cpus * (1 + (fake_host.counts == FAKE_TOO_MANY)) &&
		                       asprintf(ret_cpus, "%ld", core % cpus) > 0
		               ? 0
		               : -1;
	for (long cpu = 0; cpu < cpus; cpu++)
		if (is_first_thread(cpu, list) && place++ == core)
			return (*ret_cpus = strdup(list)) ? 0 : -1;
	return -1;
}

/* Stands for slurmstepd's function: returns the cores on the machine's CPUs. */
int xcpuinfo_mac_to_abs(char *cpus, char **ret_cores)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN), cores = 0;
	char list[64];

	(void)cpus;
	for (long cpu = 0; cpu < count; cpu++)
		cores += fake_host.counts != FAKE_CORES || is_first_thread(cpu, list);
	return asprintf(ret_cores, "0-%ld", cores * (1 + (fake_host.counts == FAKE_TOO_MANY)) - 1) > 0 ? 0 : -1;
}

void slurm_xfree(void **text)
{
	free(*text);
	*text = NULL;
}

spank_context_t spank_context(void)
{
	return fake_host.context;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
	(void)spank;
	registered = *option;
	return ESPANK_SUCCESS;
}

spank_err_t spank_option_getopt(spank_t spank, struct spank_option *option, char **text)
{
	(void)spank;
	(void)option;
	*text = (char *)fake_host.option;
	return fake_host.option ? ESPANK_SUCCESS : ESPANK_ERROR;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *buffer, int size)
{
	int slot = slot_of(name);

	(void)spank;
	if (slot < 0)
		return ESPANK_ENV_NOEXIST;
	if (strlen(variables[slot].value) >= (size_t)size)
		return ESPANK_NOSPACE;
	strcpy(buffer, variables[slot].value);
	return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
	int slot = slot_of(name);

	(void)spank;
	if (slot >= 0) {
		free(variables[slot].name);
		free(variables[slot].value);
		variables[slot].name = variables[slot].value = NULL;
	}
	return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
	if (!overwrite && slot_of(name) >= 0)
		return ESPANK_ENV_EXISTS;
	spank_unsetenv(spank, name);
	for (int i = 0; i < VARIABLES; i++) {
		if (variables[i].name)
			continue;
		variables[i].name = strdup(name);
		variables[i].value = strdup(value);
		return ESPANK_SUCCESS;
	}
	return ESPANK_NOSPACE;
}

spank_err_t spank_job_control_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
	(void)spank;
	(void)overwrite;
	snprintf(fake_host.promoted, sizeof(fake_host.promoted), "%s=%s", name, value);
	return ESPANK_SUCCESS;
}

static uint32_t number_of(spank_item_t item)
{
	switch (item) {
	case S_JOB_ID:
		return fake_host.job_id;
	case S_JOB_STEPID:
		return fake_host.step_id;
	case S_JOB_UID:
	case S_JOB_GID:
		return fake_host.user;
	case S_JOB_LOCAL_TASK_COUNT:
		return fake_host.local_tasks;
	case S_STEP_CPUS_PER_TASK:
		return fake_host.cpus_per_task;
	case S_TASK_ID:
		return fake_host.task;
	case S_JOB_TOTAL_TASK_COUNT:
		return fake_host.total_tasks;
	case S_TASK_GLOBAL_ID:
	case S_JOB_NNODES:
		return 1;
	default:
		return 0;
	}
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
	va_list arguments;
	void *target;

	(void)spank;
	va_start(arguments, item);
	if (item == S_JOB_LOCAL_TO_GLOBAL_ID) {
		uint32_t local = va_arg(arguments, uint32_t);

		*va_arg(arguments, uint32_t *) = local * fake_host.task_stride + 1;
		va_end(arguments);
		return ESPANK_SUCCESS;
	}
	target = va_arg(arguments, void *);
	if (item == S_JOB_ARGV)
		*va_arg(arguments, char ***) = fake_host.words;
	va_end(arguments);
	if (item == S_JOB_ALLOC_CORES || item == S_STEP_ALLOC_CORES)
		*(const char **)target = fake_host.cores;
	else if (item == S_JOB_ARGV)
		*(int *)target = fake_host.words[0] ? 1 : 0;
	else if (item == S_TASK_PID)
		*(pid_t *)target = fake_host.task_pid ? fake_host.task_pid : getpid();
	else
		*(uint32_t *)target = number_of(item);
	return ESPANK_SUCCESS;
}

#define LOG_DOUBLE(name)                                                                              \
	void name(const char *format, ...);                                                           \
	void name(const char *format, ...)                                                            \
	{                                                                                             \
		size_t used = strlen(fake_host.log);                                                  \
		va_list arguments;                                                                    \
                                                                                                      \
		va_start(arguments, format);                                                          \
		vsnprintf(fake_host.log + used, sizeof(fake_host.log) - used - 1, format, arguments); \
		va_end(arguments);                                                                    \
		strcat(fake_host.log, "\n");                                                          \
		if (fake_host.log_to > 0)                                                             \
			dprintf(fake_host.log_to, "%s", fake_host.log + used);                        \
	}

LOG_DOUBLE(slurm_error)
LOG_DOUBLE(slurm_info)
LOG_DOUBLE(slurm_debug)
