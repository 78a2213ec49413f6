/* The journal's lines, cpufreq's files, claims and holders, on a made-up /sys; the rest is driven from pytest. */
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
#include "spank/cpufreq/claim.h"
#include "spank/cpufreq/journal_line.h"
#include "spank/node/state.h"
#include "tests/lib/check.h"

static char home[] = "/tmp/journal-XXXXXX";

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
	        {"scaling_governor", "schedutil\n"}, {"scaling_min_freq", "1000000\n"},
	        {"scaling_max_freq", "2000000\n"},   {"scaling_setspeed", "<unsupported>\n"},
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

static void test_paths(int cpus)
{
	int directory;

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		unlinkat(cpus, "cpu0/cpufreq", 0);
		CHECK(symlinkat(links[i].target, cpus, "cpu0/cpufreq") == 0);
		CHECK(cpufreq_policy_of(cpus, 0) == links[i].policy);
	}
	CHECK(cpufreq_policy_of(cpus, 1) == -ENODEV);
	CHECK(cpufreq_open_policy(cpus, 5) == -ENOENT);
	CHECK(cpufreq_open_policy(cpus, CPUFREQ_POLICIES) == -EINVAL);
	CHECK(symlinkat("policy0", cpus, "cpufreq/policy3") == 0);
	CHECK(cpufreq_open_policy(cpus, 3) == -ENOTDIR);
	directory = cpufreq_open_policy(cpus, 0);
	CHECK(directory >= 0);
	CHECK(unlinkat(directory, "scaling_setspeed", 0) == 0);
	CHECK(symlinkat("scaling_governor", directory, "scaling_setspeed") == 0);
	CHECK(cpufreq_open_file(directory, CPUFREQ_SETSPEED, O_RDWR) == -ELOOP);
	unlinkat(directory, "scaling_setspeed", 0);
	CHECK(mkfifoat(directory, "scaling_setspeed", 0600) == 0);
	CHECK(cpufreq_open_file(directory, CPUFREQ_SETSPEED, O_RDWR) == -EINVAL);
	unlinkat(directory, "scaling_setspeed", 0);
	CHECK(cpufreq_open_file(directory, CPUFREQ_SETSPEED, O_RDWR) == -ENOENT);
	close(directory);
}

static void test_caps(int cpus)
{
	int directory = cpufreq_open_policy(cpus, 0);
	const char *sys = strdup(at("sys"));

	/* below the hardware's maximum without a reason: somebody's setting */
	CHECK(!cpufreq_is_capped(sys, directory));
	put(at("sys/devices/virtual/thermal/cooling_device0/type"), "Processor\n");
	put(at("sys/devices/virtual/thermal/cooling_device0/cur_state"), "0\n");
	CHECK(!cpufreq_is_capped(sys, directory));
	put(at("sys/devices/virtual/thermal/cooling_device0/cur_state"), "2\n");
	CHECK(cpufreq_is_capped(sys, directory));
	put(at("sys/devices/virtual/thermal/cooling_device0/type"), "Fan\n");
	CHECK(!cpufreq_is_capped(sys, directory));
	put(at("sys/devices/system/cpu/cpufreq/policy0/bios_limit"), "2400000\n");
	CHECK(!cpufreq_is_capped(sys, directory));
	put(at("sys/devices/system/cpu/cpufreq/policy0/bios_limit"), "2000000\n");
	CHECK(cpufreq_is_capped(sys, directory));
	put(at("sys/devices/system/cpu/cpufreq/policy0/bios_limit"), "1800000\n");
	CHECK(cpufreq_is_capped(sys, directory));
	put(at("sys/devices/system/cpu/cpufreq/policy0/bios_limit"), "2200000\n");
	CHECK(!cpufreq_is_capped(sys, directory)); /* 2000000 is below it: a setting */
	close(directory);
	free((void *)sys);
}

static struct journal_entry entry_make(enum cpufreq_file file)
{
	struct journal_entry entry = {.policy = 3, .change = {.file = file}, .found = {.owner = {0, 0, 0644}}};

	snprintf(entry.found.value, CPUFREQ_TEXT_MAX, "%s", file == CPUFREQ_GOVERNOR ? "schedutil" : "2000000");
	if (file == CPUFREQ_GOVERNOR) {
		strcpy(entry.change.governor, "userspace");
	} else {
		entry.change.low_khz = 1000000;
		entry.change.high_khz = 1200000;
		entry.change.gives = true;
		entry.change.owner = (struct cpufreq_owner){1000, 1001, 0600};
	}
	return entry;
}

static size_t text_make(char *text)
{
	struct holder holder = {"01234567-89ab-cdef-0123-456789abcdef", 7, 0, 12, 34};
	size_t length = 0;

	length += (size_t)journal_line_head(&holder, text);
	for (int file = 0; file < CPUFREQ_FILE_COUNT; file++) {
		struct journal_entry entry = entry_make((enum cpufreq_file)file);

		length += (size_t)journal_line_entry(&entry, text + length);
	}
	return length;
}

static void test_lines(void)
{
	char text[JOURNAL_LINE_MAX * 6];
	size_t length = text_make(text);
	struct journal_text parsed;
	struct error error = {""};

	CHECK(journal_crc("123456789", 9) == 0xcbf43926u);
	CHECK(journal_text_parse(text, length, &parsed, &error) == 0 && !parsed.torn);
	CHECK(parsed.count == CPUFREQ_FILE_COUNT && parsed.holder.process == 12 && parsed.holder.start == 34);
	for (size_t i = 0; i < parsed.count; i++) {
		struct journal_entry want = entry_make((enum cpufreq_file)i);

		want.offset = parsed.entries[i].offset;
		CHECK(memcmp(&want, &parsed.entries[i], sizeof(want)) == 0);
		CHECK(want.offset > 0 && text[want.offset - 1] == '\n');
	}
	journal_text_free(&parsed);
}

/* Cut anywhere, or with one bit changed anywhere: never more than what was written, never a different entry. */
static void test_damage(void)
{
	char text[JOURNAL_LINE_MAX * 6], damaged[JOURNAL_LINE_MAX * 6];
	size_t length = text_make(text);
	const char *head_end = memchr(text, '\n', length);

	for (size_t cut = 0; cut < length; cut++) {
		struct journal_text parsed = {.entries = NULL};
		struct error error = {""};
		int result = journal_text_parse(text, cut, &parsed, &error);
		bool in_head = cut <= (size_t)(head_end - text);

		CHECK(in_head ? result == -EBADMSG && strstr(error.text, "truncated") : result == 0);
		CHECK(in_head || parsed.torn == (text[cut - 1] != '\n'));
		journal_text_free(&parsed);
	}
	for (size_t bit = 0; bit < length * 8; bit++) {
		struct journal_text parsed = {.entries = NULL};
		struct error error = {""};

		memcpy(damaged, text, length);
		damaged[bit / 8] = (char)(damaged[bit / 8] ^ (1 << bit % 8));
		/* the last newline lost is a torn line, which is no error */
		if (bit / 8 == length - 1)
			continue;
		CHECK(journal_text_parse(damaged, length, &parsed, &error) == -EBADMSG);
		CHECK_CONTAINS(error.text, "line ");
	}
}

static void test_claims(void)
{
	struct claim claim = {.held = true,
	                      .holder = {"01234567-89ab-cdef-0123-456789abcdef", UINT32_MAX - 1, UINT32_MAX, UINT32_MAX,
	                                 UINT64_MAX}},
	             got;
	int directory = files_directory_path(at("claims"), 0700), file, other;
	struct error error = {""};
	char line[CLAIM_SIZE];

	claim.from = UINT64_MAX;
	claim.entries = UINT32_MAX;
	CHECK(claim_open(directory, 0, false, &error) == -ENOENT);
	file = claim_open(directory, 0, true, NULL);
	CHECK(file >= 0 && claim_read(file, &got, NULL) == 0 && !got.held);
	CHECK(claim_write(file, &claim, line) == 0 && claim_is(file, line));
	CHECK(claim_read(file, &got, NULL) == 0 && got.held && holder_same(&got.holder, &claim.holder));
	CHECK(got.from == claim.from && got.entries == claim.entries);
	error.text[0] = '\0';
	CHECK(claim_open(directory, 0, true, &error) == -EBUSY);
	CHECK_CONTAINS(error.text, "locked by another for too long");
	claim_unlock(file);
	other = claim_open(directory, 0, true, NULL);
	claim.held = false;
	CHECK(other >= 0 && claim_write(other, &claim, NULL) == 0 && !claim_is(file, line));
	close(other);
	close(file);
	close(directory);
}

static void test_holders(void)
{
	struct holder holder, other,
	        *zombie = mmap(NULL, sizeof(*zombie), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();
	int result, directory = files_directory_path(at("jobs"), 0700);
	siginfo_t ended;

	if (child == 0)
		_exit(holder_init(1, 0, zombie) != 0);
	CHECK(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) == 0);
	CHECK(zombie->process == (uint32_t)child && !holder_is_alive(zombie, -1));
	CHECK(holder_init(1, 0, &holder) == 0 && holder_is_alive(&holder, -1));
	other = holder;
	other.start++;
	CHECK(!holder_is_alive(&other, -1)); /* the number was used again */
	other = holder;
	other.boot[0] = other.boot[0] == 'x' ? 'y' : 'x';
	CHECK(!holder_is_alive(&other, -1));
	CHECK(waitpid(child, &result, 0) == child && result == 0);
	CHECK(!holder_is_alive(zombie, -1));
	munmap(zombie, sizeof(*zombie));
	CHECK(holder_init(1, STATE_NONE, &holder) == 0 && holder.process == 0);
	CHECK(!holder_is_alive(&holder, directory));
	put(at("jobs/job.json"), "{}");
	CHECK(holder_is_alive(&holder, directory));
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
	int cpus;

	make_directories();
	make_sys();
	cpus = cpufreq_open_cpus(at("sys"));
	CHECK(cpus >= 0);
	test_paths(cpus);
	test_caps(cpus);
	test_lines();
	test_damage();
	test_claims();
	test_holders();
	close(cpus);
	CHECK(nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
	return CHECK_RESULT;
}
