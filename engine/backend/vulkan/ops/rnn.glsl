/* rnn.glsl - activations of recurrent cells by number: rnn.c has the names. */
float gate(uint kind, float x, float a, float b)
{
    switch (kind) {
    case 0:
        return sigmoid_f(x);
    case 1:
        return tanh_f(x);
    case 2:
        return x < 0.0 ? 0.0 : x;
    case 3:
        return clamp(a * x + b, 0.0, 1.0);
    case 4:
        return x < 0.0 ? a * x : x;
    case 5:
        return x < 0.0 ? a * expm1_f(x) : x;
    case 6:
        return x / (1.0 + abs(x));
    default:
        return softplus_f(x);
    }
}
