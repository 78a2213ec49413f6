/*
 * Preloaded: sets the program's locale from its environment before it begins, as if the program or a plugin had called
 * setlocale. Each program whose decimal point is then a comma adds its name to the file $OWN_LOCALE_LOG.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void say_name(const char *path)
{
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

	if (file < 0)
		return;
	fchmod(file, 0666); /* root makes the file; users must be able to write too */
	dprintf(file, "%s\n", program_invocation_short_name);
	close(file);
}

__attribute__((constructor)) static void take_locale(void)
{
	const char *path = getenv("OWN_LOCALE_LOG");
	char number[16];

	if (!setlocale(LC_ALL, ""))
		return;
	snprintf(number, sizeof(number), "%.1f", 0.5);
	if (path && strcmp(number, "0,5") == 0)
		say_name(path);
}
