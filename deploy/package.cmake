# Manual pages, and Debian packages: cpack --config build/CPackConfig.cmake -B OUTPUT (needs dpkg-dev for the dependencies).

# ---- manual pages: each program writes its own
set(MAN_DIR ${CMAKE_BINARY_DIR}/man)
set(MAN_PAGES)
function(penstock_man page component target)
  add_custom_command(OUTPUT ${MAN_DIR}/${page}.1 COMMAND ${CMAKE_COMMAND} -E make_directory ${MAN_DIR}
                     COMMAND sh -c "\"$1\" $3 --settings-man > \"$2\"" sh $<TARGET_FILE:${target}> ${MAN_DIR}/${page}.1 "${ARGN}" DEPENDS ${target} VERBATIM)
  set(MAN_PAGES ${MAN_PAGES} ${MAN_DIR}/${page}.1 PARENT_SCOPE)
  install(FILES ${MAN_DIR}/${page}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
endfunction()

if(TARGET penstock-broker AND TARGET penstock-worker AND TARGET penstock AND NOT CMAKE_CROSSCOMPILING AND NOT PENSTOCK_SANITIZE AND NOT PENSTOCK_FUZZ)
  penstock_man(penstock-broker broker penstock-broker)
  penstock_man(penstock-worker worker penstock-worker)
  penstock_man(penstock cli penstock)
  # The subcommands are those of the table in the command's main.c.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client-lib/cli/main.c)
  file(STRINGS ${CMAKE_SOURCE_DIR}/client-lib/cli/main.c commands REGEX "^    {\"[a-z-]+\", ")
  list(TRANSFORM commands REPLACE "^    {\"([a-z-]+)\".*" "\\1")
  foreach(command ${commands})
    penstock_man(penstock-${command} cli penstock ${command})
  endforeach()
  add_custom_target(man ALL DEPENDS ${MAN_PAGES})

  # ---- units and their settings
  install(FILES deploy/systemd/penstock-broker.service deploy/systemd/penstock-broker.socket deploy/systemd/penstock-broker-workers.socket
                deploy/systemd/penstock-broker-http.socket DESTINATION lib/systemd/system COMPONENT broker)
  install(FILES deploy/systemd/penstock-worker@.service DESTINATION lib/systemd/system COMPONENT worker)
  install(FILES deploy/systemd/penstock-worker-gpu.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock-worker COMPONENT worker)
  install(FILES deploy/config/broker.conf DESTINATION /etc/penstock COMPONENT broker)
  install(FILES deploy/config/worker-cpu.conf DESTINATION /etc/penstock COMPONENT worker)
  install(FILES deploy/prometheus/alerts.yml deploy/prometheus/prometheus.yml deploy/grafana/penstock.json deploy/nginx/penstock.conf
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock-broker/examples COMPONENT broker)
  install(DIRECTORY DESTINATION /var/lib/penstock/models COMPONENT worker)
endif()

# ---- packages
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Penstock <penstock@localhost>")
set(CPACK_PACKAGE_VENDOR Penstock)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON) # absolute places: /etc, /var
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL broker worker cli lib dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_BROKER_PACKAGE_NAME penstock-broker)
set(CPACK_DEBIAN_WORKER_PACKAGE_NAME penstock-worker)
set(CPACK_DEBIAN_CLI_PACKAGE_NAME penstock)
set(CPACK_DEBIAN_LIB_PACKAGE_NAME libpenstock0)
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libpenstock-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libpenstock0 (= ${PROJECT_VERSION}), libzmq3-dev, libprotobuf-c-dev, libxxhash-dev, libsodium-dev")
set(CPACK_DEBIAN_CLI_PACKAGE_SUGGESTS "penstock-broker, penstock-worker")
set(CPACK_DEBIAN_BROKER_PACKAGE_SUGGESTS "redis-server, prometheus")
set(CPACK_COMPONENT_BROKER_DESCRIPTION "takes inference jobs and gives them to workers
 Queues, batches, caches; loses nothing when a worker or the broker itself is killed.")
set(CPACK_COMPONENT_WORKER_DESCRIPTION "runs models for a Penstock broker
 Loads a folder of models, warms them up and runs the jobs a broker sends.")
set(CPACK_COMPONENT_CLI_DESCRIPTION "runs jobs on a Penstock pool and watches it
 submit, models, workers, top, trace, load, drain.")
set(CPACK_COMPONENT_LIB_DESCRIPTION "client library of Penstock
 Submits inference jobs to a broker, blocking, as futures, or from an event loop.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "client library of Penstock: headers and static library")
foreach(component broker worker)
  string(TOUPPER ${component} upper)
  set(conffile broker.conf)
  if(component STREQUAL worker)
    set(conffile worker-cpu.conf)
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/deb-${component}/conffiles "/etc/penstock/${conffile}\n")
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/deb-${component}/conffiles)
endforeach()
include(CPack)
