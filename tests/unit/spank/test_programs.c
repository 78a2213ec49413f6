/* The site's file of policies by program: what is accepted, what is refused and in which words, which name wins. */
#include "spank/policy/programs.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/check.h"

#define FILE_OF(rows) "{\"v\": 1, \"programs\": [" rows "]}"
#define ROW(names)    FILE_OF("{\"names\": [" names "], \"policy\": \"nap\"}")

static struct programs programs;

static int parse(const char *text, struct error *error)
{
	error->text[0] = '\0';
	return programs_parse(text, strlen(text), &programs, error);
}

static const char *policy_of(const char *program)
{
	int index = programs_find(&programs, program);

	return index < 0 ? "none" : programs.policy[programs.name[index].policy];
}

static void the_first_name_wins(void)
{
	struct error error;

	CHECK(parse("{\"v\": 1, \"note\": {\"any\": 1}, \"wrappers\": [\"my_wrapper\"], \"programs\": ["
	            "{\"names\": [\"wrf.exe\", \"vasp_*\"], \"policy\": \"nap,slowdown=2\", \"note\": \"measured\"},"
	            "{\"names\": [\"lmp?\"], \"policy\": \"off\"},"
	            "{\"names\": [\"vasp_gam\", \"*\"], \"policy\": \"nap,slowdown=2\"}]}",
	            &error) == 0);
	CHECK(!error.text[0] && programs.policy_count == 2 && programs.name_count == 5);
	CHECK(programs.wrapper_count == 1 && strcmp(programs.wrapper[0], "my_wrapper") == 0);
	CHECK(programs_find(&programs, "wrf.exe") == 0 && programs_find(&programs, "vasp_gam") == 1);
	CHECK(strcmp(policy_of("lmp2"), "off") == 0 && programs_find(&programs, "lmp") == 4);
	CHECK(strcmp(policy_of("wrf.exe"), "nap,slowdown=2") == 0);
}

static void patterns_match_whole_names(void)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} cases[] = {
	        {"a", "a", true},     {"a", "ab", false},       {"ab", "a", false},          {"*", "", true},
	        {"*", "x", true},     {"?", "", false},         {"a*", "a", true},           {"*a", "bab", false},
	        {"*a", "aba", true},  {"a*b*c", "aXbYc", true}, {"a*b*c", "abcb", false},    {"**a", "a", true},
	        {"a?c", "abc", true}, {"a?c", "ac", false},     {"*.exe", "x.exe.1", false}, {"A", "a", false},
	        {"*ab", "aab", true}, {"a**", "a", true},       {"[ab]", "a", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		programs.name_count = 1;
		strcpy(programs.name[0].pattern, cases[i].pattern);
		EXPECT((programs_find(&programs, cases[i].name) == 0) == cases[i].matches, "'%s' and '%s'",
		       cases[i].pattern, cases[i].name);
	}
}

static void names_that_no_file_has_match_nothing(void)
{
	static char name[257];

	programs.name_count = 1;
	strcpy(programs.name[0].pattern, "*");
	memset(name, 'a', 256);
	CHECK(programs_find(&programs, name) == -1);
	name[255] = '\0';
	CHECK(programs_find(&programs, name) == 0);
}

static void refuses(void)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
	        {"", "line 1"},
	        {"{", "line 1"},
	        {"[]", "the file is not a JSON object"},
	        {"{}", "'v' is missing"},
	        {"{\"v\": 1}", "'programs' is missing"},
	        {"{\"v\": 2, \"programs\": []}", "'v' is not 1, the version that this release reads"},
	        {"{\"v\": 1, \"v\": 1}", "duplicate"},
	        {"{\"v\": 1, \"programs\": {}}", "'programs' is not a list of 1 to 256 elements"},
	        {"{\"v\": 1, \"programs\": []}", "'programs' is not a list of 1 to 256 elements"},
	        {"{\"v\": 1, \"program\": []}",
	         "unknown key 'program' (accepted: v, programs, wrappers, note); did you mean 'programs'?"},
	        {FILE_OF("1"), "a row of 'programs' is not a JSON object"},
	        {FILE_OF("{}"), "a row of 'programs' lacks 'names'"},
	        {FILE_OF("{\"policy\": \"nap\"}"), "a row of 'programs' lacks 'names'"},
	        {FILE_OF("{\"names\": [\"a\"]}"), "a row of 'programs' lacks 'policy'"},
	        {FILE_OF("{\"name\": [\"a\"]}"),
	         "unknown key 'name' (accepted: names, policy, note); did you mean 'names'?"},
	        {FILE_OF("{\"names\": \"a\", \"policy\": \"nap\"}"), "'names' is not a list of 1 to 16 elements"},
	        {ROW(""), "'names' is not a list of 1 to 16 elements"},
	        {ROW("\"\""), "name '' is not a pattern with * and ?"},
	        {ROW("1"), "name 'that is no string' is not a pattern"},
	        {ROW("\"/bin/a\""), "name '/bin/a' is not a pattern with * and ? (a base name"},
	        {ROW("\"a,b\""), "name 'a,b' is not a pattern"},
	        {ROW("\"a:1\""), "name 'a:1' is not a pattern"},
	        {ROW("\"a|b\""), "name 'a|b' is not a pattern"},
	        {ROW("\"[ab]\""), "name '[ab]' is not a pattern"},
	        {ROW("\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""), "under 64 bytes"},
	        {FILE_OF("{\"names\": [\"a\"], \"policy\": 1}"), "'policy' is not a policy as for --mpi-wait-policy"},
	        {FILE_OF("{\"names\": [\"a\"], \"policy\": \"nap,slodown=2\"}"),
	         "policy 'nap,slodown=2': 'slodown' is not a key"},
	        {FILE_OF("{\"names\": [\"a\"], \"policy\": \"nap,csv=/tmp\"}"),
	         "policy 'nap,csv=/tmp': csv= is for users, who have the directory"},
	        {"{\"v\": 1, \"wrappers\": [\"a*\"], \"programs\": []}", "wrapper 'a*' is not a name"},
	        {"{\"v\": 1, \"wrappers\": \"a\", \"programs\": []}", "'wrappers' is not a list of 1 to 16 elements"},
	};
	struct error error;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EXPECT(parse(cases[i].text, &error) < 0, "%s", cases[i].text);
		CHECK_CONTAINS(error.text, cases[i].message);
	}
}

/* Writes a file of `rows` rows with `names` names each. slowdowns: every row has a policy of its own. */
static char *many(int rows, int names, bool slowdowns)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	fputs("{\"v\": 1, \"programs\": [", file);
	for (int row = 0; row < rows; row++) {
		fprintf(file, "%s{\"policy\": \"nap,slowdown=%d\", \"names\": [", row ? "," : "",
		        slowdowns ? row + 1 : 1);
		for (int i = 0; i < names; i++)
			fprintf(file, "%s\"p%d_%d\"", i ? "," : "", row, i);
		fputs("]}", file);
	}
	fputs("]}", file);
	fclose(file);
	return text;
}

static void bounds_hold(void)
{
	static const struct {
		int rows, names;
		bool slowdowns;
		const char *message; /* "": accepted */
	} cases[] = {
	        {256, 2, false, ""},
	        {257, 1, false, "'programs' is not a list of 1 to 256 elements"},
	        {32, 16, false, ""},
	        {1, 17, false, "'names' is not a list of 1 to 16 elements"},
	        {33, 16, false, "more than 512 names in all"},
	        {16, 1, true, ""},
	        {17, 1, true, "more than 16 different policies"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = many(cases[i].rows, cases[i].names, cases[i].slowdowns);
		struct error error;
		int result = parse(text, &error);

		EXPECT((result == 0) == !cases[i].message[0], "%s", error.text);
		CHECK_CONTAINS(error.text, cases[i].message);
		free(text);
	}
}

static void files_are_named(void)
{
	char path[] = "/tmp/programs-XXXXXX";
	int file = mkstemp(path);
	const char *text = FILE_OF("{\"names\": [\"a\"], \"policy\": \"nap\"}");
	struct error error = {""};

	CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(programs_load(path, &programs, &error) == 0 && strcmp(policy_of("a"), "nap") == 0 && !error.text[0]);
	CHECK(ftruncate(file, 3) == 0 && programs_load(path, &programs, &error) < 0);
	CHECK_CONTAINS(error.text, "programs '/tmp/programs-");
	CHECK_CONTAINS(error.text, "left out: line 1");
	CHECK(close(file) == 0 && unlink(path) == 0);
	error.text[0] = '\0';
	CHECK(programs_read(path, &programs, &error) < 0);
	CHECK_CONTAINS(error.text, "not a readable regular file of at most 262144 bytes (No such file or directory)");
	error.text[0] = '\0';
	CHECK(programs_load("/dev/zero", &programs, &error) < 0);
	CHECK_CONTAINS(error.text, "programs '/dev/zero' left out: not a readable regular file");
}

int main(void)
{
	the_first_name_wins();
	patterns_match_whole_names();
	names_that_no_file_has_match_nothing();
	refuses();
	bounds_hold();
	files_are_named();
	return CHECK_RESULT;
}
