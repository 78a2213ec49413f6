/* Runs a fuzz target once over each file of the directories, without libFuzzer: what was found once stays found. */
#include "tests/unit/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "spank/base/cleanup.h"

#define FILE_SIZE_MAX (8 * 1024 * 1024)

static void file_play(const char *path)
{
	FILE *file = fopen(path, "rb");
	cleanup_free uint8_t *data = malloc(FILE_SIZE_MAX);
	cleanup_free uint8_t *exact = NULL;
	size_t size;

	FUZZ_CHECK(file && data);
	size = fread(data, 1, FILE_SIZE_MAX, file);
	fclose(file);
	exact = malloc(size ? size : 1);
	FUZZ_CHECK(exact != NULL);
	memcpy(exact, data, size);
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(exact, size);
}

static size_t directory_play(const char *path)
{
	cleanup_closedir DIR *directory = opendir(path);
	const struct dirent *entry;
	char name[PATH_MAX];
	size_t count = 0;

	while (directory && (entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		file_play(name);
		count++;
	}
	return count;
}

int main(int count, char *words[])
{
	size_t played = 0;

	for (int i = 1; i < count; i++)
		played += directory_play(words[i]);
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	printf("%zu files\n", played);
	return played > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
