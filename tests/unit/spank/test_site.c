/* The arguments in plugstack.conf: what is accepted, what is refused and in which words. */
#include "spank/policy/site.h"
#include "tests/lib/check.h"

static void accepts(void)
{
	char *arguments[] = {"default=nap",      "allow=nap,umwait",
	                     "enforce=yes",      "policies=/etc/p",
	                     "pin=none",         "grant=file",
	                     "min_khz=800000",   "spool=/shared/spool",
	                     "spool_user=slurm", "writer=sweep",
	                     "sink=file",        "field=system_comment",
	                     "record=mpi",       "record_min_s=10",
	                     "energy_tres=on",   "energy=nvml+cray",
	                     "threads=passive",  "programs=/etc/mpi-wait/programs.json"};
	struct error error = {""};
	struct site site;

	CHECK(site_parse(18, arguments, &site, &error) == 0);
	CHECK(strcmp(site.default_policy, "nap") == 0 && strcmp(site.allow, "nap,umwait") == 0 && site.enforce);
	CHECK(site.pin == SITE_PIN_NONE && site.grant == SITE_GRANT_FILE && site.min_khz == 800000);
	CHECK(strcmp(site.spool, "/shared/spool") == 0 && strcmp(site.spool_user, "slurm") == 0);
	CHECK(site.writer == SITE_WRITER_SWEEP && site.sink == SITE_SINK_FILE &&
	      site.field == SITE_FIELD_SYSTEM_COMMENT);
	CHECK(site.threads == SITE_THREADS_PASSIVE);
	CHECK(site.record == SITE_RECORD_MPI && site.record_min_s == 10 && site.energy_tres);
	CHECK(strcmp(site.energy, "nvml+cray") == 0);
	CHECK(strcmp(site.programs, "/etc/mpi-wait/programs.json") == 0);
}

static void defaults(void)
{
	struct error error = {""};
	struct site site;

	CHECK(site_parse(0, NULL, &site, &error) == 0);
	CHECK(strcmp(site.default_policy, "off") == 0 && !site.allow[0] && !site.enforce && site.pin == SITE_PIN_CORES);
	CHECK(site.grant == SITE_GRANT_LEASE);
	CHECK(strcmp(site.energy, "powercap+hwmon+cray+nvml+rsmi+intel") == 0);
	CHECK(site.writer == SITE_WRITER_NODE && site.record == SITE_RECORD_POLICY && !site.threads);
}

static void refuses(void)
{
	static const struct {
		char *argument;
		const char *message;
	} cases[] = {
	        {"colour=red", "'colour=red' (no such argument)"},
	        {"default=", "a policy's name"},
	        {"default=../x", "a policy's name"},
	        {"enforce=maybe", "enforce=no|yes"},
	        {"enforce", "'enforce' (accepted: enforce=no|yes)"},
	        {"pin=sockets", "pin=cores|none"},
	        {"threads=active", "'threads=active' (accepted: threads=keep|bounded|passive)"},
	        {"spool=relative/path", "an absolute path"},
	        {"programs=relative/path", "'programs=relative/path' (accepted: programs=an absolute path)"},
	        {"grant=all", "grant=lease|file|off"},
	        {"governor=keep", "'governor=keep' (no such argument)"},
	        {"min_khz=-1", "a whole number"},
	        {"min_khz=99999999999", "a whole number"},
	        {"record_min_s=1e3", "a whole number"},
	        {"spool_user=a b", "a user's name"},
	        {"energy=rapl", "'energy=rapl' (accepted: energy=some of powercap+hwmon+cray+nvml+rsmi+intel)"},
	        {"energy=", "some of powercap+hwmon+cray+nvml+rsmi+intel"},
	        {"energy=cray+", "some of powercap+hwmon+cray+nvml+rsmi+intel"},
	        {"energy=+cray", "some of powercap+hwmon+cray+nvml+rsmi+intel"},
	        {"energy=cray++nvml", "some of powercap+hwmon+cray+nvml+rsmi+intel"},
	        {"energy=cray+cray", "some of powercap+hwmon+cray+nvml+rsmi+intel"},
	        {"energy=cray,nvml", "some of powercap+hwmon+cray+nvml+rsmi+intel"},
	        {"energy=powercap+hwmon+cray+nvml+nvml", "some of powercap+hwmon+cray+nvml+rsmi+intel"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *arguments[] = {cases[i].argument};
		struct error error = {""};
		struct site site = {.min_khz = 7};

		CHECK(site_parse(1, arguments, &site, &error) < 0);
		CHECK_CONTAINS(error.text, cases[i].message);
		CHECK(site.min_khz == 7);
	}
}

static void names_every_problem(void)
{
	char *arguments[] = {"wrong=1", "default=nap", "pin=x"};
	struct error error = {""};
	struct site site;

	CHECK(site_parse(3, arguments, &site, &error) < 0);
	CHECK_CONTAINS(error.text, "wrong=1");
	CHECK_CONTAINS(error.text, "pin=x");
}

static void names_nothing_that_is_right(void)
{
	char *arguments[] = {"energy=rapl", "pin=none", "spool=/x"};
	struct error error = {""};
	struct site site;

	CHECK(site_parse(3, arguments, &site, &error) < 0);
	CHECK(strstr(error.text, "'energy=rapl'") && !strstr(error.text, "pin") && !strstr(error.text, "spool"));
}

static void allows(void)
{
	struct site open_site = {.default_policy = "off"};
	struct site list = {.default_policy = "nap", .allow = "umwait,nap"};
	struct site enforced = {.default_policy = "nap", .enforce = true};
	struct site killed = {.default_policy = "off", .allow = "off"};

	CHECK(site_allows(&open_site, "nap") && site_allows(&open_site, "off"));
	CHECK(site_allows(&list, "umwait") && site_allows(&list, "off") && !site_allows(&list, "yield"));
	CHECK(!site_allows(&list, "um") && !site_allows(&list, "umwait,nap"));
	CHECK(site_allows(&enforced, "nap") && !site_allows(&enforced, "off") && !site_allows(&enforced, "yield"));
	CHECK(site_is_switched_off(&killed) && !site_is_switched_off(&open_site) && !site_is_switched_off(&list));
}

int main(void)
{
	accepts();
	defaults();
	refuses();
	names_every_problem();
	names_nothing_that_is_right();
	allows();
	return CHECK_RESULT;
}
