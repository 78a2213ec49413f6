/*
 * enter PID UID GID GROUPS FOLDER [-t] [-d PIDFILE OUTPUT] -- COMMAND...: runs a command inside a cluster. The command
 * inherits environment and files 0 to 2.
 *
 * The program joins the namespaces and cgroups of process PID, becomes the user (GROUPS: numbers with commas between),
 * runs the command in FOLDER, passes signals on to it, and ends as the command ended. So a command in the cluster is an
 * ordinary child of the caller. If this process is killed, so is the command. Thousands of commands are run this way.
 *
 * -t: the command gets the caller's terminal, whose own signals are not passed on. -d: the command is a daemon, left to
 * the cluster's init in a session of its own, with its pid in PIDFILE and its output in OUTPUT; this process ends at
 * once.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CGROUPS_MAX    32
#define GROUPS_MAX     64
#define NOT_FOUND      127
#define NOT_EXECUTABLE 126
#define FAILED         125
#define LENGTH(array)  (sizeof(array) / sizeof((array)[0]))

struct command {
	const char *pid, *folder, *pid_file, *output;
	uid_t uid;
	gid_t gid, groups[GROUPS_MAX];
	size_t group_count;
	bool terminal;
	char **words;
};

/* A line of /proc/PID/cgroup. */
struct cgroup {
	char controllers[64], path[PATH_MAX];
};

static const int passed_on[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
static pid_t child;

static _Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...)
{
	const char *reason = strerror(errno);
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "enter: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, ": %s\n", reason);
	va_end(arguments);
	_exit(FAILED);
}

static int open_or_fail(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd == -1)
		fail("%s", path);
	return fd;
}

static void write_or_fail(const char *path, int flags, const char *text)
{
	int fd = open_or_fail(path, O_WRONLY | flags);

	if (write(fd, text, strlen(text)) == -1)
		fail("%s", path);
	close(fd);
}

static size_t cgroups_read(const char *pid, struct cgroup found[static CGROUPS_MAX])
{
	char path[64], line[PATH_MAX + 128];
	size_t count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/cgroup", pid);
	file = fopen(path, "re");
	if (!file)
		fail("%s", path);
	while (count < CGROUPS_MAX && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':'), *end = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!end)
			continue;
		*end = '\0';
		end[strcspn(end + 1, "\n") + 1] = '\0';
		snprintf(found[count].controllers, sizeof(found[count].controllers), "%s", controllers + 1);
		snprintf(found[count].path, sizeof(found[count].path), "%s", end + 1);
		count++;
	}
	fclose(file);
	return count;
}

/* Moves this process into the cgroups of `pid` that are not its own. Uses v2 only if there is no v1, beside which v2
 * has no controllers. */
static void cgroups_join(const char *pid)
{
	static struct cgroup own[CGROUPS_MAX], wanted[CGROUPS_MAX];
	size_t own_count = cgroups_read("self", own), count = cgroups_read(pid, wanted);

	for (size_t i = 0; i < count; i++) {
		const char *name = wanted[i].controllers;
		char path[2 * PATH_MAX];
		size_t k = 0;

		while (k < own_count && strcmp(own[k].controllers, name) != 0)
			k++;
		if ((!*name && own_count != 1) || (k < own_count && strcmp(own[k].path, wanted[i].path) == 0))
			continue;
		name += strncmp(name, "name=", 5) == 0 ? 5 : 0;
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s/cgroup.procs", name, wanted[i].path);
		write_or_fail(path, 0, "0");
	}
}

static bool is_same(int fd, const char *path)
{
	struct stat one, other;

	if (fstat(fd, &one) == -1 || stat(path, &other) == -1)
		fail("%s", path);
	return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* Enters the namespaces of `pid` that are not this process's own, the mounts last. Then enters its root directory:
 * setns leads to the root of the mount namespace, which in a chroot is another directory. */
static void namespaces_join(const char *pid)
{
	static const char *const names[] = {"pid", "net", "ipc", "uts", "cgroup", "mnt"};
	int fds[LENGTH(names)], root;
	char path[64], own[64];

	snprintf(path, sizeof(path), "/proc/%s/root", pid);
	root = open_or_fail(path, O_PATH);
	for (size_t i = 0; i < LENGTH(names); i++) {
		snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, names[i]);
		snprintf(own, sizeof(own), "/proc/self/ns/%s", names[i]);
		fds[i] = open_or_fail(path, O_RDONLY);
		if (is_same(fds[i], own)) {
			close(fds[i]);
			fds[i] = -1;
		}
	}
	for (size_t i = 0; i < LENGTH(names); i++)
		if (fds[i] != -1 && setns(fds[i], 0) == -1)
			fail("setns %s", names[i]);
	if (!is_same(root, "/") && (fchdir(root) == -1 || chroot(".") == -1))
		fail("chroot");
}

/* Executes the command. On failure exits with 127 or 126, as a shell does. */
static _Noreturn void execute(const struct command *command)
{
	if (setgroups(command->group_count, command->groups) == -1 ||
	    setresgid(command->gid, command->gid, command->gid) == -1 ||
	    setresuid(command->uid, command->uid, command->uid) == -1)
		fail("user %u", command->uid);
	if (!command->pid_file)
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	umask(022);
	if (chdir(command->folder) == 0)
		execvp(command->words[0], command->words);
	fprintf(stderr, "%s: %s\n", command->words[0], strerror(errno));
	_exit(errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

static _Noreturn void daemon_start(const struct command *command)
{
	char temporary[PATH_MAX], number[16];
	int null, output;
	pid_t daemon;

	setsid();
	daemon = fork();
	if (daemon == -1)
		fail("fork");
	if (daemon != 0)
		_exit(0);
	null = open_or_fail("/dev/null", O_RDWR);
	output = open_or_fail(command->output, O_WRONLY | O_CREAT | O_APPEND);
	dup2(null, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	snprintf(temporary, sizeof(temporary), "%s.new", command->pid_file);
	snprintf(number, sizeof(number), "%d", (int)getpid());
	write_or_fail(temporary, O_CREAT | O_TRUNC, number);
	if (rename(temporary, command->pid_file) == -1)
		fail("%s", command->pid_file);
	execute(command);
}

/* Makes a process group the foreground one of the terminal on descriptor 0, if there is one. */
static void terminal_give(pid_t group)
{
	if (!isatty(STDIN_FILENO))
		return;
	signal(SIGTTOU, SIG_IGN);
	tcsetpgrp(STDIN_FILENO, group);
	signal(SIGTTOU, SIG_DFL);
}

static _Noreturn void child_run(const struct command *command)
{
	if (command->pid_file)
		daemon_start(command);
	if (command->terminal) {
		setpgid(0, 0);
		terminal_give(getpgrp());
	} else {
		setsid();
	}
	execute(command);
}

/* Ends this process as the command ended, by its signal if it was one. */
static _Noreturn void end_as(int status)
{
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* the command has dumped its core already */
		kill(getpid(), WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

static void pass_on(int number)
{
	int before = errno;

	kill(child, number);
	errno = before;
}

static struct command command_read(int count, char **words)
{
	struct command command = {.pid = words[1], .folder = words[5]};
	int option;

	command.uid = (uid_t)strtoul(words[2], NULL, 10);
	command.gid = (gid_t)strtoul(words[3], NULL, 10);
	for (char *at = words[4]; *at && command.group_count < GROUPS_MAX; at += *at == ',')
		command.groups[command.group_count++] = (gid_t)strtoul(at, &at, 10);
	optind = 6;
	while ((option = getopt(count, words, "+td:")) != -1) {
		command.terminal |= option == 't';
		if (option == 'd') {
			command.pid_file = optarg;
			command.output = words[optind++];
		}
	}
	command.words = words + optind;
	return command;
}

int main(int count, char **words)
{
	struct sigaction handler = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
	struct command command;
	sigset_t signals;
	int status;

	if (count < 8)
		return FAILED;
	command = command_read(count, words);
	sigemptyset(&signals);
	for (size_t i = 0; i < LENGTH(passed_on); i++)
		sigaddset(&signals, passed_on[i]);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	cgroups_join(command.pid);
	namespaces_join(command.pid);
	child = fork();
	if (child == -1)
		fail("fork");
	if (child == 0) {
		sigprocmask(SIG_UNBLOCK, &signals, NULL);
		child_run(&command);
	}
	for (size_t i = 0; i < LENGTH(passed_on); i++)
		sigaction(passed_on[i], &handler, NULL);
	if (command.terminal) {
		signal(SIGINT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
	}
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
	while (waitpid(child, &status, 0) == -1)
		if (errno != EINTR)
			fail("waitpid");
	if (command.terminal)
		terminal_give(getpgrp());
	end_as(status);
}
