# install.cmake - what `cmake --install` writes with the places of its prefix in it: units, settings, the pkg-config file.
#
# Run at install time, so that --prefix counts. The files in deploy/ are written for /usr; every other prefix P keeps all of it below P:
#   /usr/bin -> P/bin, /etc -> P/etc, /var -> P/var. For / and /usr, settings are in /etc and state in /var (FHS, GNUInstallDirs).
# install_part.cmake sets PENSTOCK_PART (broker, worker, dev), PENSTOCK_SOURCE, PENSTOCK_BINARY and, as configured, PENSTOCK_SYSCONFDIR, PENSTOCK_LOCALSTATEDIR,
# PENSTOCK_BINDIR, PENSTOCK_LIBDIR, PENSTOCK_INCLUDEDIR, PENSTOCK_DATADIR, and PENSTOCK_VERSION.

string(REGEX REPLACE "(.)/+$" "\\1" prefix "${CMAKE_INSTALL_PREFIX}")
string(SHA1 mark "${prefix} $ENV{DESTDIR}")
set(made ${PENSTOCK_BINARY}/installed/${mark}) # two installations of one build may run at once

# place(VARIABLE CONFIGURED): absolute; what is configured as absolute stays.
function(place variable configured)
  set(base "${prefix}/")
  if(prefix STREQUAL "/" OR (prefix STREQUAL "/usr" AND configured MATCHES "^(etc|var)$"))
    set(base "/")
  endif()
  if(IS_ABSOLUTE "${configured}")
    set(base "")
  endif()
  set(${variable} "${base}${configured}" PARENT_SCOPE)
endfunction()

place(etc "${PENSTOCK_SYSCONFDIR}")
place(var "${PENSTOCK_LOCALSTATEDIR}")
place(bin "${PENSTOCK_BINDIR}")
place(lib "${PENSTOCK_LIBDIR}")
place(include "${PENSTOCK_INCLUDEDIR}")
place(data "${PENSTOCK_DATADIR}")
place(units "lib/systemd/system")

# filled(VARIABLE FILE): a copy with the places of this prefix.
function(filled variable file)
  get_filename_component(name ${file} NAME)
  file(READ ${PENSTOCK_SOURCE}/deploy/${file} text)
  string(REPLACE "/usr/bin/penstock" "${bin}/penstock" text "${text}")
  string(REPLACE "/etc/penstock" "${etc}/penstock" text "${text}")
  string(REPLACE "/var/lib/penstock" "${var}/lib/penstock" text "${text}")
  file(WRITE ${made}/${name} "${text}")
  set(${variable} ${made}/${name} PARENT_SCOPE)
endfunction()

function(put folder)
  foreach(file ${ARGN})
    filled(copy ${file})
    file(INSTALL ${copy} DESTINATION ${folder})
  endforeach()
endfunction()

# Settings that somebody has changed stay; the new ones lie beside them.
function(put_settings file)
  filled(copy ${file})
  get_filename_component(name ${file} NAME)
  set(there "$ENV{DESTDIR}${etc}/penstock/${name}")
  set(new ${name})
  if(EXISTS ${there})
    file(SHA256 ${there} old_sum)
    file(SHA256 ${copy} new_sum)
    if(NOT old_sum STREQUAL new_sum)
      set(new ${name}.new)
      message(STATUS "Kept: ${there} was changed; this version's is ${new} beside it")
    endif()
  endif()
  file(INSTALL ${copy} DESTINATION ${etc}/penstock RENAME ${new})
endfunction()

if(PENSTOCK_PART STREQUAL "broker")
  put(${units} systemd/penstock-broker.service systemd/penstock-broker.socket systemd/penstock-broker-workers.socket systemd/penstock-broker-http.socket)
  put_settings(config/broker.conf)
elseif(PENSTOCK_PART STREQUAL "worker")
  put(${units} systemd/penstock-worker@.service)
  put(${data}/doc/penstock-worker/examples systemd/penstock-worker-gpu.conf)
  put_settings(config/worker-cpu.conf)
  file(INSTALL DESTINATION ${var}/lib/penstock TYPE DIRECTORY FILES "")
  file(INSTALL DESTINATION ${var}/lib/penstock/models TYPE DIRECTORY FILES "")
elseif(PENSTOCK_PART STREQUAL "gateway")
  put(${units} systemd/penstock-gateway.service)
  put_settings(config/gateway.conf)
elseif(PENSTOCK_PART STREQUAL "dev")
  string(REGEX REPLACE "^${prefix}/" "\${prefix}/" libdir "${lib}")
  string(REGEX REPLACE "^${prefix}/" "\${prefix}/" includedir "${include}")
  configure_file(${PENSTOCK_SOURCE}/client-lib/cmake/penstock.pc.in ${made}/penstock.pc @ONLY)
  file(INSTALL ${made}/penstock.pc DESTINATION ${lib}/pkgconfig)
endif()
