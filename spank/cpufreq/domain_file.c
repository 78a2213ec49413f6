#include "spank/cpufreq/domain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/json.h"
#include "spank/base/run_directory.h"

#define SUM_SIZE 10  /* bytes of the checksum at the text's end: a space, eight digits, a newline */
#define NO_WORD  "-" /* instead of a name while nothing was changed */

#define LOCKS_MOST 64 /* most living processes that hold a domain or have held it */

/* The file's lines: the version, the holder, what was found, what the holder writes. "userspace" is always 0. */
#define FORMAT                                                                      \
	"mpi-wait-domain 1\nheld by job %" SCNu32 " step %" SCNu32 " lock %" SCNu32 \
	" boot %36s\nfound driver %31s governor %31s owner %u:%u:%o\n"              \
	"written %31s low %" SCNu32 " high %" SCNu32 " userspace 0 given %u to %u%n"
#define FORMAT_FIELDS 14
#define FREE          "mpi-wait-domain 1\nfree\n"

int holder_init(uint32_t job_id, uint32_t step_id, struct holder *ret_holder)
{
	struct holder holder = {.job_id = job_id, .step_id = step_id};
	int result = proc_boot_read(holder.boot);

	if (!result)
		*ret_holder = holder;
	return result;
}

/* Returns the lock of a holder's byte. It lies beyond the text. */
static struct flock lock_of(uint32_t lock)
{
	return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = DOMAIN_FILE_SIZE + lock, .l_len = 1};
}

int holder_lock(int file, struct holder *holder)
{
	for (uint32_t i = 0; i < LOCKS_MOST; i++) {
		struct flock lock = lock_of(i);

		if (fcntl(file, F_SETLK, &lock) == 0) {
			holder->lock = i;
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return -errno;
	}
	return -EBUSY;
}

bool holder_is_of_this_boot(const struct holder *holder)
{
	char boot[PROC_BOOT_MAX];

	return proc_boot_read(boot) != 0 || strcmp(boot, holder->boot) == 0;
}

bool holder_is_alive(int file, const struct holder *holder)
{
	struct flock lock = lock_of(holder->lock);

	if (!holder_is_of_this_boot(holder))
		return false;
	return fcntl(file, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

void holder_describe(const struct holder *holder, char text[HOLDER_TEXT_MAX])
{
	char step[16];

	state_step_name(holder->step_id, step);
	snprintf(text, HOLDER_TEXT_MAX, "job %" PRIu32 " step %s", holder->job_id, step);
}

uint32_t domain_file_sum(const char *bytes, size_t length)
{
	uint32_t crc = UINT32_MAX;

	/* bit by bit, without a table: the text is short */
	for (size_t i = 0; i < length; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
	}
	return ~crc;
}

/* Prints the file's text for a domain that is held, without padding and checksum. Returns as snprintf. */
static int held_print(const struct domain_hold *hold, char *text, size_t size)
{
	const struct holder *holder = &hold->holder;
	const struct domain_change *change = &hold->change;

	return snprintf(text, size,
	                "mpi-wait-domain 1\nheld by job %" PRIu32 " step %" PRIu32 " lock %" PRIu32
	                " boot %s\nfound driver %s governor %s owner %u:%u:%04o\nwritten %s low %" PRIu32
	                " high %" PRIu32 " userspace 0 given %u to %u\n",
	                holder->job_id, holder->step_id, holder->lock, holder->boot,
	                hold->changes ? change->driver : NO_WORD, hold->changes ? change->governor : NO_WORD,
	                change->owner.uid, change->owner.gid, change->owner.mode, hold->changes ? CPUFREQ_MAX : NO_WORD,
	                change->use.low_khz, change->use.high_khz, change->gives, change->user);
}

void domain_file_print(const struct domain_hold *hold, char text[DOMAIN_FILE_SIZE])
{
	char body[DOMAIN_FILE_SIZE], sum[SUM_SIZE + 1];
	int length = hold && hold->held ? held_print(hold, body, sizeof(body)) : snprintf(body, sizeof(body), FREE);

	memset(text, ' ', DOMAIN_FILE_SIZE);
	memcpy(text, body, (size_t)length);
	snprintf(sum, sizeof(sum), " %08" PRIx32 "\n", domain_file_sum(text, DOMAIN_FILE_SIZE - SUM_SIZE));
	memcpy(text + DOMAIN_FILE_SIZE - SUM_SIZE, sum, SUM_SIZE);
}

/* Returns true for what the kernel may call a governor or a driver: letters, digits, "_" and "-". */
static bool is_word(const char *name)
{
	return name[0] && characters_ok(name, JSON_LETTERS JSON_DIGITS "_-");
}

/* Returns why a parsed change is refused; NULL: it is valid. */
static const char *change_refusal(const struct domain_change *change)
{
	const struct domain_use *use = &change->use;

	if (!is_word(change->driver) || !is_word(change->governor))
		return "no name of a driver or a governor";
	if (use->low_khz == 0 || use->low_khz > use->high_khz || use->high_khz > INT32_MAX)
		return "no range of kHz";
	if (change->owner.mode & ~(mode_t)07777 || change->owner.uid == (uid_t)-1 || change->owner.gid == (gid_t)-1)
		return "no owner and mode of a file";
	return NULL;
}

/* Parses such a text. Returns NULL, or why it is refused. */
static const char *held_parse(const char *text, struct domain_hold *hold)
{
	struct domain_change *change = &hold->change;
	char name[CPUFREQ_TEXT_MAX];
	unsigned gives;
	int end = 0;

	if (sscanf(text, FORMAT, &hold->holder.job_id, &hold->holder.step_id, &hold->holder.lock, hold->holder.boot,
	           change->driver, change->governor, &change->owner.uid, &change->owner.gid, &change->owner.mode, name,
	           &change->use.low_khz, &change->use.high_khz, &gives, &change->user, &end) != FORMAT_FIELDS ||
	    end == 0 || gives > 1 || hold->holder.lock >= LOCKS_MOST)
		return "not a domain's file, or one of a version that this release does not know";
	hold->changes = strcmp(name, NO_WORD) != 0;
	if (!hold->changes) {
		*change = (struct domain_change){.gives = false};
		return NULL;
	}
	if (strcmp(name, CPUFREQ_MAX) != 0)
		return "a file that is not ours to change";
	change->gives = gives;
	return change_refusal(change);
}

int domain_file_parse(const char text[DOMAIN_FILE_SIZE], struct domain_hold *ret_hold, struct error *error)
{
	struct domain_hold hold = {.held = strncmp(text, FREE, strlen(FREE)) != 0};
	char copy[DOMAIN_FILE_SIZE + 1] = "", again[DOMAIN_FILE_SIZE];
	const char *why;

	memcpy(copy, text, DOMAIN_FILE_SIZE);
	why = hold.held ? held_parse(copy, &hold) : NULL;
	if (why)
		return error_set(error, -EBADMSG, "%s", why);
	/* printed again, a text of ours is the same, with its checksum */
	domain_file_print(&hold, again);
	if (memcmp(again, text, DOMAIN_FILE_SIZE) != 0)
		return error_set(error, -EBADMSG, "a wrong checksum");
	*ret_hold = hold;
	return 0;
}

int domain_file_lock_own(int file, const char text[DOMAIN_FILE_SIZE])
{
	char now[DOMAIN_FILE_SIZE];
	int result = files_lock(file, DOMAIN_FILE_WAIT_MS);

	if (result)
		return result;
	if (pread(file, now, sizeof(now), 0) == (ssize_t)sizeof(now) && memcmp(now, text, sizeof(now)) == 0)
		return 0;
	files_unlock(file);
	return -ESTALE;
}

int domain_file_read(int file, struct domain_hold *ret_hold, struct error *error)
{
	char text[DOMAIN_FILE_SIZE + 1];
	ssize_t length = pread(file, text, sizeof(text), 0);

	if (length < 0)
		return error_set(error, -errno, "cannot be read: %s", strerror(errno));
	if (length != DOMAIN_FILE_SIZE)
		return error_set(error, -EBADMSG, "%s", length < DOMAIN_FILE_SIZE ? "truncated" : "too long");
	return domain_file_parse(text, ret_hold, error);
}

int domain_file_write(int file, const struct domain_hold *hold, char ret_text[DOMAIN_FILE_SIZE])
{
	char text[DOMAIN_FILE_SIZE];
	ssize_t done;

	domain_file_print(hold, text);
	done = pwrite(file, text, sizeof(text), 0);
	if (done != (ssize_t)sizeof(text) || fsync(file))
		return done < 0 || done == (ssize_t)sizeof(text) ? -errno : -EIO;
	if (ret_text)
		memcpy(ret_text, text, sizeof(text));
	return 0;
}

/* Makes the file of a free domain, whole from the first moment. The directory's lock keeps two from making it. */
static int file_make(int directory, const char *name)
{
	char text[DOMAIN_FILE_SIZE];
	int result = files_lock(directory, DOMAIN_FILE_WAIT_MS);

	if (result)
		return result;
	domain_file_print(NULL, text);
	if (faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW))
		result = files_write(directory, name, 0600, text, sizeof(text), true);
	files_unlock(directory);
	return result;
}

/* Opens a file if only root can have written it. Returns a descriptor, -ENOENT, -EPERM or another -errno. */
static int open_checked(int directory, const char *name, struct error *error)
{
	cleanup_close int file = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const char *why;

	if (file < 0 && errno == ENOENT)
		return -ENOENT;
	if (file < 0)
		return error_set(error, -errno, "%s", errno == ELOOP ? "a link" : strerror(errno));
	why = files_refusal(file);
	return why ? error_set(error, -EPERM, "%s", why) : take_descriptor(&file);
}

int domain_file_open(int node_directory, uint32_t policy, bool make, struct error *error)
{
	cleanup_close int directory = files_directory(node_directory, DOMAIN_FILE_DIRECTORY, make ? 0700 : 0);
	char name[32];
	int file;

	snprintf(name, sizeof(name), "policy%" PRIu32, policy);
	if (directory < 0)
		return error_set(error, directory, "its directory: %s", strerror(-directory));
	file = open_checked(directory, name, error);
	if (file == -ENOENT && make) {
		file = file_make(directory, name);
		file = file ? file : open_checked(directory, name, error);
	}
	return file < 0 ? error_set(error, file, "%s", strerror(-file)) : file;
}
