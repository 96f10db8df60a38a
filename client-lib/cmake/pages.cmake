# pages.cmake - of doxygen's manual pages those that people look for: functions and structs (pen_*), and the headers, which get names of their own:
# a page "client.h" in section 3 would be everybody's. FROM, TO: folders.
file(REMOVE_RECURSE ${TO})
file(GLOB pages RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/${FROM} ${FROM}/pen_*.3 ${FROM}/*.h.3)
foreach(page ${pages})
  file(READ ${FROM}/${page} text)
  string(REGEX REPLACE "\\.so man3/([a-z]+\\.h)\\.3" ".so man3/penstock_\\1.3" text "${text}")
  string(REPLACE "\n'" "\n\\&'" text "${text}") # a quote at the start of a line would be a request
  string(REGEX REPLACE "\n\\.SH NAME\n([^ \n]+)\n" "\n.SH NAME\n\\1 \\\\- part of the Penstock client library\n" text "${text}")
  string(REGEX REPLACE "^([a-z]+\\.h\\.3)$" "penstock_\\1" name ${page})
  file(WRITE ${TO}/${name} "${text}")
endforeach()
