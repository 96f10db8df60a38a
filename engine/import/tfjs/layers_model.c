#include "import/tfjs/reader.h"
enum pen_status js_layers_model(struct tfjs *r, struct graph *g, const cJSON *root)
{
    (void)g, (void)root;
    return pen_error_set(r->reterr, PEN_ERR_UNSUPPORTED, "layers models are not read by this build");
}
