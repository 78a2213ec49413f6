/*
 * Programs: the site's file of policies by program, programs=FILE. Pure but for programs_read and programs_load, which
 * read the file.
 *
 *     {"v": 1,
 *      "programs": [{"names": ["wrf.exe", "vasp_*"], "policy": "nap,slowdown=2"},
 *                   {"names": ["lmp*"], "policy": "off", "note": "for people, ignored"}],
 *      "wrappers": ["my_wrapper"]}
 *
 * The first name that matches a program's base name gives the program its policy. A pattern has '*' and '?'. A policy
 * is what a user would write for --mpi-wait-policy, without csv=. "wrappers" names programs of the site's that run the
 * program which follows them (wrappers.h). An unknown key, a wrong type or a text that is too long is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/contract/config_format.h"
#include "spank/base/error.h"
#include "spank/policy/options.h"

#define PROGRAMS_ROWS_MAX     256
#define PROGRAMS_IN_ROW_MAX   16
#define PROGRAMS_NAMES_MAX    512 /* names of all rows */
#define PROGRAMS_WRAPPERS_MAX 16

/* A pattern of names, and the index of its policy in the list of policies. */
struct programs_name {
	char pattern[CONFIG_PROGRAM_MAX];
	uint32_t policy;
};

/* The file. It has no pointers, because another process reads it (apart.h). */
struct programs {
	size_t policy_count;
	char policy[CONFIG_CHOICES_MAX][OPTIONS_TEXT_MAX]; /* each text once */
	size_t name_count;
	struct programs_name name[PROGRAMS_NAMES_MAX]; /* names of all rows in their order */
	size_t wrapper_count;
	char wrapper[PROGRAMS_WRAPPERS_MAX][CONFIG_PROGRAM_MAX];
};

/* Parses the file's text. Returns 0, or -EINVAL or -ENOMEM with *ret_programs half filled. */
int programs_parse(const char *text, size_t length, struct programs *ret_programs, struct error *error);

/* Reads and parses the file. error names the file. Returns 0 or negative errno, with *ret_programs half filled. */
int programs_read(const char *path, struct programs *ret_programs, struct error *error);

/* As programs_read, by another process, which is given two seconds (apart.h). */
int programs_load(const char *path, struct programs *ret_programs, struct error *error);

/* Returns the index of the first name that matches a program's base name; -1: none does, or it is no file's name. */
int programs_find(const struct programs *programs, const char *program);
