/* The arguments of our line in plugstack.conf, one per line of the input. */
#include "tests/unit/fuzz/fuzz.h"

#include "spank/base/cleanup.h"
#include "spank/policy/site.h"

#define ARGUMENTS_MAX 64

static int words_split(char *text, char *words[ARGUMENTS_MAX])
{
	int count = 0;

	for (char *rest = text, *word; count < ARGUMENTS_MAX && (word = strsep(&rest, "\n"));)
		words[count++] = word;
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = fuzz_text(data, size);
	char *words[ARGUMENTS_MAX];
	int count = words_split(text, words);
	struct error error = {""};
	struct site site;

	if (site_parse(count, words, &site, &error) < 0) {
		FUZZ_CHECK(error.text[0]);
		return 0;
	}
	FUZZ_CHECK(!error.text[0] && site.default_policy[0]);
	FUZZ_CHECK(site_allows(&site, site.default_policy));
	FUZZ_CHECK(!site.spool[0] || site.spool[0] == '/');
	FUZZ_CHECK(!site.policies[0] || site.policies[0] == '/');
	FUZZ_CHECK(!site.enforce || !site_allows(&site, "off") || strcmp(site.default_policy, "off") == 0);
	FUZZ_CHECK((unsigned)site.grant <= SITE_GRANT_OFF && (unsigned)site.record <= SITE_RECORD_NONE);
	if (site_is_switched_off(&site))
		FUZZ_CHECK(!site_allows(&site, "nap"));
	return 0;
}
