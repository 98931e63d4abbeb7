# cmake -DFILE=a.moe -DNAME=a -DOUT=a.c -P embed.cmake: the bytes of a file as a C array source_NAME.
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "#include <stddef.h>
extern const char source_${NAME}[];
extern const size_t source_${NAME}_len;
const char source_${NAME}[] = {${bytes}0};
const size_t source_${NAME}_len = sizeof source_${NAME} - 1;
")
