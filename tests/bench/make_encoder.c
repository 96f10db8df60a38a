/* make_encoder.c - writes the MiniLM-shaped encoder that tests/bench/encoder_vs_ort.sh times. Usage: make_encoder FILE */
#include <stdio.h>

#include "encoder.h"

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_encoder FILE\n");
        return 2;
    }
    encoder_write(&encoder_minilm, argv[1]);
    return 0;
}
