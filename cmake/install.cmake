# What `cmake --install` puts beside the libraries and programs of the rooms, and the packages made of it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# ---- manual pages: each command prints its own ----
set(man_dir ${CMAKE_BINARY_DIR}/man)
file(MAKE_DIRECTORY ${man_dir})
set(man_pages "")
function(moec_man_pages target program)
  foreach(command "" ${ARGN})
    string(JOIN "-" name ${program} ${command})
    add_custom_command(OUTPUT ${man_dir}/${name}.1 COMMAND ${target} ${command} --man-page > ${man_dir}/${name}.1
      DEPENDS ${target} VERBATIM)
    list(APPEND man_pages ${man_dir}/${name}.1)
  endforeach()
  set(man_pages ${man_pages} PARENT_SCOPE)
endfunction()
file(STRINGS ${CMAKE_SOURCE_DIR}/command/commands.def rows REGEX "^COMMAND\\(")
list(TRANSFORM rows REPLACE "^COMMAND\\(([a-z]+),.*" "\\1" OUTPUT_VARIABLE moec_commands)
moec_man_pages(moec_command moec ${moec_commands})
moec_man_pages(moe_train moe-train analyse eval generate plan plot)
add_custom_target(moec_man ALL DEPENDS ${man_pages})
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# ---- completion, documents ----
install(FILES ${CMAKE_SOURCE_DIR}/command/completion/moec.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME moec)
install(FILES ${CMAKE_SOURCE_DIR}/command/completion/moec.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME moe-train)
install(FILES ${CMAKE_SOURCE_DIR}/command/completion/_moec DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_SOURCE_DIR}/command/completion/moec.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# ---- find_package(moec): moec::moec, moec::moert, moec::compiler, moec_add_kernel() ----
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/moec)
install(EXPORT moec NAMESPACE moec:: FILE moecTargets.cmake DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/moecConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/moecConfig.cmake ${CMAKE_BINARY_DIR}/moecConfigVersion.cmake DESTINATION ${package_dir})

# ---- packages: cpack -G DEB, or TGZ ----
set(CPACK_PACKAGE_NAME moec)
set(CPACK_PACKAGE_VENDOR "moec")
set(CPACK_PACKAGE_CONTACT "the moec maintainers <moec@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler of kernels for mixture-of-experts models, with a trainer")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "binutils | gcc")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libdlpack-dev, libsqlite3-0")
include(CPack)
