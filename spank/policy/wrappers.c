#include "spank/policy/wrappers.h"

#include <string.h>

#include "spank/base/json.h"
#include "spank/base/text.h"

#define DEPTH_MAX  8    /* wrappers of wrappers */
#define WORDS_MAX  64   /* words of a shell's text */
#define LOOKED_MAX 1024 /* words of a command line that are looked at */

/* A wrapper: WRAPPER [SUBCOMMAND] [OPTION...] [ARGUMENT...] PROGRAM... Options stand in lists with blanks. */
struct wrapper {
	const char *name;
	const char *subcommand; /* word that must stand behind the options before it; NULL: none */
	const char *flags;      /* options without a value, or whose value always stands behind "=" */
	const char *valued;     /* options whose value is the rest of the word, or the next word */
	const char *ender;      /* option without which the wrapper runs no program; NULL: none */
	int arguments;          /* words between the options and the program */
	bool assigns;           /* words like A=B may stand before the program */
};

#define CONTAINER_FLAGS                                                                                      \
	"-q -s -d -v --quiet --silent --debug --verbose --nv --rocm --nvccli -e --cleanenv -c --contain -C " \
	"--containall --no-home --writable-tmpfs -w --writable -u --userns -i --ipc -p --pid -f --fakeroot " \
	"--no-eval --compat --no-privs --no-init"
#define CONTAINER_VALUED                                                                                   \
	"-B --bind --env -H --home --pwd --cwd -o --overlay -W --workdir -S --scratch --env-file --mount " \
	"--no-mount --app --network --security --hostname"

static const struct wrapper wrappers[] = {
        {.name = "env", .flags = "-i - --ignore-environment", .valued = "-u --unset -C --chdir", .assigns = true},
        {.name = "nice", .flags = "", .valued = "-n --adjustment"},
        {.name = "nohup", .flags = "", .valued = ""},
        {.name = "setsid", .flags = "-w --wait", .valued = ""},
        {.name = "time",
         .flags = "-p -v -a -q --portability --verbose --append --quiet",
         .valued = "-f -o --format --output"},
        {.name = "timeout",
         .flags = "--preserve-status --foreground -v --verbose",
         .valued = "-k --kill-after -s --signal",
         .arguments = 1},
        {.name = "stdbuf", .flags = "", .valued = "-i -o -e --input --output --error"},
        {.name = "taskset", .flags = "-c --cpu-list", .valued = "", .arguments = 1},
        {.name = "chrt", .flags = "-b -f -i -o -r --batch --fifo --idle --other --rr", .valued = "", .arguments = 1},
        {.name = "ionice", .flags = "-t --ignore", .valued = "-c -n --class --classdata"},
        {.name = "numactl",
         .flags = "-l --localalloc -b --balancing",
         .valued = "-i -p -P -C -N -m --interleave --preferred --preferred-many --physcpubind --cpunodebind "
                   "--membind"},
        {.name = "strace", .flags = "-f -ff -c -C -q -t -tt -ttt -T -y", .valued = "-e -o -s -P -I -O -S -b"},
        {.name = "valgrind",
         .flags = "-q -v -s --quiet --verbose --tool --log-file --leak-check --track-origins --suppressions "
                  "--trace-children --num-callers --show-leak-kinds --error-exitcode --gen-suppressions --xml "
                  "--xml-file --callgrind-out-file --massif-out-file --cachegrind-out-file",
         .valued = ""},
        {.name = "perf",
         .subcommand = "stat",
         .flags = "-a -d -dd -ddd -v -B -A --all-cpus --detailed --verbose --no-big-num --per-core",
         .valued = "-e -o -r -x -I --event --output --repeat --field-separator"},
        {.name = "perf",
         .subcommand = "record",
         .flags = "-a -g -v -q --all-cpus --verbose --quiet",
         .valued = "-e -o -F -c --event --output --freq --count --call-graph"},
        {.name = "gdb",
         .flags = "-q -quiet --quiet -batch --batch -nx --nx -nh -n",
         .valued = "-ex -x -ix -iex --command --eval-command",
         .ender = "--args"},
        {.name = "singularity",
         .subcommand = "exec",
         .flags = CONTAINER_FLAGS,
         .valued = CONTAINER_VALUED,
         .arguments = 1},
        {.name = "apptainer",
         .subcommand = "exec",
         .flags = CONTAINER_FLAGS,
         .valued = CONTAINER_VALUED,
         .arguments = 1},
};

static const char *const shells[] = {"sh", "bash", "dash", "ksh", "zsh"};

/* The words that are left of a command line. */
struct line {
	int count;
	char *const *words;
};

static void line_shift(struct line *line)
{
	line->count--;
	line->words++;
}

const char *wrappers_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns true for A=B where A is a variable's name. */
static bool is_assignment(const char *word)
{
	size_t length = strspn(word, JSON_LETTERS JSON_DIGITS "_");

	return length > 0 && word[length] == '=' && !strchr(JSON_DIGITS, word[0]);
}

/* Returns true if an option of the list begins the word, which has its value attached: -n5, but not --n5. */
static bool has_value_attached(const char *list, const char *word)
{
	const char option[] = {'-', word[1], '\0'};

	return word[1] != '-' && word[1] && word[2] && text_find(list, ' ', option) >= 0;
}

/*
 * Takes one option off the line, with its value. Returns false if the wrapper has no such option, or if the value is
 * missing.
 */
static bool option_take(const struct wrapper *wrapper, struct line *line)
{
	const char *word = line->words[0], *equals = word[1] == '-' ? strchr(word, '=') : NULL;
	char name[32];

	line_shift(line);
	if (equals) {
		if ((size_t)(equals - word) >= sizeof(name))
			return false;
		memcpy(name, word, (size_t)(equals - word));
		name[equals - word] = '\0';
		return text_find(wrapper->valued, ' ', name) >= 0 || text_find(wrapper->flags, ' ', name) >= 0;
	}
	if (text_find(wrapper->valued, ' ', word) >= 0) {
		line_shift(line);
		return line->count >= 0;
	}
	return text_find(wrapper->flags, ' ', word) >= 0 || has_value_attached(wrapper->valued, word);
}

/* Takes the options off the line. Returns false if that is not certain. */
static bool options_take(const struct wrapper *wrapper, struct line *line)
{
	bool ended = !wrapper->ender;

	while (line->count > 0 && line->words[0][0] == '-') {
		const char *word = line->words[0];

		if (strcmp(word, wrapper->ender ? wrapper->ender : "--") == 0) {
			line_shift(line);
			return true;
		}
		if (!option_take(wrapper, line))
			return false;
	}
	return ended;
}

/* Takes the wrapper off the line, which then begins with the program. Returns false if that is not certain. */
static bool wrapper_take(const struct wrapper *wrapper, struct line *line)
{
	line_shift(line);
	if (wrapper->subcommand) {
		while (line->count > 0 && line->words[0][0] == '-')
			if (!option_take(wrapper, line))
				return false;
		if (line->count <= 0 || strcmp(line->words[0], wrapper->subcommand) != 0)
			return false;
		line_shift(line);
	}
	if (!options_take(wrapper, line))
		return false;
	for (int i = 0; i < wrapper->arguments; i++)
		line_shift(line);
	while (wrapper->assigns && line->count > 0 && is_assignment(line->words[0]))
		line_shift(line);
	return line->count > 0;
}

/* Splits a plain command into words, in place. Returns their number, 0 if it is not plain or has too many. */
static int text_split(char *text, char *words[WORDS_MAX])
{
	int count = 0;

	if (!characters_ok(text, JSON_LETTERS JSON_DIGITS " _./=+,:@%-"))
		return 0;
	for (char *rest = text, *word; (word = strsep(&rest, " "));) {
		if (!word[0])
			continue;
		if (count == WORDS_MAX)
			return 0;
		words[count++] = word;
	}
	return count;
}

/*
 * Takes a shell off the line if it runs one plain command: SHELL -c "[A=B...] [exec] PROGRAM...", without any character
 * that means something to a shell. Returns false if that is not certain. `text` and `words` hold the command's words.
 */
static bool shell_take(struct line *line, char text[WRAPPERS_TEXT_MAX], char *words[WORDS_MAX])
{
	line_shift(line);
	if (line->count > 0 && strcmp(line->words[0], "-l") == 0)
		line_shift(line);
	if (line->count < 2 || (strcmp(line->words[0], "-c") != 0 && strcmp(line->words[0], "-lc") != 0) ||
	    strlen(line->words[1]) >= WRAPPERS_TEXT_MAX)
		return false;
	strcpy(text, line->words[1]);
	*line = (struct line){text_split(text, words), words};
	while (line->count > 0 && is_assignment(line->words[0]))
		line_shift(line);
	if (line->count > 0 && strcmp(line->words[0], "exec") == 0)
		line_shift(line);
	return line->count > 0 && line->words[0][0] != '-';
}

static bool is_shell(const char *name)
{
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (strcmp(shells[i], name) == 0)
			return true;
	return false;
}

/* Returns true if the site itself calls the program a wrapper. */
static bool is_of_site(const char *name, const struct programs *programs)
{
	for (size_t i = 0; i < programs->wrapper_count; i++)
		if (strcmp(programs->wrapper[i], name) == 0)
			return true;
	return false;
}

/* Takes a wrapper of that name off the line. Returns 1, 0 if there is none of that name, -1 if it is not certain. */
static int known_take(const char *name, struct line *line)
{
	int result = 0;

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
		struct line rest = *line;

		if (strcmp(wrappers[i].name, name) != 0)
			continue;
		if (wrapper_take(&wrappers[i], &rest)) {
			*line = rest;
			return 1;
		}
		result = -1;
	}
	return result;
}

const char *wrappers_program(int count, char *const words[], const struct programs *programs,
                             char buffer[WRAPPERS_TEXT_MAX])
{
	static const struct wrapper of_site = {.flags = "", .valued = ""};
	struct line line = {count < LOOKED_MAX ? count : LOOKED_MAX, words};
	char *shell_words[WORDS_MAX];
	bool in_shell = false;

	for (int depth = 0; depth < DEPTH_MAX && line.count > 0 && line.words[0]; depth++) {
		const char *name = wrappers_base_name(line.words[0]);
		int taken;

		if (is_of_site(name, programs)) {
			taken = wrapper_take(&of_site, &line) ? 1 : -1;
		} else if (is_shell(name)) {
			/* a shell's text has no quotes, so that a second text in it is not wanted */
			taken = !in_shell && shell_take(&line, buffer, shell_words) ? 1 : -1;
			in_shell = true;
		} else {
			taken = known_take(name, &line);
		}
		if (taken <= 0)
			return taken == 0 ? line.words[0] : NULL;
	}
	return NULL;
}

/* Returns true if a word, or one of those in a shell's text, begins with the option. */
static bool has_option(const char *text, const char *option)
{
	for (const char *at = strstr(text, option); at; at = strstr(at + 1, option))
		if (at == text || strchr(" \t\n", at[-1]))
			return true;
	return false;
}

bool wrappers_bind(int count, char *const words[])
{
	bool by_numactl = false;

	for (int i = 0; i < count && i < LOOKED_MAX && words[i]; i++) {
		by_numactl |= strstr(words[i], "numactl") != NULL;
		if (by_numactl && (has_option(words[i], "-C") || has_option(words[i], "--physcpubind")))
			return true;
	}
	return false;
}
