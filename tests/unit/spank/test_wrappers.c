/* The program that a command line runs, through wrappers: found where it is certain, and not guessed elsewhere. */
#include "spank/policy/wrappers.h"

#include "tests/lib/check.h"

#define WORDS_MAX 64
#define MANY      2000

/* Words of a command line with '|' between them, and the program's word; NULL: not certain. */
static const struct {
	const char *line, *program;
} cases[] = {
        {"./wrf.exe|-x", "./wrf.exe"},
        {"", NULL},
        {"env|./a", "./a"},
        {"/usr/bin/env|-i|-u|X|A=1|B_2=c=d|./a|C=3", "./a"},
        {"env|-uX|--unset=Y|--|a", "a"},
        {"env|-C|/tmp|a", "a"},
        {"env|A=1", NULL},
        {"env|-S|a b", NULL},
        {"env|--unknown|a", NULL},
        {"env|-u", NULL},
        {"sh|-c|./a 1 2", "./a"},
        {"bash|-lc|A=1 exec /opt/a --x=1", "/opt/a"},
        {"bash|-l|-c|a", "a"},
        {"bash|-c|a;b", NULL},
        {"bash|-c|a && b", NULL},
        {"bash|-c|a >out", NULL},
        {"bash|-c|a $X", NULL},
        {"bash|-c|\"a\"", NULL},
        {"bash|-c|cd /tmp\na", NULL},
        {"bash|-c|a *", NULL},
        {"bash|-c|", NULL},
        {"bash|-c|exec -a b a", NULL},
        {"bash|-c|env A=1 nice a", "a"},
        {"bash|-c|sh -c a", NULL},
        {"bash|-c", NULL},
        {"bash|script.sh", NULL},
        {"bash|-x|-c|a", NULL},
        {"numactl|-C|0-3|--membind=0|-l|./a", "./a"},
        {"numactl|-C0-3|./a", "./a"},
        {"numactl|--show", NULL},
        {"numactl|--interleave|all|./a", "./a"},
        {"taskset|-c|0-3|./a", "./a"},
        {"taskset|0xff|./a", "./a"},
        {"taskset|-p|0xff|12", NULL},
        {"nice|-n|5|./a", "./a"},
        {"nice|--adjustment=5|./a", "./a"},
        {"time|-p|./a", "./a"},
        {"time|-f|%e|-o|out|./a", "./a"},
        {"timeout|-k|5|--signal=KILL|60|./a", "./a"},
        {"timeout|60", NULL},
        {"stdbuf|-oL|-e|0|./a", "./a"},
        {"valgrind|--tool=memcheck|-q|./a", "./a"},
        {"valgrind|--fair-sched=yes|./a", NULL},
        {"perf|stat|-e|cycles|-r|3|--|./a", "./a"},
        {"perf|record|-g|--call-graph=dwarf|./a", "./a"},
        {"perf|stat|-p|12", NULL},
        {"perf|report|./a", NULL},
        {"gdb|-ex|run|--batch|--args|./a|--args", "./a"},
        {"gdb|./a", NULL},
        {"gdb|-q|./a", NULL},
        {"strace|-f|-o|out|./a", "./a"},
        {"singularity|-q|exec|--nv|-B|/a:/b|--bind=/c|image.sif|/opt/a|x", "/opt/a"},
        {"apptainer|exec|--network|none|image.sif|a", "a"},
        {"apptainer|run|image.sif", NULL},
        {"apptainer|exec|--unheard-of|image.sif|a", NULL},
        {"apptainer|exec|image.sif", NULL},
        {"my_wrapper|./a", "./a"},
        {"my_wrapper|-x|./a", NULL},
        {"your_wrapper|./a", "your_wrapper"},
        {"env|numactl|-l|nice|-n|1|bash|-c|exec ./a", "./a"},
        {"nice|nice|nice|nice|nice|nice|nice|nice|./a", NULL},
        {"mpirun|-n|4|./a", "mpirun"},
        {"./|a", "./"},
};

/* Command lines by which a user gives ranks CPUs, and others. */
static const struct {
	const char *line;
	bool binds;
} bindings[] = {
        {"numactl|-C|0-3|./a", true},
        {"/usr/bin/numactl|--physcpubind=0|./a", true},
        {"env|A=1|numactl|-m|0|-C1|./a", true},
        {"sh|-c|numactl -C $SLURM_LOCALID ./a", true},
        {"numactl|--membind=0|./a", false},
        {"numactl|--interleave=all|./my-Code", false},
        {"./a|-C|0", false},
        {"./a|-C|numactl", false},
        {"", false},
};

static void test_bindings(void)
{
	for (size_t i = 0; i < sizeof(bindings) / sizeof(bindings[0]); i++) {
		char copy[256], *words[WORDS_MAX], *rest = copy;
		int count = 0;

		strcpy(copy, bindings[i].line);
		while (copy[0] && (words[count] = strsep(&rest, "|")))
			count++;
		EXPECT(wrappers_bind(count, words) == bindings[i].binds, "%s", bindings[i].line);
	}
}

int main(void)
{
	static char *many[MANY], text[WRAPPERS_TEXT_MAX];
	static struct programs programs = {.wrapper_count = 1, .wrapper = {"my_wrapper"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char copy[256], buffer[WRAPPERS_TEXT_MAX], *words[WORDS_MAX], *rest = copy;
		const char *program;
		int count = 0;

		strcpy(copy, cases[i].line);
		while (copy[0] && (words[count] = strsep(&rest, "|")))
			count++;
		program = wrappers_program(count, words, &programs, buffer);
		EXPECT(program ? cases[i].program && strcmp(program, cases[i].program) == 0 : !cases[i].program,
		       "%s gives %s", cases[i].line, program ? program : "nothing");
	}
	for (int i = 0; i < MANY; i++)
		many[i] = i ? "A=1" : "env";
	many[1020] = "a";
	CHECK(wrappers_program(MANY, many, &programs, text) == many[1020]);
	many[1020] = "A=1";
	many[MANY - 1] = "a";
	CHECK(!wrappers_program(MANY, many, &programs, text));
	CHECK(strcmp(wrappers_base_name("/opt/a/wrf.exe"), "wrf.exe") == 0);
	CHECK(strcmp(wrappers_base_name("wrf.exe"), "wrf.exe") == 0);
	test_bindings();
	return CHECK_RESULT;
}
