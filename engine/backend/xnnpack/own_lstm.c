#include "backend/lstm_fixed_row.h"
#include "backend/xnnpack/own_vec.h"

/* One step of one sample of LSTMInteger. */
void OWN(own_lstm)(const struct lstm_fixed *l, const int32_t *x, const int32_t *h, int16_t *cell, int8_t *y,
                   int16_t *scratch)
{
    lstm_row(l, x, h, cell, y, scratch);
}
