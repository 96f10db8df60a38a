#include "import/tflite/reader.h"
#include "support_names.h"

const char *support_lite(uint32_t index)
{
    uint32_t builtins = 0;
    while (tflite_row_at(builtins))
        builtins++;
    if (index >= builtins)
        return tflite_custom_at(index - builtins);
    return tflite_row_at(index)->lower ? tflite_row_at(index)->name : "";
}
