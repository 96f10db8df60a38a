#include "import/tfjs/reader.h"
const struct tfjs_row js_rows_list[] = {{NULL, NULL, 0}};
