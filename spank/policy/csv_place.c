#include "spank/policy/csv_place.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/proc.h"

#define WORDS_MAX 65536

/* Of file systems that hosts share; statfs(2) and the projects' own headers. */
static const uint32_t shared_types[] = {
        0x6969,     /* NFS */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x00c36400, /* Ceph */
        0xaad7aaea, /* PanFS */
        0x20030528, /* OrangeFS */
        0x01161970, /* GFS2 */
        0x7461636f, /* OCFS2 */
        0x5346414f, /* AFS */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
};

static bool is_shared(const char *directory)
{
	struct statfs status;

	if (statfs(directory, &status) < 0)
		return false;
	for (size_t i = 0; i < sizeof(shared_types) / sizeof(shared_types[0]); i++)
		if ((uint32_t)status.f_type == shared_types[i])
			return true;
	return false;
}

/* Cuts the last component off: "a/b//" is "a", "a" is ".", "/a" is "/". Returns whether there was one. */
static bool path_shorten(char path[PATH_MAX])
{
	char copy[PATH_MAX];
	const char *parent = dirname(strcpy(copy, path));
	bool is_shorter = strcmp(path, parent) != 0;

	strcpy(path, parent);
	return is_shorter;
}

/* What keeps the user from writing in that directory, which is there; 0: nothing. */
static int directory_refuses(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return errno;
	if (!S_ISDIR(status.st_mode))
		return ENOTDIR;
	return access(path, W_OK | X_OK) < 0 ? errno : 0;
}

/* The nearest directory above that is there decides which hosts see it so: below the working directory, or shared. */
static bool is_known(char path[PATH_MAX])
{
	bool is_below = path[0] != '/' && !strstr(path, "..");
	struct stat status;

	while (stat(path, &status) < 0 || !S_ISDIR(status.st_mode))
		if (!path_shorten(path))
			return false;
	return is_below || is_shared(path);
}

enum csv_place csv_place_look(const char *place, const struct csv_submission *submission, struct error *error)
{
	char path[PATH_MAX];
	int refused;

	snprintf(path, sizeof(path), "%s", place); /* no option is longer */
	if (path[0] != '/' && !submission->starts_here)
		return CSV_PLACE_GOOD; /* there is nothing here to look at */
	refused = directory_refuses(path);
	/* The last component is made. */
	if (refused == ENOENT && path_shorten(path))
		refused = directory_refuses(path);
	if (refused == 0)
		return CSV_PLACE_GOOD;
	error_set(error, -refused, "csv=%s: \"%s\": %s", place, path, strerror(refused));
	return submission->is_direct && is_known(path) ? CSV_PLACE_BAD : CSV_PLACE_DOUBTFUL;
}

/* Whether some word may be --chdir or -D, or has it among one-letter options. The program's own words count too. */
static bool words_may_change_directory(void)
{
	cleanup_free char *words = malloc(WORDS_MAX);
	ssize_t length = words ? proc_text_read(AT_FDCWD, "/proc/self/cmdline", words, WORDS_MAX) : -ENOMEM;

	for (const char *word = words; length > 0 && word < words + length; word += strlen(word) + 1)
		if (strncmp(word, "--ch", 4) == 0 || (word[0] == '-' && word[1] != '-' && strchr(word, 'D')))
			return true;
	return length < 0 || length >= WORDS_MAX - 1;
}

struct csv_submission csv_submission_now(bool is_srun)
{
	/* Within a job a script has come to this point, and what it did so far is not to be lost for a directory. */
	return (struct csv_submission){
	        .is_direct = is_srun && !getenv("SLURM_JOB_ID"),
	        .starts_here = !getenv("SLURM_WORKING_DIR") && !words_may_change_directory(),
	};
}
