/* Texts that are put together, words in a list, and numbers of digits alone. */
#include "spank/base/text.h"
#include "tests/lib/check.h"

static void adds_what_there_is_room_for(void)
{
	char text[8] = "";

	CHECK(text_add(text, sizeof(text), "%s-%d", "ab", 1) && strcmp(text, "ab-1") == 0);
	CHECK(text_add(text, sizeof(text), "xyz") && strcmp(text, "ab-1xyz") == 0);
	CHECK(!text_add(text, sizeof(text), "!") && strcmp(text, "ab-1xyz") == 0);
	text[4] = '\0';
	CHECK(!text_add(text, sizeof(text), "%d", 12345) && strcmp(text, "ab-1123") == 0);
}

static void copies_plain_characters(void)
{
	char text[5];

	text_plain("a\"b\\c\n\x7f\xc3 d", 11, text, sizeof(text));
	CHECK(strcmp(text, "abc ") == 0);
	text_plain("abcdef", 2, text, sizeof(text));
	CHECK(strcmp(text, "ab") == 0);
	text_plain("", 1, text, sizeof(text));
	CHECK(text[0] == '\0');
}

static void finds_whole_words(void)
{
	CHECK(text_find("keep|bounded|passive", '|', "keep") == 0);
	CHECK(text_find("keep|bounded|passive", '|', "passive") == 2);
	CHECK(text_find("keep|bounded|passive", '|', "bound") == -1);
	CHECK(text_find("keep|bounded|passive", '|', "bounded|passive") == -1);
	CHECK(text_find("keep|bounded|passive", '|', "") == -1 && text_find("", ',', "nap") == -1);
	CHECK(text_find("nap,,off", ',', "off") == 2);
}

static void takes_digits_alone(void)
{
	static const char *const refused[] = {
	        "", "-1", "+1", " 1", "1 ", "0x1", "1e3", "101", "99999999999999999999999"};
	uint64_t number = 7;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK(!text_number(refused[i], 100, &number) && number == 7);
	CHECK(!text_number("18446744073709551616", UINT64_MAX, &number) && number == 7);
	CHECK(text_number("0", 100, &number) && number == 0);
	CHECK(text_number("100", 100, &number) && number == 100);
	CHECK(text_number("18446744073709551615", UINT64_MAX, &number) && number == UINT64_MAX);
}

int main(void)
{
	adds_what_there_is_room_for();
	copies_plain_characters();
	finds_whole_words();
	takes_digits_alone();
	return CHECK_RESULT;
}
