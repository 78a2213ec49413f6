/* Log lines: whatever is in a message, a line is one line of printable characters. */
#include "spank/base/log.h"

#include "tests/lib/check.h"

static char last[4096];

static void keep(enum log_level level, const char *line)
{
	(void)level;
	snprintf(last, sizeof(last), "%s", line);
}

static void whatever_a_directory_is_called(void)
{
	log_error("no file was written in \"%s\"", "/home/x\n[2026-11-26] error: forged\x1b[31m\x7f\xc3\xa4\t");
	CHECK(strcmp(last, "mpi-wait: no file was written in \"/home/x\\x0a[2026-11-26] error: forged\\x1b[31m\\x7f"
	                   "\\xc3\\xa4\\x09\"") == 0);
	log_error("%s", " ~!\"'\\%s");
	CHECK(strcmp(last, "mpi-wait:  ~!\"'\\%s") == 0);
	log_error("%s", "");
	CHECK(strcmp(last, "mpi-wait: ") == 0);
}

/* A byte is there whole, or not at all. */
static void a_long_message_is_cut(void)
{
	char text[2000];

	for (size_t before = 0; before < 5; before++) {
		size_t plain = strlen("mpi-wait: ") + before;

		memset(text, '\n', sizeof(text));
		memset(text, '-', before);
		text[sizeof(text) - 1] = '\0';
		log_error("%s", text);
		CHECK(strlen(last) < 1024 && strlen(last) > 1024 - 5 && (strlen(last) - plain) % 4 == 0);
		CHECK(strcmp(last + strlen(last) - 4, "\\x0a") == 0);
	}
}

int main(void)
{
	log_set_sink(keep);
	whatever_a_directory_is_called();
	a_long_message_is_cut();
	return CHECK_RESULT;
}
