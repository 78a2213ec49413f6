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
