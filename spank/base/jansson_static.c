/*
 * Lets a jansson that was built for executables (Debian's libjansson.a) be linked into the plugin.
 *
 * Its only reference that a shared object cannot hold is the one to libc's stdin, with which json_loadf compares its
 * stream to name it in messages. We never load from a stream: a variable of our own, hidden, takes the name.
 */
__attribute__((visibility("hidden"))) void *stdin;
