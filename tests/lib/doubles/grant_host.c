/*
 * A slurmstepd with its tasks, without Slurm: drives the real plugin through its callbacks. Each task is a process of
 * its own that inherits what a task inherits, and sends the broker the requests of its commands.
 *
 *     grant_host PLUGIN JOB TASKS OPTION [ARGUMENT...]
 *
 * ARGUMENT is as in plugstack.conf. The step is 0, on cores 0 to TASKS - 1, of user and group 65534.
 *
 * Standard input has one command a line, each with one line of answer:
 *     TASK config | cpus | widen | low CPU [TID] | restore CPU   the task obeys: see task_main
 *     TASK shout CPU                                             asks for low, and does not wait for the answer
 *     TASK tid | child                                           prints its thread's id; that of a process it starts
 *     end TASK                                                   ends the task, and tells the plugin
 *     exit                                                       ends the step, and unloads the plugin
 *     drop                                                       the same, without telling the plugin of tasks' ends
 *
 * With the variable PAUSES it first prints "prepared", before it forks the tasks, and waits for an empty line.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/contract/lease.h"
#include "preload/contract/stats.h"
#include "tests/lib/doubles/fake_host.h"

#define TASKS_MAX 8
#define USER      65534
#define CPUS_MAX  64
#define PAGE      4096
#define ANSWER    100000 /* checks for an answer, 20 s and more */
#define CONFIG    "MPI_WAIT_CONFIG"
#define PIPE_ENDS 4

static struct {
	pid_t pid;
	FILE *tell;
	FILE *hear;
} tasks[TASKS_MAX];

/* Returns the descriptor in the task's configuration: NUMBER of "KEY=[lease:]NUMBER:DEVICE:INODE". */
static int config_fd(const char *key)
{
	const char *at = getenv(CONFIG) ? strstr(getenv(CONFIG), key) : NULL;

	return at ? atoi(at + strlen(key)) : -1;
}

/* Maps what a rank maps: the board for reading, its words for writing. */
static bool lease_map(const struct mpiwait_board **ret_board, uint64_t **ret_words)
{
	int board = config_fd(";cpufreq=lease:"), segment = config_fd(";segment=");
	void *read = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, board, 0);
	void *write = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, segment, MPIWAIT_WORDS_OFFSET);

	*ret_board = read;
	*ret_words = write;
	return read != MAP_FAILED && write != MAP_FAILED;
}

/* Sends a request. Prints the answer and the number of changes of the core since the one before; "over" without a
 * lease. */
static void lease_ask(uint32_t verb, uint32_t cpu, uint32_t tid, int most)
{
	static uint32_t seen[CPUS_MAX];
	const struct mpiwait_board *board;
	uint32_t serial, changes;
	uint64_t *words;

	if (!lease_map(&board, &words) || board->magic != MPIWAIT_BOARD_MAGIC || cpu >= CPUS_MAX ||
	    cpu >= board->cpus) {
		printf("over\n");
		return;
	}
	serial = mpiwait_lease_serial(words[cpu]) + 1;
	__atomic_store_n(&words[cpu], mpiwait_lease_request(verb, tid, serial), __ATOMIC_SEQ_CST);
	for (int i = 0; mpiwait_lease_serial(__atomic_load_n(&board->reply[cpu], __ATOMIC_ACQUIRE)) != serial; i++) {
		syscall(SYS_futex, &board->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		if (i == most) {
			printf("silence\n");
			return;
		}
		usleep(200);
	}
	changes = mpiwait_lease_changes(board->reply[cpu]);
	printf("%u %u\n", mpiwait_lease_answer(board->reply[cpu]), changes - seen[cpu]);
	seen[cpu] = changes;
}

static void cpus_print(void)
{
	cpu_set_t cpus;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			printf("%zu ", cpu);
	printf("\n");
}

/* Starts another process of the task, which sleeps until the task ends. */
static int child_make(void)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return (int)child;
}

static int widen(void)
{
	cpu_set_t cpus;

	memset(&cpus, 0xff, sizeof(cpus));
	return sched_setaffinity(0, sizeof(cpus), &cpus);
}

/* Runs the task after its exec, with its environment and what it inherited, but nothing of slurmstepd's. */
static int task_main(void)
{
	char line[64], word[16];
	unsigned cpu = 0, tid;

	while (tid = (unsigned)syscall(SYS_gettid),
	       fgets(line, sizeof(line), stdin) && sscanf(line, "%15s %u %u", word, &cpu, &tid) >= 1) {
		if (strcmp(word, "config") == 0)
			printf("%s\n", getenv(CONFIG) ? getenv(CONFIG) : "");
		else if (strcmp(word, "cpus") == 0)
			cpus_print();
		else if (strcmp(word, "widen") == 0)
			printf("%d\n", widen());
		else if (strcmp(word, "tid") == 0)
			printf("%u\n", tid);
		else if (strcmp(word, "child") == 0)
			printf("%d\n", child_make());
		else if (strcmp(word, "shout") == 0)
			lease_ask(MPIWAIT_LEASE_LOW, cpu, tid, 0);
		else
			lease_ask(strcmp(word, "low") == 0 ? MPIWAIT_LEASE_LOW : MPIWAIT_LEASE_RESTORE, cpu, tid,
			          ANSWER);
		fflush(stdout);
	}
	return 0;
}

/* Arguments for a child that shares slurmstepd's memory. */
struct contained {
	const char *hook;
	int count;
	char **arguments;
};

static int contained_main(void *argument)
{
	const struct contained *contained = argument;

	fake_host_call(contained->hook, contained->count, contained->arguments);
	_exit(0);
}

/* Calls a hook as Slurm does. With $CONTAINED, as Slurm 24.05 and later do with SlurmdParameters=contain_spank. */
static void call(const char *hook, int count, char *arguments[])
{
	static char stack[1 << 20] __attribute__((aligned(16)));
	struct contained contained = {hook, count, arguments};
	pid_t child;

	if (!getenv("CONTAINED")) {
		fake_host_call(hook, count, arguments);
		return;
	}
	child = clone(contained_main, stack + sizeof(stack), CLONE_VM | SIGCHLD, &contained);
	waitpid(child, NULL, 0);
}

/* Runs the task until its exec, after waiting for slurmstepd's permission. */
static void task_begin(int order, int answer, int count, char *arguments[])
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(order, &byte, 1) != 1)
		_exit(1);
	fake_host_call("task_init", count, arguments);
	if (fake_host_getenv(CONFIG))
		setenv(CONFIG, fake_host_getenv(CONFIG), 1);
	if (setgid(USER) || setuid(USER) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL)) /* a change of user clears the death signal */
		_exit(1);
	dup2(order, 0);
	dup2(answer, 1);
	execl("/proc/self/exe", "grant_host", (char *)NULL);
	_exit(1);
}

static int task_fork(uint32_t task, int count, char *arguments[])
{
	int order[2], answer[2];

	if (pipe2(order, O_CLOEXEC) || pipe2(answer, O_CLOEXEC))
		return -1;
	fake_host.task = task;
	tasks[task].pid = fork();
	if (tasks[task].pid == 0)
		task_begin(order[0], answer[1], count, arguments);
	close(order[0]);
	close(answer[1]);
	tasks[task].tell = fdopen(order[1], "w");
	tasks[task].hear = fdopen(answer[0], "r");
	return tasks[task].pid < 0 ? -1 : 0;
}

static void task_wait(uint32_t task)
{
	fclose(tasks[task].tell);
	fclose(tasks[task].hear);
	tasks[task].tell = NULL;
	waitpid(tasks[task].pid, NULL, 0);
}

static void task_end(uint32_t task, int count, char *arguments[])
{
	if (!tasks[task].tell)
		return;
	task_wait(task);
	fake_host.task = task;
	call("task_exit", count, arguments);
}

static void step_end(bool told, int count, char *arguments[])
{
	for (uint32_t task = 0; task < TASKS_MAX; task++)
		if (told)
			task_end(task, count, arguments);
		else if (tasks[task].tell)
			task_wait(task);
	fake_host_call("exit", count, arguments);
}

static void relay(uint32_t task, const char *line)
{
	char answer[4096] = "over\n";

	fputs(line, tasks[task].tell);
	fflush(tasks[task].tell);
	if (fgets(answer, sizeof(answer), tasks[task].hear))
		fputs(answer, stdout);
}

/* Obeys commands. Returns true if the plugin must be told of the tasks' ends. */
static bool serve(int count, char *arguments[])
{
	char line[128];

	while (fgets(line, sizeof(line), stdin)) {
		uint32_t task = (uint32_t)atoi(line + (strncmp(line, "end ", 4) == 0 ? 4 : 0)) % TASKS_MAX;

		if (strcmp(line, "exit\n") == 0 || strcmp(line, "drop\n") == 0)
			return line[0] == 'e';
		if (strncmp(line, "end ", 4) == 0) {
			task_end(task, count, arguments);
			puts("ended");
		} else if (tasks[task].tell) {
			relay(task, strchr(line, ' ') + 1);
		} else {
			puts("no such task");
		}
		fflush(stdout);
	}
	return true;
}

/* Reserves descriptors for the tasks' pipes: where descriptors are few, the plugin may use up all others. */
static void pipes_reserve(uint32_t number, int spare[])
{
	for (uint32_t i = 0; i < number * PIPE_ENDS; i++)
		spare[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void pipes_free(uint32_t number, const int spare[])
{
	for (uint32_t i = 0; i < number * PIPE_ENDS; i++)
		close(spare[i]);
}

static void pause_before_tasks(void)
{
	puts("prepared");
	fflush(stdout);
	while (getchar() != '\n')
		;
}

int main(int count, char *words[])
{
	static char cores[16];
	static int spare[TASKS_MAX * PIPE_ENDS];
	uint32_t number = count > 4 ? (uint32_t)atoi(words[3]) : 0;

	if (count == 1)
		return task_main();
	if (number == 0 || number > TASKS_MAX)
		return 64;
	widen(); /* slurmstepd may run on all CPUs, wherever the test runs */
	fake_host_reset(S_CTX_REMOTE);
	snprintf(cores, sizeof(cores), "0-%u", number - 1);
	fake_host.job_id = (uint32_t)atoi(words[2]);
	fake_host.user = USER;
	fake_host.local_tasks = number;
	fake_host.cores = cores;
	fake_host_load(words[1], words[4], count - 5, words + 5);
	pipes_reserve(number, spare);
	fake_host_call("init_post_opt", count - 5, words + 5);
	if (getenv("PAUSES"))
		pause_before_tasks();
	pipes_free(number, spare);
	for (uint32_t task = 0; task < number; task++)
		if (task_fork(task, count - 5, words + 5))
			return 1;
	for (uint32_t task = 0; task < number; task++) {
		fake_host.task = task;
		fake_host.task_pid = tasks[task].pid;
		call("task_post_fork", count - 5, words + 5);
	}
	for (uint32_t task = 0; task < number; task++) {
		fputc('\n', tasks[task].tell);
		fflush(tasks[task].tell);
	}
	puts("begun");
	fflush(stdout);
	step_end(serve(count - 5, words + 5), count - 5, words + 5);
	fputs(fake_host.log, stderr);
	fake_host_unload();
	puts("gone");
	fflush(stdout);
	while (getchar() != EOF) /* remaining threads may end */
		;
	return 0;
}
