/*
 * mover.so DIRECTORY: a SPANK plugin that gives each task a mount namespace of its own, as the user and in task_init,
 * as pyxis does. The only difference in it is an empty DIRECTORY.
 */
#include <fcntl.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

SPANK_PLUGIN(mover, 1)

static void map_write(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		slurm_error("mover: %s: %m", path);
	if (file >= 0)
		close(file);
}

static void map_identity(const char *path, unsigned id)
{
	char text[32];

	snprintf(text, sizeof(text), "%u %u 1", id, id);
	map_write(path, text);
}

int slurm_spank_task_init(spank_t spank, int argument_count, char **arguments)
{
	unsigned user = getuid(), group = getgid();

	(void)spank;
	if (argument_count != 1 || unshare(CLONE_NEWNS | CLONE_NEWUSER) < 0) {
		slurm_error("mover: unshare: %m");
		return ESPANK_SUCCESS;
	}
	prctl(PR_SET_DUMPABLE, 1); /* slurmstepd was root: without it /proc/self would stay root's */
	map_write("/proc/self/setgroups", "deny");
	map_identity("/proc/self/uid_map", user);
	map_identity("/proc/self/gid_map", group);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", arguments[0], "tmpfs", 0, NULL) < 0)
		slurm_error("mover: mount: %m");
	return ESPANK_SUCCESS;
}
