#include "spank/plugin/program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "spank/base/cleanup.h"

#define SEGMENTS_MAX 64

/* Finds the file that execvp would execute. */
static bool path_find(const char *command, const char *search, char path[PATH_MAX])
{
	if (strchr(command, '/'))
		return snprintf(path, PATH_MAX, "%s", command) < PATH_MAX;
	for (const char *at = search; *at && *command; at += *at == ':') {
		int length = (int)strcspn(at, ":");

		if (length < PATH_MAX && snprintf(path, PATH_MAX, "%.*s/%s", length, at, command) < PATH_MAX &&
		    access(path, X_OK) == 0)
			return true;
		at += length;
	}
	return false;
}

/* Returns true if the kernel gives no program on that file system the rights of its file. */
static bool is_on_nosuid(const char *path)
{
	struct statvfs mounted;

	return statvfs(path, &mounted) == 0 && mounted.f_flag & ST_NOSUID;
}

/* Returns true if the program's file has rights for whoever runs it. */
static bool has_rights(const char *path, const struct stat *status)
{
	if (status->st_mode & S_ISUID && status->st_uid != geteuid())
		return true;
	if (status->st_mode & S_ISGID && status->st_mode & S_IXGRP && status->st_gid != getegid())
		return true;
	return getxattr(path, "security.capability", NULL, 0) > 0;
}

/*
 * Returns true if the loader would run the program in secure mode, in which it ignores LD_PRELOAD. The file system is
 * asked last and rarely: where it is parallel, all its servers may have to answer.
 */
static bool is_privileged(const char *path, const struct stat *status)
{
	return has_rights(path, status) && !is_on_nosuid(path);
}

/*
 * Returns true for a 64-bit program with a fixed address and no loader. A program without a fixed address may be a
 * loader itself.
 */
static bool is_static(const char *path)
{
	cleanup_close int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	Elf64_Ehdr head;
	Elf64_Phdr segment[SEGMENTS_MAX];

	if (file < 0 || pread(file, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_type != ET_EXEC || head.e_phentsize != sizeof(segment[0]) || head.e_phnum > SEGMENTS_MAX ||
	    pread(file, segment, head.e_phnum * sizeof(segment[0]), (off_t)head.e_phoff) !=
	            (ssize_t)(head.e_phnum * sizeof(segment[0])))
		return false;
	for (size_t i = 0; i < head.e_phnum; i++)
		if (segment[i].p_type == PT_INTERP)
			return false;
	return true;
}

enum mpiwait_note program_look(const char *command, const char *search)
{
	char path[PATH_MAX];
	struct stat status;

	if (!path_find(command, search, path) || stat(path, &status) < 0 || !S_ISREG(status.st_mode))
		return MPIWAIT_NOTES;
	if (is_privileged(path, &status))
		return MPIWAIT_NOTE_SETUID;
	return is_static(path) ? MPIWAIT_NOTE_STATIC : MPIWAIT_NOTES;
}

bool program_is_binary(const char *command, const char *search)
{
	char path[PATH_MAX], magic[SELFMAG];
	struct stat status;

	if (!path_find(command, search, path))
		return false;
	cleanup_close int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
	       pread(file, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && memcmp(magic, ELFMAG, SELFMAG) == 0;
}
