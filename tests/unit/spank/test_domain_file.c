/* A domain's file and its holder, cpufreq's files, on a made-up /sys; the rest is driven from pytest. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/base/files.h"
#include "spank/base/run_directory.h"
#include "spank/cpufreq/domain_file.h"
#include "tests/lib/check.h"

static char home[] = "/tmp/domain-XXXXXX";

/* home/FORMAT, until the next call. */
__attribute__((format(printf, 1, 2))) static const char *at(const char *format, ...)
{
	static char path[512];
	int length = snprintf(path, sizeof(path), "%s/", home);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path + length, sizeof(path) - (size_t)length, format, arguments);
	va_end(arguments);
	return path;
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	CHECK(file != NULL);
	if (file) {
		fputs(text, file);
		fclose(file);
	}
}

static void make_sys(void)
{
	static const char *const files[][2] = {
	        {"scaling_governor", "schedutil\n"},
	        {"scaling_min_freq", "1000000\n"},
	        {"scaling_max_freq", "2000000\n"},
	        {"cpuinfo_max_freq", "2400000\n"},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		put(at("sys/devices/system/cpu/cpufreq/policy0/%s", files[i][0]), files[i][1]);
}

static void make_directories(void)
{
	static const char *const names[] = {
	        "sys",
	        "sys/devices",
	        "sys/devices/system",
	        "sys/devices/system/cpu",
	        "sys/devices/system/cpu/cpu0",
	        "sys/devices/system/cpu/cpu1",
	        "sys/devices/system/cpu/cpufreq",
	        "sys/devices/system/cpu/cpufreq/policy0",
	        "sys/devices/virtual",
	        "sys/devices/virtual/thermal",
	        "sys/devices/virtual/thermal/cooling_device0",
	};

	CHECK(mkdtemp(home) != NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(mkdir(at("%s", names[i]), 0755) == 0);
}

static const struct {
	const char *target;
	int policy;
} links[] = {
        {"../cpufreq/policy0", 0},
        {"../cpufreq/policy16383", 16383},
        {"../cpufreq/policy16384", -EBADMSG},
        {"../cpufreq/policy007", -EBADMSG},
        {"../cpufreq/policy", -EBADMSG},
        {"../cpufreq/policy-1", -EBADMSG},
        {"../cpufreq/policy0/../../../../../etc", -EBADMSG},
        {"/etc", -EBADMSG},
        {"../cpufreq/policy99999999999999999999", -EBADMSG},
};

static void test_paths(const char *sysfs)
{
	int directory, cpus = open(at("sys/devices/system/cpu"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(cpus >= 0);
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		unlinkat(cpus, "cpu0/cpufreq", 0);
		CHECK(symlinkat(links[i].target, cpus, "cpu0/cpufreq") == 0);
		CHECK(cpufreq_policy_of(sysfs, 0) == links[i].policy);
	}
	CHECK(cpufreq_policy_of(sysfs, 1) == -ENODEV);
	CHECK(cpufreq_policy_number("policy12") == 12 && cpufreq_policy_number(".policy1.2") < 0);
	CHECK(cpufreq_open_policy(sysfs, 5) == -ENOENT);
	CHECK(cpufreq_open_policy(sysfs, CPUFREQ_POLICIES) == -EINVAL);
	CHECK(symlinkat("policy0", cpus, "cpufreq/policy3") == 0);
	CHECK(cpufreq_open_policy(sysfs, 3) == -ENOTDIR);
	directory = cpufreq_open_policy(sysfs, 0);
	CHECK(directory >= 0);
	CHECK(renameat(directory, CPUFREQ_MAX, directory, "kept") == 0);
	CHECK(symlinkat("scaling_governor", directory, CPUFREQ_MAX) == 0);
	CHECK(cpufreq_open_max(directory, O_RDWR) == -ELOOP);
	unlinkat(directory, CPUFREQ_MAX, 0);
	CHECK(mkfifoat(directory, CPUFREQ_MAX, 0600) == 0);
	CHECK(cpufreq_open_max(directory, O_RDWR) == -EINVAL);
	unlinkat(directory, CPUFREQ_MAX, 0);
	CHECK(cpufreq_open_max(directory, O_RDWR) == -ENOENT);
	CHECK(renameat(directory, "kept", directory, CPUFREQ_MAX) == 0);
	close(directory);
	close(cpus);
}

static bool is_capped(const char *sysfs, int directory)
{
	return cpufreq_is_capped(directory, cpufreq_is_cooled(sysfs));
}

static void test_caps(const char *sysfs)
{
	int directory = cpufreq_open_policy(sysfs, 0);

	/* below the hardware's maximum without a reason: somebody's setting */
	CHECK(!is_capped(sysfs, directory));
	put(at("sys/devices/virtual/thermal/cooling_device0/type"), "Processor\n");
	put(at("sys/devices/virtual/thermal/cooling_device0/cur_state"), "0\n");
	CHECK(!is_capped(sysfs, directory));
	put(at("sys/devices/virtual/thermal/cooling_device0/cur_state"), "2\n");
	CHECK(is_capped(sysfs, directory));
	put(at("sys/devices/virtual/thermal/cooling_device0/type"), "Fan\n");
	CHECK(!is_capped(sysfs, directory));
	put(at("sys/devices/system/cpu/cpufreq/policy0/bios_limit"), "2400000\n");
	CHECK(!is_capped(sysfs, directory));
	put(at("sys/devices/system/cpu/cpufreq/policy0/bios_limit"), "2000000\n");
	CHECK(is_capped(sysfs, directory));
	put(at("sys/devices/system/cpu/cpufreq/policy0/bios_limit"), "1800000\n");
	CHECK(is_capped(sysfs, directory));
	put(at("sys/devices/system/cpu/cpufreq/policy0/bios_limit"), "2200000\n");
	CHECK(!is_capped(sysfs, directory)); /* 2000000 is below it: a setting */
	close(directory);
}

static const char *const boot = "01234567-89ab-cdef-0123-456789abcdef";

/* Held, and given away, as each number says. */
static struct domain_hold hold_make(int kind)
{
	struct domain_hold hold = {.held = true, .holder = {7, 0, 12, ""}, .changes = kind > 0};
	struct domain_change *change = &hold.change;

	strcpy(hold.holder.boot, boot);
	if (kind == 0)
		return hold;
	strcpy(change->driver, "acpi-cpufreq");
	strcpy(change->governor, "schedutil");
	change->owner = (struct cpufreq_owner){0, 0, 0644};
	change->use = (struct domain_use){1000000, 2400000};
	change->gives = kind > 1;
	change->user = kind > 1 ? 1000 : 0;
	return hold;
}

static void test_texts(void)
{
	struct domain_hold unheld = {.held = false}, got;
	char text[DOMAIN_FILE_SIZE];
	struct error error = {""};

	CHECK(domain_file_sum("123456789", 9) == 0xcbf43926u);
	domain_file_print(&unheld, text);
	CHECK(domain_file_parse(text, &got, &error) == 0 && !got.held);
	for (int kind = 0; kind < 3; kind++) {
		struct domain_hold hold = hold_make(kind);

		domain_file_print(&hold, text);
		CHECK(domain_file_parse(text, &got, &error) == 0 && memcmp(&got, &hold, sizeof(got)) == 0);
	}
}

/* The longest that can be has room. */
static void test_longest(void)
{
	struct domain_hold hold = hold_make(2), got;
	struct domain_change *change = &hold.change;
	char text[DOMAIN_FILE_SIZE];

	hold.holder = (struct holder){UINT32_MAX, UINT32_MAX, 63, ""};
	memset(hold.holder.boot, 'x', PROC_BOOT_MAX - 1);
	memset(change->driver, 'd', CPUFREQ_TEXT_MAX - 1);
	memset(change->governor, 'g', CPUFREQ_TEXT_MAX - 1);
	change->owner = (struct cpufreq_owner){UINT32_MAX - 1, UINT32_MAX - 1, 07777};
	change->use.low_khz = change->use.high_khz = INT32_MAX;
	change->user = UINT32_MAX - 1;
	domain_file_print(&hold, text);
	CHECK(domain_file_parse(text, &got, NULL) == 0 && memcmp(&got, &hold, sizeof(got)) == 0);
}

/* With one bit changed anywhere it is refused, whatever the checksum would be. */
static void test_damage(void)
{
	struct domain_hold hold = hold_make(2), got;
	char text[DOMAIN_FILE_SIZE], damaged[DOMAIN_FILE_SIZE];

	domain_file_print(&hold, text);
	for (size_t bit = 0; bit < sizeof(text) * 8; bit++) {
		struct error error = {""};

		memcpy(damaged, text, sizeof(text));
		damaged[bit / 8] = (char)(damaged[bit / 8] ^ (1 << bit % 8));
		CHECK(domain_file_parse(damaged, &got, &error) == -EBADMSG && error.text[0]);
	}
}

static void test_files(void)
{
	int directory = files_directory_path(at("node"), 0700), file, other;
	struct domain_hold hold = hold_make(1), got;
	char text[DOMAIN_FILE_SIZE];
	struct error error = {""};

	CHECK(domain_file_open(directory, 0, false, &error) == -ENOENT);
	file = domain_file_open(directory, 0, true, NULL);
	CHECK(file >= 0 && domain_file_read(file, &got, NULL) == 0 && !got.held);
	CHECK(domain_file_write(file, &hold, text) == 0 && domain_file_lock_own(file, text) == 0);
	CHECK(domain_file_read(file, &got, NULL) == 0 && memcmp(&got, &hold, sizeof(got)) == 0);
	other = domain_file_open(directory, 0, true, NULL);
	CHECK(other >= 0 && files_lock(other, DOMAIN_FILE_WAIT_MS) == -EBUSY);
	files_unlock(file);
	CHECK(files_lock(other, DOMAIN_FILE_WAIT_MS) == 0 && domain_file_write(other, NULL, NULL) == 0);
	files_unlock(other);
	CHECK(domain_file_lock_own(file, text) == -ESTALE && files_lock(other, DOMAIN_FILE_WAIT_MS) == 0);
	close(other);
	close(file);
	close(directory);
}

static char next_of(int stream)
{
	char byte = '\0';

	return read(stream, &byte, 1) == 1 ? byte : '\0';
}

/* In a child: takes a lock, says which, and holds it until it is told to end. */
static pid_t holder_fork(int directory, const int life[2], int ret_said[2], int ret_tell[2])
{
	pid_t child;

	CHECK(pipe2(ret_said, O_CLOEXEC) == 0 && pipe2(ret_tell, O_CLOEXEC) == 0);
	child = fork();
	if (child == 0) {
		int file = domain_file_open(directory, 0, true, NULL);
		struct holder holder = {.lock = 99};
		int result = holder_lock(file, &holder);
		char byte = (char)('0' + holder.lock);

		if (result || write(ret_said[1], &byte, 1) != 1)
			_exit(1);
		close(life[1]);
		if (fork() == 0) /* a child that is no holder, and outlives it, until the test closes its end */
			_exit(next_of(life[0]));
		_exit(next_of(ret_tell[0]) != 'e');
	}
	return child;
}

static void test_holders(void)
{
	int directory = files_directory_path(at("holders"), 0700), said[2][2], tell[2][2], life[2];
	int file = domain_file_open(directory, 0, true, NULL);
	struct holder first, second;
	siginfo_t ended;
	pid_t child[2];

	CHECK(holder_init(1, 0, &first) == 0 && holder_is_of_this_boot(&first) && !holder_is_alive(file, &first));
	CHECK(pipe2(life, O_CLOEXEC) == 0);
	for (int i = 0; i < 2; i++) {
		child[i] = holder_fork(directory, life, said[i], tell[i]);
		/* the second is another one, as long as the first lives, whatever their numbers are */
		CHECK(next_of(said[i][0]) == '0' + i);
	}
	second = first;
	second.lock = 1;
	CHECK(holder_is_alive(file, &first) && holder_is_alive(file, &second));
	CHECK(write(tell[0][1], "e", 1) == 1 && waitid(P_PID, (id_t)child[0], &ended, WEXITED | WNOWAIT) == 0);
	CHECK(!holder_is_alive(file, &first) && holder_is_alive(file, &second)); /* a zombie holds nothing */
	second.boot[0] = second.boot[0] == 'x' ? 'y' : 'x';
	CHECK(!holder_is_alive(file, &second) && !holder_is_of_this_boot(&second));
	CHECK(write(tell[1][1], "e", 1) == 1);
	for (int i = 0; i < 2; i++) {
		CHECK(waitpid(child[i], NULL, 0) == child[i]);
		close(said[i][0]), close(said[i][1]), close(tell[i][0]), close(tell[i][1]);
	}
	close(life[0]), close(life[1]);
	close(file);
	close(directory);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)status;
	(void)kind;
	(void)where;
	return remove(path);
}

int main(void)
{
	char *sysfs;

	make_directories();
	make_sys();
	sysfs = strdup(at("sys"));
	test_paths(sysfs);
	test_caps(sysfs);
	test_texts();
	test_longest();
	test_damage();
	test_files();
	test_holders();
	free(sysfs);
	CHECK(nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
	return CHECK_RESULT;
}
