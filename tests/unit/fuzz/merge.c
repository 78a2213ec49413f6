/* What a field of the job holds already, and below it the records of nodes, each a line: merged, and put together. */
#include "tests/unit/fuzz/fuzz.h"

#include "tests/unit/fuzz/line.h"

#define NODES_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = fuzz_text(data, size);
	char *rest = text, *held = strsep(&rest, "\n"), *line;
	struct record_node *node[NODES_MAX];
	json_t *json[NODES_MAX];
	size_t count = 0;

	while (count < NODES_MAX && (line = strsep(&rest, "\n"))) {
		json[count] = json_loads(line, 0, NULL);
		if (json[count] && record_node_parse(json[count], &node[count], NULL) == 0)
			count++;
		else
			json_decref(json[count]);
	}
	if (count > 0)
		line_check((const struct record_node *const *)node, count, held);
	for (size_t i = 0; i < count; i++) {
		record_node_free(node[i]);
		json_decref(json[i]);
	}
	return 0;
}
