/*
 * The preloaded part: reads the environment, catches SIGILL, keeps the counters. emulate.h states its invariant.
 */
#include "tests/lib/emulate/emulate.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

struct emulation emulation = {.max_time = 100000};

static struct counters nowhere;
static struct counters *counters;
static pid_t counters_pid;
static const char *directory;

struct counters *counters_get(void)
{
	char path[256];
	int file;
	void *memory;

	if (__atomic_load_n(&counters_pid, __ATOMIC_ACQUIRE) == getpid())
		return counters;
	counters = &nowhere;
	snprintf(path, sizeof(path), "%s/%d", directory ? directory : "", (int)getpid());
	file = directory ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
	if (file >= 0 && ftruncate(file, PAGE) == 0) {
		memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		if (memory != MAP_FAILED)
			counters = memory;
	}
	if (file >= 0)
		close(file);
	__atomic_store_n(&counters_pid, getpid(), __ATOMIC_RELEASE);
	return counters;
}

static void on_illegal(int number, siginfo_t *information, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint8_t bytes[8];
	unsigned length;

	(void)information;
	sites_read((const uint8_t *)registers[REG_RIP], bytes);
	length = execute(bytes, registers);
	if (length == 0)
		signal(number, SIG_DFL); /* not an emulated instruction: it traps again, for good */
	registers[REG_RIP] += length;
}

static void features_read(const char *text)
{
	char line[64] = "";
	int file = text[0] == '@' ? open(text + 1, O_RDONLY | O_CLOEXEC) : -1;

	if (file >= 0) {
		if (read(file, line, sizeof(line) - 1) < 0)
			line[0] = '\0';
		close(file);
		text = line;
	}
	emulation.features =
	        (strstr(text, "waitpkg") ? EMULATE_WAITPKG : 0) | (strstr(text, "monitorx") ? EMULATE_MONITORX : 0);
}

__attribute__((constructor)) static void begin(void)
{
	struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
	const char *text = getenv("EMULATE"), *limit = getenv("EMULATE_MAX_TIME");

	if (!text)
		return;
	features_read(text);
	if (limit)
		emulation.max_time = strtoull(limit, NULL, 10);
	directory = getenv("EMULATE_COUNTERS");
	sigaction(SIGILL, &action, NULL);
	sites_patch();
}

/* Slurm's daemons load the plugin while they run. */
__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
	static void *(*next)(const char *, int);
	void *handle;

	if (!next)
		next = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	handle = next(file, mode);
	if (handle)
		sites_patch();
	return handle;
}
