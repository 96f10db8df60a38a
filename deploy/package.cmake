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
  if(TARGET penstock-gateway)
    penstock_man(penstock-gateway gateway penstock-gateway)
  endif()
  # The subcommands are those of the table in the command's main.c.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client-lib/cli/main.c)
  file(STRINGS ${CMAKE_SOURCE_DIR}/client-lib/cli/main.c commands REGEX "^    {\"[a-z-]+\", ")
  list(TRANSFORM commands REPLACE "^    {\"([a-z-]+)\".*" "\\1")
  foreach(command ${commands})
    penstock_man(penstock-${command} cli penstock ${command})
  endforeach()

  # The engine's own tool: a page for it and one for each of its commands.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/engine/tools/main.c)
  if(TARGET penstock-engine)
    penstock_man(penstock-engine engine penstock-engine)
    file(STRINGS ${CMAKE_SOURCE_DIR}/engine/tools/main.c commands REGEX "^    {\"[a-z-]+\", ")
    list(TRANSFORM commands REPLACE "^    {\"([a-z-]+)\".*" "\\1")
    foreach(command ${commands})
      penstock_man(penstock-engine-${command} engine penstock-engine ${command})
    endforeach()
  endif()
  add_custom_target(man ALL DEPENDS ${MAN_PAGES})
endif()

# ---- units and settings: install.cmake puts the prefix's places into them
if(TARGET penstock-broker)
  penstock_install_part(broker)
  install(FILES deploy/prometheus/alerts.yml deploy/prometheus/prometheus.yml deploy/grafana/penstock.json deploy/nginx/penstock.conf deploy/redis/stunnel.conf
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock-broker/examples COMPONENT broker)
endif()
if(TARGET penstock-worker)
  penstock_install_part(worker)
endif()
if(TARGET penstock-gateway)
  penstock_install_part(gateway)
  install(FILES deploy/nginx/gateway.conf deploy/caddy/Caddyfile DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock-gateway/examples COMPONENT gateway)
endif()

# ---- documents, and the model that the tutorial uses
# Installed pages lie in one folder: links between them lose their way through the sources (docs_test.py: no other link leads out of it).
set(penstock_pages SECURITY.md proto/PROTOCOL.md deploy/TUTORIAL.md deploy/MODELS.md deploy/REGISTRY.md deploy/ANSWERS.md deploy/PICTURES.md deploy/TRITON.md deploy/SETTINGS.md deploy/RUNBOOK.md deploy/METRICS.md deploy/LIMITS.md deploy/PLANNING.md
    deploy/RELEASES.md deploy/LICENCES.md)
foreach(page ${penstock_pages})
  file(READ ${page} text)
  string(REGEX REPLACE "\\]\\((\\.\\./|deploy/|proto/)+" "](" text "${text}")
  get_filename_component(name ${page} NAME)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/pages/${name} CONTENT "${text}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
endforeach()
list(TRANSFORM penstock_pages REPLACE "^.*/" "" OUTPUT_VARIABLE penstock_names)
list(TRANSFORM penstock_names PREPEND ${CMAKE_CURRENT_BINARY_DIR}/pages/ OUTPUT_VARIABLE penstock_built)
install(FILES LICENSE ${penstock_built} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock COMPONENT cli)
install(DIRECTORY deploy/models/digits DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock/models COMPONENT models
        FILES_MATCHING PATTERN "*.onnx" PATTERN "*.json" PATTERN "README.md" PATTERN "*.png" PATTERN "labels.txt" PATTERN "testset" EXCLUDE)

# ---- packages
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Penstock maintainers <maintainers@penstock.invalid>")
set(CPACK_PACKAGE_VENDOR Penstock)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON) # absolute places: /etc, /var
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL broker worker gateway cli engine models lib dev enginelib enginedev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/deploy/debian/prepare.cmake)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

# penstock_package(COMPONENT NAME SUMMARY DESCRIPTION): a line of the description has at most 79 characters.
macro(penstock_package component name summary description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}")
  set(extra)
  foreach(file conffiles triggers postinst prerm postrm)
    if(EXISTS ${CMAKE_SOURCE_DIR}/deploy/debian/${name}/${file})
      list(APPEND extra ${CMAKE_SOURCE_DIR}/deploy/debian/${name}/${file})
    endif()
  endforeach()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${extra}")
endmacro()
penstock_package(broker penstock-broker "inference worker pool: takes jobs and gives them to workers"
                 "Queues, batches and caches jobs. Loses nothing when a worker or the\nbroker itself is killed.")
penstock_package(worker penstock-worker "inference worker pool: runs models for a broker"
                 "Loads a folder of models (ONNX, TFLite, TensorFlow.js), warms them up and\nruns the jobs that a Penstock broker sends.")
penstock_package(gateway penstock-gateway "inference worker pool: Open Inference Protocol over HTTP and gRPC"
                 "Lets curl, tritonclient and browsers run jobs on a Penstock pool.")
penstock_package(cli penstock "inference worker pool: command line"
                 "Runs jobs on a Penstock pool and watches it: submit, models, workers, top,\ntrace, load, drain; import makes a model folder.")
penstock_package(engine penstock-engine "inference engine without a network"
                 "Shows what backends this host has, runs, verifies and times models, and\nmakes model folders for a Penstock worker.")
penstock_package(models penstock-digits "digits model for the Penstock tutorial"
                 "A small ONNX model that reads handwritten digits, and pictures to try it\nwith. The tutorial of Penstock uses it.")
penstock_package(lib libpenstock0 "client library of the Penstock inference worker pool"
                 "Submits inference jobs to a broker: blocking, as futures, or from an event\nloop.")
penstock_package(dev libpenstock-dev "client library of Penstock: headers"
                 "Headers, the static library, a pkg-config file and a CMake package of the\nclient library of the Penstock inference worker pool, its manual pages and\nexamples.")
penstock_package(enginelib libpenstock-engine0 "inference engine of Penstock: shared library"
                 "Runs ONNX, TFLite and TensorFlow.js models on CPUs and GPUs, within a\nprogram and without a network.")
penstock_package(enginedev libpenstock-engine-dev "inference engine of Penstock: headers"
                 "Headers, the static library, a pkg-config file and a CMake package of the\ninference engine of Penstock, its manual page and examples.")
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_ENGINELIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_ENGINEDEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_ENGINEDEV_PACKAGE_DEPENDS "libpenstock-engine0 (= ${PROJECT_VERSION}), libcjson-dev, libsodium-dev")
if(xnnpack IN_LIST PENSTOCK_BUILT_BACKENDS)
  string(APPEND CPACK_DEBIAN_ENGINEDEV_PACKAGE_DEPENDS ", libxnnpack-dev, libpthreadpool-dev")
endif()
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libpenstock0 (= ${PROJECT_VERSION}), libzmq3-dev, libprotobuf-c-dev, libxxhash-dev, libsodium-dev, libcjson-dev, libpng-dev, libjpeg-dev, libwebp-dev")
set(CPACK_DEBIAN_MODELS_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_CLI_PACKAGE_RECOMMENDS "penstock-engine, libcurl4") # opened at run time
set(CPACK_DEBIAN_WORKER_PACKAGE_RECOMMENDS "libcurl4")
set(CPACK_DEBIAN_CLI_PACKAGE_SUGGESTS "penstock-broker, penstock-worker, penstock-digits")
set(CPACK_DEBIAN_BROKER_PACKAGE_SUGGESTS "redis-server, prometheus")
include(CPack)
