/*
 * Answers AddressSanitizer's question for options, for every program that does not answer it itself.
 *
 * Its shared runtime ends a program in which another library comes before it, as this one does, unless the option below
 * says otherwise. The runtime asks whichever __asan_default_options comes first. ASAN_OPTIONS overrides the answer.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

/* May be called before the library is relocated, so it uses relative addresses only. */
const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
