/*
 * Parses the site's arguments: those of the plugin's line in plugstack.conf. Pure.
 *
 * "mpi-wait-node COMMAND [ARGUMENT...]" takes the same arguments and uses this parser too.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"

#define SITE_ENERGY_MAX 48                                    /* bytes of a list of sources, its NUL included */
#define SITE_ENERGY     "powercap+hwmon+cray+nvml+rsmi+intel" /* all sources, in the default order */
#define POLICY_NAME_MAX 32                                    /* bytes of a policy's name, its NUL included */

enum site_pin { SITE_PIN_UNSAID, SITE_PIN_CORES, SITE_PIN_NONE };
enum site_threads { SITE_THREADS_UNSAID, SITE_THREADS_KEEP, SITE_THREADS_BOUNDED, SITE_THREADS_PASSIVE };
enum site_grant { SITE_GRANT_LEASE, SITE_GRANT_FILE, SITE_GRANT_OFF };
enum site_writer { SITE_WRITER_NODE, SITE_WRITER_SWEEP };
enum site_sink { SITE_SINK_SLURMDBD, SITE_SINK_FILE };
enum site_field { SITE_FIELD_ADMIN_COMMENT, SITE_FIELD_SYSTEM_COMMENT, SITE_FIELD_EXTRA };
enum site_record { SITE_RECORD_POLICY, SITE_RECORD_ALL, SITE_RECORD_MPI, SITE_RECORD_NONE };

struct site {
	char default_policy[POLICY_NAME_MAX]; /* default=, the name of a policy or "off" */
	char allow[512];                      /* allow=, names with commas; "": all policies */
	bool enforce;                         /* enforce=yes|no */
	char policies[PATH_MAX];      /* policies=, directory of the site's own policies, which hide shipped ones */
	char programs[PATH_MAX];      /* programs=, a file of policies by program (programs.h); "": none */
	enum site_pin pin;            /* pin=cores|none */
	enum site_threads threads;    /* threads=keep|bounded|passive; SITE_THREADS_UNSAID: bounded if ranks nap */
	enum site_grant grant;        /* grant=lease|file|off */
	uint32_t min_khz;             /* min_khz=, the lowest frequency of a lease; 0: the hardware's */
	char spool[PATH_MAX];         /* spool=, a directory that the nodes share; "": the node's outbox */
	char spool_user[64];          /* spool_user=, who writes to the spool; "": root */
	enum site_writer writer;      /* writer=node|sweep */
	enum site_sink sink;          /* sink=slurmdbd|file */
	enum site_field field;        /* field=admin_comment|system_comment|extra */
	enum site_record record;      /* record=policy|all|mpi|none, which jobs leave a record */
	uint32_t record_min_s;        /* record_min_s=, jobs shorter than this leave no record */
	bool energy_tres;             /* energy_tres=on|off */
	char energy[SITE_ENERGY_MAX]; /* energy=, sources with "+"; the first that works gives the job's joules */
};

/*
 * Parses the arguments into *ret_site; those that are missing have their defaults. Returns 0, or -EINVAL with *ret_site
 * untouched and every unknown or malformed argument named in error.
 */
int site_parse(int argument_count, char *const arguments[], struct site *ret_site, struct error *error);

/* Words of the enums, from their second value on: the first one means that the key was not given. */
#define SITE_PIN_WORDS     "cores|none"
#define SITE_THREADS_WORDS "keep|bounded|passive"

/* Returns true for the kill switch, "default=off allow=off": options stay valid, for scripts' sake, and do nothing. */
bool site_is_switched_off(const struct site *site);

/*
 * Returns true if a user may ask for the policy: the default always, "off" unless enforce=yes, any other if allow=
 * lists it, or if the site gives neither allow= nor enforce=yes.
 */
bool site_allows(const struct site *site, const char *policy);
