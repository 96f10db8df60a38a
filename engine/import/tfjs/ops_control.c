#include "import/tfjs/reader.h"
const struct tfjs_row js_rows_control[] = {{NULL, NULL, 0}};
