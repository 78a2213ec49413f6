/*
 * Programs that load or leave their MPI in unusual ways: one scene per argument. The program links no MPI unless the
 * test says so.
 *
 *     corners SCENE [LIBRARY]
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MICROSECONDS 100000

typedef uintptr_t word;
typedef int (*any_function)(word, ...);

int MPI_Init(int *, char ***) __attribute__((weak));
int MPI_Finalize(void) __attribute__((weak));
int MPI_Recv(word, word, word, word, word, word, word) __attribute__((weak));
int MPI_Abort(word, int) __attribute__((weak));

static int receive(any_function receiver)
{
	return receiver(1, (word)MICROSECONDS, (word)3, (word)0, (word)5, (word)6, (word)7);
}

/* Takes every function from the handle, as language bindings that load MPI themselves do. */
static int scene_handle(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int code;

	if (!library)
		return 2;
	((any_function)dlsym(library, "MPI_Init"))(0, (word)0);
	code = receive((any_function)dlsym(library, "MPI_Recv"));
	((any_function)dlsym(library, "MPI_Finalize"))(0);
	return code;
}

/* Loads a plugin that is linked to the MPI, with local symbols, and unloads it: twice. */
static int scene_plugin(const char *path)
{
	int code = 0;

	for (int i = 0; i < 2 && code == 0; i++) {
		void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);

		code = plugin ? ((int (*)(void))dlsym(plugin, "plugin_run"))() : 2;
		if (plugin)
			dlclose(plugin);
		code |= sched_yield();
	}
	return code;
}

static int scene_linked(const char *unused)
{
	int code;

	(void)unused;
	MPI_Init(NULL, NULL);
	code = receive((any_function)MPI_Recv);
	MPI_Finalize();
	return code;
}

/* The child of vfork shares the parent's memory until it executes another program. */
static int scene_vfork(const char *unused)
{
	int status, code;
	pid_t child;

	(void)unused;
	MPI_Init(NULL, NULL);
	child = vfork();
	if (child == 0) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	code = receive((any_function)MPI_Recv);
	MPI_Finalize();
	return code | status;
}

static int scene_abort(const char *unused)
{
	(void)unused;
	MPI_Init(NULL, NULL);
	receive((any_function)MPI_Recv);
	return MPI_Abort(0, 3);
}

static const struct {
	const char *name;
	int (*play)(const char *);
} scenes[] = {
        {"handle", scene_handle}, {"plugin", scene_plugin}, {"linked", scene_linked},
        {"vfork", scene_vfork},   {"abort", scene_abort},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (strcmp(scenes[i].name, argv[1]) == 0)
			return scenes[i].play(argc > 2 ? argv[2] : NULL);
	return 2;
}
