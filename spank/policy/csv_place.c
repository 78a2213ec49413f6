#include "spank/policy/csv_place.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

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
static bool path_shorten(char *path)
{
	size_t length = strlen(path);
	const char *slash;

	while (length > 1 && path[length - 1] == '/')
		path[--length] = '\0';
	slash = strrchr(path, '/');
	if (strcmp(path, "/") == 0 || strcmp(path, ".") == 0)
		return false;
	if (!slash)
		strcpy(path, ".");
	else
		path[slash == path ? 1 : slash - path] = '\0';
	return true;
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
static bool is_known(char *path)
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

	if (snprintf(path, sizeof(path), "%s", place) >= (int)sizeof(path))
		return CSV_PLACE_GOOD; /* no option is that long */
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
	FILE *file = fopen("/proc/self/cmdline", "re");
	char *word = NULL;
	size_t size = 0;
	bool may = !file;

	for (size_t read = 0; !may && read < WORDS_MAX;) {
		ssize_t got = getdelim(&word, &size, '\0', file);

		if (got <= 0)
			break;
		read += (size_t)got;
		may = read >= WORDS_MAX || strncmp(word, "--ch", 4) == 0 ||
		      (word[0] == '-' && word[1] != '-' && strchr(word, 'D'));
	}
	free(word);
	if (file)
		fclose(file);
	return may;
}

struct csv_submission csv_submission_now(bool is_srun)
{
	/* Within a job a script has come to this point, and what it did so far is not to be lost for a directory. */
	return (struct csv_submission){
	        .is_direct = is_srun && !getenv("SLURM_JOB_ID"),
	        .starts_here = !getenv("SLURM_WORKING_DIR") && !words_may_change_directory(),
	};
}
