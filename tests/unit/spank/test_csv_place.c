/* csv=DIR at submission: what is refused, what is doubted, and what is let pass. In a directory of its own. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/policy/csv_place.h"
#include "tests/lib/check.h"

static const struct csv_submission direct = {.is_direct = true, .starts_here = true};

static enum csv_place look(const char *place, const struct csv_submission *submission, char ret_text[512])
{
	struct error error = {""};
	enum csv_place found = csv_place_look(place, submission, &error);

	snprintf(ret_text, 512, "%s", error.text);
	return found;
}

static void takes_what_is_there_or_can_be_made(void)
{
	static const char *const good[] = {".", "there", "there/", "new", "there/new", "there//new/", "/tmp"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char text[512];

		CHECK(look(good[i], &direct, text) == CSV_PLACE_GOOD);
		CHECK(text[0] == '\0');
	}
}

static void refuses_below_the_working_directory(void)
{
	char text[512];

	CHECK(look("missing/out", &direct, text) == CSV_PLACE_BAD);
	CHECK_CONTAINS(text, "csv=missing/out: \"missing\": No such file or directory");
	CHECK(look("missing/deeper/out", &direct, text) == CSV_PLACE_BAD);
	CHECK_CONTAINS(text, "\"missing/deeper\": No such file or directory");
	CHECK(look("file", &direct, text) == CSV_PLACE_BAD);
	CHECK_CONTAINS(text, "\"file\": Not a directory");
	CHECK(look("file/out", &direct, text) == CSV_PLACE_BAD);
}

/* A script may make the directory; --chdir starts the job elsewhere; another host has other local directories. */
static void doubts_what_may_be_otherwise_there(void)
{
	static const struct csv_submission script = {.starts_here = true}, elsewhere = {.is_direct = true};
	char text[512];

	CHECK(look("missing/out", &script, text) == CSV_PLACE_DOUBTFUL);
	CHECK(look("missing/out", &elsewhere, text) == CSV_PLACE_GOOD);
	CHECK(look("/no-such-directory/out", &elsewhere, text) == CSV_PLACE_DOUBTFUL);
	CHECK(look("../no-such-directory/out", &direct, text) == CSV_PLACE_DOUBTFUL);
	CHECK(look("/no-such-directory/out", &direct, text) == CSV_PLACE_DOUBTFUL);
	CHECK_CONTAINS(text, "\"/no-such-directory\": No such file or directory");
}

int main(void)
{
	char place[] = "/tmp/mpi-wait-csv-place-XXXXXX";
	FILE *file;

	CHECK(mkdtemp(place) && chdir(place) == 0 && mkdir("there", 0700) == 0);
	file = fopen("file", "w");
	CHECK(file && fclose(file) == 0);
	takes_what_is_there_or_can_be_made();
	refuses_below_the_working_directory();
	doubts_what_may_be_otherwise_there();
	CHECK(unlink("file") == 0 && rmdir("there") == 0 && chdir("/") == 0 && rmdir(place) == 0);
	return CHECK_RESULT;
}
