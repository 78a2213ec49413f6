#include "spank/base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_add(char *buffer, size_t size, const char *format, ...)
{
	size_t used = strlen(buffer);
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(buffer + used, size - used, format, arguments);
	va_end(arguments);
	return length >= 0 && (size_t)length < size - used;
}

static bool is_plain(char letter)
{
	return letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\';
}

void text_plain(const char *from, size_t from_size, char *ret_text, size_t size)
{
	size_t length = 0;

	for (size_t i = 0; i < from_size && from[i] && length < size - 1; i++)
		if (is_plain(from[i]))
			ret_text[length++] = from[i];
	ret_text[length] = '\0';
}

int text_find(const char *list, char separator, const char *word)
{
	size_t length = strlen(word);

	for (int index = 0;; index++) {
		const char *end = strchrnul(list, separator);

		if ((size_t)(end - list) == length && strncmp(list, word, length) == 0)
			return index;
		if (!*end)
			return -1;
		list = end + 1;
	}
}

bool text_number(const char *text, uint64_t most, uint64_t *ret_number)
{
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || number > most)
		return false;
	*ret_number = number;
	return true;
}
