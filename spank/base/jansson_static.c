/*
 * Makes it possible to link a jansson that was built for executables (Debian's libjansson.a) into the plugin.
 *
 * One reference in it cannot be linked into a shared object: json_loadf compares its stream with libc's stdin, to name
 * the stream in messages. The plugin never loads from a stream, so this hidden variable stands in for stdin.
 */
__attribute__((visibility("hidden"))) void *stdin;
