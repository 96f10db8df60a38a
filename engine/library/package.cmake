# libpenstock-engine, shared and static, for other programs: included at the end of engine/CMakeLists.txt. What is public, is written by name in three places that a
# test compares: the headers below, penstock-engine.map, and what the library exports.
set(library ${CMAKE_CURRENT_SOURCE_DIR}/library)
set(public env.h explain.h debug.h engine.h tensors.h backends.h measure.h)
list(TRANSFORM public PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/include/penstock/ OUTPUT_VARIABLE public_headers)
# Those that libpenstock has, too. So the engine's lie in a folder of their own, penstock-engine/penstock: its package needs no other, and no two own a file.
set(common_headers dtype.h precision.h status.h tensor.h)
set(include_folder ${CMAKE_INSTALL_INCLUDEDIR}/penstock-engine)
list(TRANSFORM common_headers PREPEND ${CMAKE_SOURCE_DIR}/proto/include/penstock/)

# Shared. Its map is what `penstock-engine sizes` reads.
set(objects $<TARGET_OBJECTS:engine>)
foreach(part ${PENSTOCK_ENGINE_OBJECTS})
  list(APPEND objects $<TARGET_OBJECTS:${part}>)
endforeach()
set_target_properties(proto_base PROPERTIES C_VISIBILITY_PRESET default)
add_library(penstock_engine_shared SHARED ${objects})
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/maps)
set_target_properties(penstock_engine_shared PROPERTIES OUTPUT_NAME penstock-engine EXPORT_NAME engine VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE C
                      LINK_DEPENDS ${library}/penstock-engine.map)
target_include_directories(penstock_engine_shared INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                           $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/proto/include> $<INSTALL_INTERFACE:${include_folder}>)
target_link_libraries(penstock_engine_shared PRIVATE engine proto_base penstock_flags m Threads::Threads)
target_link_options(penstock_engine_shared PRIVATE -Wl,--whole-archive $<TARGET_FILE:proto_base> -Wl,--no-whole-archive
                    -Wl,-Map=${CMAKE_BINARY_DIR}/maps/libpenstock-engine.map -Wl,--version-script=${library}/penstock-engine.map -Wl,--as-needed)

# The static library is one relocatable object whose internals are local. What libpenstock.a has, too, is weak, so that a program may link both.
file(READ ${library}/penstock-engine.map map)
string(REGEX MATCHALL "\n    pen_[a-z0-9_]+" exported "${map}")
list(TRANSFORM exported STRIP)
set(weak "")
foreach(header ${common_headers})
  file(READ ${header} text)
  string(REGEX MATCHALL "pen_[a-z0-9_]+\\(" found "${text}")
  list(TRANSFORM found REPLACE "\\(" "")
  list(APPEND weak ${found})
endforeach()
list(JOIN exported "\n" exported_lines)
list(JOIN weak "\n" weak_lines)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/exported.txt @ONLY CONTENT "@exported_lines@\n")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/weak.txt @ONLY CONTENT "@weak_lines@\n")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${library}/penstock-engine.map ${common_headers})
find_program(OBJCOPY_PROGRAM NAMES ${CMAKE_OBJCOPY} objcopy REQUIRED)
set(static_library ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libpenstock-engine.a)
add_custom_command(
  OUTPUT ${static_library}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}
  COMMAND ${CMAKE_LINKER} -r -o libpenstock-engine.o ${objects} --whole-archive $<TARGET_FILE:proto_base> --no-whole-archive
  COMMAND ${OBJCOPY_PROGRAM} --keep-global-symbols=${CMAKE_CURRENT_BINARY_DIR}/exported.txt --weaken-symbols=${CMAKE_CURRENT_BINARY_DIR}/weak.txt libpenstock-engine.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${static_library}
  COMMAND ${CMAKE_AR} rcs ${static_library} libpenstock-engine.o
  DEPENDS engine ${objects} proto_base ${CMAKE_CURRENT_BINARY_DIR}/exported.txt ${CMAKE_CURRENT_BINARY_DIR}/weak.txt
  COMMAND_EXPAND_LISTS
  COMMENT "Linking C static library lib/libpenstock-engine.a"
  VERBATIM)
add_custom_target(penstock_engine_static ALL DEPENDS ${static_library})

# For users: headers, pkg-config, CMake package, examples, a manual page with all prototypes.
set(PENSTOCK_ENGINE_PRIVATE "-lm -ldl -pthread") # what a statically linked program names: install.cmake writes it into the .pc file
if(xnnpack IN_LIST PENSTOCK_BUILT_BACKENDS)
  string(PREPEND PENSTOCK_ENGINE_PRIVATE "-lXNNPACK -lpthreadpool ")
endif()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/private.cmake @ONLY CONTENT "set(PENSTOCK_ENGINE_PRIVATE \"@PENSTOCK_ENGINE_PRIVATE@\")\n")
include(CMakePackageConfigHelpers)
configure_package_config_file(${library}/penstock-engineConfig.cmake.in penstock-engineConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/penstock-engine)
write_basic_package_version_file(penstock-engineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS penstock_engine_shared EXPORT penstock-engineTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT enginelib NAMELINK_COMPONENT enginedev)
install(EXPORT penstock-engineTargets NAMESPACE penstock:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/penstock-engine COMPONENT enginedev)
install(FILES ${static_library} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT enginedev)
install(FILES ${public_headers} ${common_headers} DESTINATION ${include_folder}/penstock COMPONENT enginedev)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstock-engineConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/penstock-engineConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/penstock-engine COMPONENT enginedev)
penstock_install_part(enginedev)

set(page ${CMAKE_BINARY_DIR}/man/penstock-engine.3)
add_custom_command(OUTPUT ${page} COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
                   COMMAND sh -c "text=$1 awk=$2 page=$3; shift 3; sed '/^@SYNOPSIS@/,$d' \"$text\" > \"$page\" && awk -f \"$awk\" \"$@\" >> \"$page\" && sed '1,/^@SYNOPSIS@/d' \"$text\" >> \"$page\""
                           sh ${library}/penstock-engine.3.in ${library}/synopsis.awk ${page} ${public_headers}
                   DEPENDS ${library}/penstock-engine.3.in ${library}/synopsis.awk ${public_headers} VERBATIM)
add_custom_target(penstock_engine_page ALL DEPENDS ${page})
install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT enginedev)
