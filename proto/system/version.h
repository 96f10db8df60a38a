/* version.h - what --version, hellos and provenance say. */
#ifndef VERSION_H
#define VERSION_H

#define PENSTOCK_VERSION  "0.1.0"
#define PENSTOCK_SOFTWARE "penstock " PENSTOCK_VERSION

/* One line: version, compiler, build type, sanitizers. */
const char *version_build(void);

#endif
