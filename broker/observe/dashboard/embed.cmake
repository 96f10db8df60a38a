# cmake -DFOLDER=<this folder> -DOUTPUT=dashboard.c -P embed.cmake: the page's files as C arrays. draw.js is that of the folder picture.
set(root ${FOLDER}/../../..)
include(${root}/proto/system/embed_pages.cmake)
set(entries "/|${FOLDER}/index.html|text/html" "/style.css|${FOLDER}/style.css|text/css" "/draw.js|${root}/picture/draw.js|text/javascript")
foreach(script app charts history trace attention past previews)
  list(APPEND entries "/${script}.js|${FOLDER}/${script}.js|text/javascript")
endforeach()
embed_pages(${OUTPUT} dashboard.h dashboard ${entries})
