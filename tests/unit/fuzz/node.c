/* One node's record, as it lies in the spool; what is accepted is merged into a job's. */
#include "tests/unit/fuzz/fuzz.h"

#include "tests/unit/fuzz/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_auto_t *json = json_loadb((const char *)data, size, 0, NULL);
	struct record_node *node = NULL;
	struct error error = {""};

	if (!json)
		return 0;
	if (record_node_parse(json, &node, &error) == 0)
		line_check((const struct record_node *const *)&node, 1, NULL);
	else
		FUZZ_CHECK(error.text[0] && fuzz_is_printable(error.text));
	record_node_free(node);
	return 0;
}
