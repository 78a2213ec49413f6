#include "spank/cpufreq/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/cpufreq/claim.h"

int journal_file_open(int job_directory, const char *name, struct error *error)
{
	cleanup_close int file = openat(job_directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const char *why;

	if (file < 0 && errno == ELOOP)
		return error_set(error, -EPERM, "a link");
	if (file < 0)
		return error_set(error, -errno, "%s", strerror(errno));
	why = files_refusal(file);
	return why ? error_set(error, -EPERM, "%s", why) : take_descriptor(&file);
}

int journal_file_lock(int file)
{
	struct stat status;
	int result = claim_lock(file);

	if (result)
		return result;
	if (fstat(file, &status))
		return -errno;
	return status.st_nlink > 0 ? 0 : -ESTALE;
}

static int read_whole(int file, size_t size, char *text)
{
	for (size_t have = 0; have < size;) {
		ssize_t got = pread(file, text + have, size - have, (off_t)have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		have += (size_t)got;
	}
	return 0;
}

int journal_file_read(int file, const char *name, uint32_t job_id, struct journal_text *ret_text, struct error *error)
{
	struct journal_text parsed = {.entries = NULL};
	char expected[HOLDER_NAME_MAX];
	cleanup_free char *text = NULL;
	struct stat status;
	int result;

	if (fstat(file, &status))
		return error_set(error, -errno, "%s", strerror(errno));
	if (status.st_size > JOURNAL_FILE_MAX)
		return error_set(error, -EFBIG, "larger than %d bytes", JOURNAL_FILE_MAX);
	text = malloc((size_t)status.st_size + 1);
	result = text ? read_whole(file, (size_t)status.st_size, text) : -ENOMEM;
	if (result)
		return error_set(error, result, "%s", strerror(-result));
	result = journal_text_parse(text, (size_t)status.st_size, &parsed, error);
	if (result)
		return result;
	holder_journal(&parsed.holder, expected);
	if (parsed.holder.job_id != job_id || strcmp(expected, name) != 0) {
		journal_text_free(&parsed);
		return error_set(error, -EBADMSG, "it says that it is another's: \"%s\" of job %u", expected,
		                 parsed.holder.job_id);
	}
	*ret_text = parsed;
	return 0;
}
