/* Offers the plugin's readers of users' and sites' text to ctypes: tests/lib/properties.py. */
#include <stdio.h>
#include <string.h>

#include "spank/policy/options.h"
#include "spank/policy/policy.h"

__attribute__((visibility("default"))) int read_option(const char *text, char *ret_text, size_t size);
__attribute__((visibility("default"))) int read_policy(const char *text, size_t length, const char *name,
                                                       char *ret_text, size_t size);

/* Parses an option. Writes it as an option's value again, or the reason of the refusal. Returns options_parse's
 * result. */
int read_option(const char *text, char *ret_text, size_t size)
{
	static const char *const threads[] = {"", ",threads=keep", ",threads=bounded", ",threads=passive"};
	struct options options;
	struct error error = {""};
	int result = options_parse(text, &options, &error);
	int used;

	if (result) {
		snprintf(ret_text, size, "%s", error.text);
		return result;
	}
	used = snprintf(ret_text, size, "%s%s%s%s%s%s%s%s%s", options.policy, options.pin ? ",pin=" : "",
	                options.pin == SITE_PIN_CORES  ? "cores"
	                : options.pin == SITE_PIN_NONE ? "none"
	                                               : "",
	                threads[options.threads],
	                options.polls == OPTIONS_POLLS_ON    ? ",polls=on"
	                : options.polls == OPTIONS_POLLS_OFF ? ",polls=off"
	                                                     : "",
	                options.profile ? ",profile" : "", options.sites ? ",sites" : "",
	                options.ibarrier ? ",collectives=ibarrier" : "", options.csv[0] ? ",csv=" : "");
	used += snprintf(ret_text + used, size - (size_t)used, "%s", options.csv);
	if (options.slowdown_ppm)
		snprintf(ret_text + used, size - (size_t)used, ",slowdown=%u.%04u", options.slowdown_ppm / 10000,
		         options.slowdown_ppm % 10000);
	return 0;
}

/* Parses a policy. Writes its flat string, or the reason of the refusal. Returns policy_parse's result. */
int read_policy(const char *text, size_t length, const char *name, char *ret_text, size_t size)
{
	struct cpu cpu = {.waitpkg = true, .mwaitx = true, .cpufreq = true, .tsc_khz = 3000000, .umwait_c02 = true};
	struct policy policy;
	struct error error = {""};
	int result = policy_parse(text, length, name, &policy, &error);

	if (result)
		snprintf(ret_text, size, "%s", error.text);
	else if (policy_flatten(&policy, &cpu, false, false, ret_text, size) <= 0)
		return -1000;
	return result;
}
