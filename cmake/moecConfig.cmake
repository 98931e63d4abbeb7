# find_package(moec) gives moec::moec (compile and JIT in a program), moec::moert (contexts and routes), moec::compiler (the
# command), and
#
#   moec_add_kernel(TARGET FILE.moe [OPTIONS ...] [DEPENDS FILES...])
#
# a static library TARGET of the kernels of FILE.moe, compiled when it or one of FILES (which it includes) changes. Who links
# TARGET includes "TARGET.h"; a program may link several. OPTIONS go to moec, for instance --target=avx2,avx512.
include(CMakeFindDependencyMacro)
find_dependency(OpenMP COMPONENTS C)
include(${CMAKE_CURRENT_LIST_DIR}/moecTargets.cmake)

function(moec_add_kernel target file)
  cmake_parse_arguments(kernel "" "" "OPTIONS;DEPENDS" ${ARGN})
  if(kernel_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "moec_add_kernel(${target} ${file}): unknown arguments: ${kernel_UNPARSED_ARGUMENTS}")
  endif()
  get_filename_component(source ${file} ABSOLUTE)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.kernel)
  file(MAKE_DIRECTORY ${folder})
  set(object ${folder}/${target}.o)
  add_custom_command(OUTPUT ${object} ${folder}/${target}.h
    COMMAND moec::compiler ${source} -o ${object} ${kernel_OPTIONS}
    DEPENDS ${source} ${kernel_DEPENDS} moec::compiler COMMENT "moec ${file}" VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_library(${target} STATIC ${object} ${folder}/${target}.h)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${target} INTERFACE ${folder})
  target_link_libraries(${target} INTERFACE OpenMP::OpenMP_C m)
endfunction()
