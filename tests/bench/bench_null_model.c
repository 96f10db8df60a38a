/* bench_null_model DIR - writes DIR/null/1/model.onnx, one Identity on uint8 [N, 1024], and its config.json. */
#include <stdio.h>
#include <string.h>

#include "folder.h"
#include "onnx_file.h"
#include "process.h"

int main(int argc, char **argv)
{
    char path[1024];
    const char *config = "{\"platform\": \"onnx\", \"max_batch_size\": 64}\n";
    if (argc != 2 || strlen(argv[1]) > 900) {
        support_fail("usage: bench_null_model DIR");
    }
    snprintf(path, sizeof path, "%s/null/1", argv[1]);
    folder_make(path);
    snprintf(path, sizeof path, "%s/null/1/model.onnx", argv[1]);
    onnx_write_identity(path);
    snprintf(path, sizeof path, "%s/null/config.json", argv[1]);
    file_write(path, config, strlen(config));
    return 0;
}
