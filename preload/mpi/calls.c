/* Parses the signatures of mpi_calls.def. */
#include "preload/mpi/calls.h"

/* An array of arrays: pointers would be relocated in every process that the library is preloaded into. */
static const char signatures[CALL_ROWS][CALL_ARGUMENTS_MAX + 1] = {
#define CALL(name, arguments, kind, large, group, signature, volume) signature,
#include "preload/contract/mpi_calls.def"
#undef CALL
};

static const uint8_t volumes[CALL_ROWS] = {
#define CALL(name, arguments, kind, large, group, signature, volume) VOLUME_##volume,
#include "preload/contract/mpi_calls.def"
#undef CALL
};

static const uint8_t groups[CALL_ROWS] = {
#define CALL(name, arguments, kind, large, group, signature, volume) GROUP_##group,
#include "preload/contract/mpi_calls.def"
#undef CALL
};

/* Notes an argument as peer of the latest message, or as its source if the message has a peer already. */
static void peer_add(struct call_shape *shape, int8_t argument)
{
	struct call_message *message;

	if (shape->messages == 0)
		return;
	message = &shape->message[shape->messages - 1];
	if (message->peer < 0)
		message->peer = argument;
	else
		message->source = argument;
}

/*
 * Moves the root of a call such as Gather or Scatter from its message to shape->root, and marks the message that only
 * the root has. These calls have two messages, and no peer but one in an argument behind both: the root. With VOLUME
 * SECOND the root has the first message, else the second.
 */
static void root_separate(struct call_shape *shape)
{
	struct call_message *message = shape->message;

	if (shape->messages != 2 || message[0].peer >= 0 || message[1].peer < 0)
		return;
	shape->root = message[1].peer;
	message[1].peer = -1;
	message[shape->volume == VOLUME_SECOND ? 0 : 1].only_root = true;
}

void call_shape_get(enum call_row row, struct call_shape *ret_shape)
{
	static const struct call_message none = {.buffer = -1, .count = -1, .type = -1, .peer = -1, .source = -1};
	struct call_shape shape = {
	        .volume = volumes[row], .between = groups[row] == GROUP_P2P, .root = -1, .handle = -1};
	struct call_message next = none;

	for (int8_t i = 0; signatures[row][i]; i++) {
		char letter = signatures[row][i];

		if (letter == 'b')
			next.buffer = i;
		if (letter == 'n' || letter == 'N') {
			next.count = i;
			next.counts = letter == 'N';
		}
		if ((letter == 't' || letter == 'T') && shape.messages < CALL_MESSAGES_MAX) {
			next.type = i;
			next.types = letter == 'T';
			shape.message[shape.messages++] = next;
			next = none;
		}
		if (letter == 'p')
			peer_add(&shape, i);
		if (letter == 'c' || letter == 'w' || letter == 'f')
			shape.handle = i;
		if (letter == 'R')
			shape.persistent = true;
	}
	root_separate(&shape);
	*ret_shape = shape;
}
