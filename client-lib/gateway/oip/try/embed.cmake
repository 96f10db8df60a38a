# cmake -DFOLDER=<this folder> -DOUTPUT=try_files.c -P embed.cmake: the files of the page /try as C arrays. penstock.mjs is that of the folder node, draw.js that of picture.
set(root ${FOLDER}/../../../..)
include(${root}/proto/system/embed_pages.cmake)
embed_pages(${OUTPUT} try_page.h try "index.html|${FOLDER}/index.html|text/html" "style.css|${FOLDER}/style.css|text/css" "try.js|${FOLDER}/try.js|text/javascript"
  "draw.js|${root}/picture/draw.js|text/javascript" "penstock.mjs|${root}/client-lib/node/penstock.mjs|text/javascript")
