/*
 * What the site decided: the arguments of our line in plugstack.conf. Pure.
 *
 * The same words are understood by "mpi-wait-node COMMAND [ARGUMENT...]", so that there is one parser.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"

#define SITE_ENERGY_MAX 32 /* bytes of a list of sources, its NUL included */
#define SITE_ENERGY     "powercap+hwmon+cray+nvml+rsmi"
#define POLICY_NAME_MAX 32 /* bytes of a policy's name, its NUL included */

enum site_pin { SITE_PIN_UNSAID, SITE_PIN_CORES, SITE_PIN_NONE };
enum site_threads { SITE_THREADS_UNSAID, SITE_THREADS_KEEP, SITE_THREADS_BOUNDED, SITE_THREADS_PASSIVE };
enum site_grant { SITE_GRANT_LEASE, SITE_GRANT_FILE, SITE_GRANT_OFF };
enum site_writer { SITE_WRITER_NODE, SITE_WRITER_SWEEP };
enum site_sink { SITE_SINK_SLURMDBD, SITE_SINK_FILE };
enum site_field { SITE_FIELD_ADMIN_COMMENT, SITE_FIELD_SYSTEM_COMMENT, SITE_FIELD_EXTRA };
enum site_record { SITE_RECORD_POLICY, SITE_RECORD_ALL, SITE_RECORD_MPI, SITE_RECORD_NONE };

struct site {
	char default_policy[POLICY_NAME_MAX]; /* default=, "off" */
	char allow[512];                      /* allow=, comma-separated names; "": every policy there is */
	bool enforce;                         /* enforce=yes|no */
	char policies[PATH_MAX];      /* policies=, directory of the site's own policies, before the shipped ones */
	enum site_pin pin;            /* pin=cores|none */
	enum site_threads threads;    /* threads=keep|bounded|passive; not said: bounded where ranks nap */
	enum site_grant grant;        /* grant=lease|file|off */
	uint32_t min_khz;             /* min_khz=, 0: the hardware's */
	char spool[PATH_MAX];         /* spool=, shared by the nodes; "": the local outbox serves (one-node jobs) */
	char spool_user[64];          /* spool_user=, "": root */
	enum site_writer writer;      /* writer=node|sweep */
	enum site_sink sink;          /* sink=slurmdbd|file */
	enum site_field field;        /* field=admin_comment|system_comment|extra */
	enum site_record record;      /* record=policy|all|mpi|none: which jobs leave one; all: those under "off" too */
	uint32_t record_min_s;        /* record_min_s=, shorter jobs leave no record */
	bool energy_tres;             /* energy_tres=on|off */
	char energy[SITE_ENERGY_MAX]; /* energy=, sources with + between them: joules are of the first one that can tell
	                               */
};

/*
 * Reads the arguments into *ret_site, from defaults. Returns 0, or -EINVAL with every argument that is unknown or
 * malformed named in error and *ret_site untouched.
 */
int site_parse(int argument_count, char *const arguments[], struct site *ret_site, struct error *error);

/* From the first value on that is said. */
#define SITE_PIN_WORDS     "cores|none"
#define SITE_THREADS_WORDS "keep|bounded|passive"

/* The kill switch, "default=off allow=off": every option stays valid, so that scripts do not break, and does nothing.
 */
bool site_is_switched_off(const struct site *site);

/*
 * Whether a user may name that policy: the default always; "off" unless enforce; others when allow lists them, or when
 * there is neither allow nor enforce.
 */
bool site_allows(const struct site *site, const char *policy);
