/*
 * Prints the flat form of the shipped policies on this processor: "NAME FLAT" for each that this release and this host
 * can use, otherwise "NAME - REASON". One argument: the directory of the policies. A second one, a file of policies by
 * program: prints "PATTERN POLICY" for each name in it instead.
 */
#include <stdio.h>

#include "spank/policy/policy.h"
#include "spank/policy/programs.h"

static struct policy_set set;

static void print_policy(const struct policy *policy, const struct cpu *cpu, const struct policy_support *support)
{
	struct policy_use use;
	char flat[POLICY_FLAT_MAX];
	const struct policy *used = policy_resolve(&set, policy->name, support, &use);
	struct policy served = *policy;

	served.rungs &= support->rungs;
	if (!policy->inject || used != policy) {
		printf("%s - %s\n", policy->name, use.why[0] ? use.why : policy->inject ? use.used : "not preloaded");
		return;
	}
	if (policy_flatten(&served, cpu, false, false, flat, sizeof(flat)) > 0)
		printf("%s %s\n", policy->name, flat);
}

static int print_programs(const char *path)
{
	static struct programs programs;
	struct error error = {""};

	if (programs_read(path, &programs, &error) < 0)
		return 1;
	for (size_t i = 0; i < programs.name_count; i++)
		printf("%s %s\n", programs.name[i].pattern, programs.policy[programs.name[i].policy]);
	return 0;
}

int main(int argc, char **argv)
{
	struct error error = {""};
	struct policy_support support;
	struct cpu cpu;

	if (argc > 2)
		return print_programs(argv[2]);
	cpu_probe(&cpu);
	policy_probe(&cpu, SITE_GRANT_OFF, &support);
	policy_load("", argc > 1 ? argv[1] : ".", NULL, &set, &error);
	for (size_t i = 0; i < set.count; i++)
		print_policy(&set.policy[i], &cpu, &support);
	return error.text[0] != '\0';
}
