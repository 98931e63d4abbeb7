# Writes OUT, a C file with the bytes of the object FILE: chooser_object[] of machines.h.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "/* Written by machines/embed_chooser.cmake. */\n#include \"machines/machines.h\"\n
const unsigned char chooser_object[] __attribute__((aligned(8))) = {${bytes}};
const size_t chooser_object_len = sizeof chooser_object;\n")
