/*
 * AddressSanitizer's question to the program, answered for every program that does not answer it itself.
 *
 * Its shared runtime ends a program in which another library comes before it, as this one does, unless the option below
 * says otherwise. It asks whichever __asan_default_options comes first; ASAN_OPTIONS outweighs the answer.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

/* May be called before the library is relocated: relative addresses alone. */
const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
