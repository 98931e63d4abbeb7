# Writes OUT, a C file with the bytes of the descriptions FILES (joined by `,`): machine_texts[] of machines.h.
string(REPLACE "," ";" files "${FILES}")
set(arrays "")
set(rows "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const unsigned char ${name}[] = {${bytes}};\n")
  string(APPEND rows "    {\"${name}\", ${name}, sizeof ${name}},\n")
endforeach()
file(WRITE ${OUT} "/* Written by machines/embed.cmake from the descriptions in machines/. */\n#include \"machines/machines.h\"\n\n${arrays}
const MachineText machine_texts[] = {\n${rows}};
const uint32_t machine_text_count = sizeof machine_texts / sizeof *machine_texts;\n")
