/*
 * math.glsl - functions whose precision Vulkan leaves open (sin has 2^-11, atan 4096 units in the last place), as straight-line code. Errors, relative unless
 * said: exp 2e-7, log 2e-7, tanh 3e-7, sin and cos 2e-7 absolute up to |x| = 1e5, erf 2e-7 absolute. NaN passes through.
 */

/* x = n ln 2 + r with ln 2 in two parts: the first has 15 bits, so n times it is exact. */
float exp_split(float x, out int n)
{
    float f = floor(x * 1.44269504 + 0.5);
    n = int(f);
    return (x - f * 0.693145752) - f * 1.42860677e-6;
}

/* exp(r) - 1 for |r| <= 0.35: Taylor to r^7. */
float expm1_small(float r)
{
    float p = 1.98412698e-4;
    p = p * r + 1.38888889e-3;
    p = p * r + 8.33333333e-3;
    p = p * r + 4.16666667e-2;
    p = p * r + 1.66666667e-1;
    p = p * r + 0.5;
    return p * r * r + r;
}

float pow2i(int n)
{
    return uintBitsToFloat(uint(n + 127) << 23);
}

float exp_f(float x)
{
    int n;
    float r = exp_split(clamp(x, -105.0, 90.0), n);
    int h = n / 2; /* two factors: n reaches beyond both ends of the exponent */
    float y = (expm1_small(r) + 1.0) * pow2i(h) * pow2i(n - h);
    return is_nan(x) ? x : y;
}

float expm1_f(float x)
{
    int n;
    float r = exp_split(clamp(x, -87.0, 88.0), n);
    float s = pow2i(clamp(n, -126, 127));
    float y = expm1_small(r) * s + (s - 1.0);
    y = x > 88.7 ? INFINITY : y;
    return is_nan(x) ? x : y;
}

/* ln x = e ln 2 + 2 atanh((m - 1) / (m + 1)), m in [sqrt 1/2, sqrt 2). */
float log_f(float x)
{
    float tiny = x < 1.17549435e-38 ? 8388608.0 : 1.0;
    uint i = floatBitsToUint(x * tiny);
    int e = int(i - 0x3F3504F3u) >> 23;
    float m = uintBitsToFloat(i - (uint(e) << 23));
    float s = (m - 1.0) / (m + 1.0);
    float q = s * s;
    float p = 0.181818182;
    p = p * q + 0.222222222;
    p = p * q + 0.285714286;
    p = p * q + 0.4;
    p = p * q + 0.666666667;
    float n = float(e) - (tiny > 1.0 ? 23.0 : 0.0);
    float y = n * 0.693145752 + (n * 1.42860677e-6 + (p * q * s + 2.0 * s));
    y = floatBitsToUint(x) == 0x7F800000u ? x : y;
    y = x == 0.0 ? -INFINITY : y;
    return x >= 0.0 ? y : NOT_A_NUMBER;
}

/* ln(1 + x) for x > -1, without losing a small x. */
float log1p_f(float x)
{
    float u = 1.0 + x;
    return abs(x) < 1e-4 ? x * (1.0 - 0.5 * x) : u == 1.0 ? x : log_f(u) + (x - (u - 1.0)) / u;
}

float sigmoid_f(float x)
{
    return 1.0 / (1.0 + exp_f(-x));
}

float tanh_f(float x)
{
    float e = expm1_f(2.0 * clamp(x, -10.0, 10.0));
    float y = e / (e + 2.0);
    return is_nan(x) ? x : y;
}

float sinh_f(float x)
{
    float a = abs(x);
    float e = expm1_f(min(a, 88.0));
    float y = a > 80.0 ? 0.5 * exp_f(0.5 * a) * exp_f(0.5 * a) : 0.5 * (e + e / (e + 1.0));
    y = x < 0.0 ? -y : y;
    return is_nan(x) ? x : y;
}

float cosh_f(float x)
{
    float h = exp_f(0.5 * abs(x));
    return 0.5 * h * h + 0.5 / (h * h);
}

/* |x| < 1: Maclaurin series; beyond: 1 - (polynomial in 1 / (1 + p x)) exp(-x^2), Abramowitz and Stegun 7.1.26. */
float erf_f(float x)
{
    float q = x * x, a = abs(x);
    float s = -1.63658447e-7;
    s = s * q + 1.64624448e-6;
    s = s * q - 1.49256505e-5;
    s = s * q + 1.20553329e-4;
    s = s * q - 8.54832702e-4;
    s = s * q + 5.22397763e-3;
    s = s * q - 2.68661706e-2;
    s = s * q + 1.12837917e-1;
    s = s * q - 3.76126389e-1;
    s = s * q + 1.12837917;
    float t = 1.0 / (1.0 + 0.3275911 * a);
    float f = 1.061405429;
    f = f * t - 1.453152027;
    f = f * t + 1.421413741;
    f = f * t - 0.284496736;
    f = f * t + 0.254829592;
    float far = 1.0 - f * t * exp_f(-q);
    far = x < 0.0 ? -far : far;
    return a < 1.0 ? s * x : is_nan(x) ? x : far;
}

/* x = k pi/2 + r with pi/2 in three parts; *quadrant = k mod 4. */
float quarter_split(float x, out int quadrant)
{
    float k = floor(x * 0.636619772 + 0.5);
    quadrant = int(k) & 3;
    return ((x - k * 1.5703125) - k * 4.83751297e-4) - k * 7.54978995489e-8;
}

float sin_small(float r)
{
    float q = r * r;
    return r + r * q * (-1.66666667e-1 + q * (8.33333333e-3 + q * (-1.98412698e-4 + q * 2.75573192e-6)));
}

float cos_small(float r)
{
    float q = r * r;
    return 1.0 + q * (-0.5 + q * (4.16666667e-2 + q * (-1.38888889e-3 + q * (2.48015873e-5 - q * 2.75573192e-7))));
}

float sin_f(float x)
{
    int k;
    float r = quarter_split(x, k);
    float y = (k & 1) != 0 ? cos_small(r) : sin_small(r);
    return (k & 2) != 0 ? -y : y;
}

float cos_f(float x)
{
    int k;
    float r = quarter_split(x, k);
    float y = (k & 1) != 0 ? sin_small(r) : cos_small(r);
    return k == 1 || k == 2 ? -y : y;
}

/* Two reductions bring |x| below tan(pi/16), where the series is short. */
float atan_f(float x)
{
    float a = abs(x), base = 0.0;
    bool inverted = a > 1.0;
    a = inverted ? 1.0 / a : a;
    if (a > 0.414213562) {
        a = (a - 1.0) / (a + 1.0);
        base = 0.785398163;
    }
    float q = a * a;
    float p = -9.09090909e-2;
    p = p * q + 1.11111111e-1;
    p = p * q - 1.42857143e-1;
    p = p * q + 2.0e-1;
    p = p * q - 3.33333333e-1;
    float y = base + (p * q * a + a);
    y = inverted ? 1.57079633 - y : y;
    y = x < 0.0 ? -y : y;
    return is_nan(x) ? x : y;
}

float asin_f(float x)
{
    return abs(x) > 1.0 ? NOT_A_NUMBER : 2.0 * atan_f(x / (1.0 + sqrt(max(1.0 - x * x, 0.0))));
}

float acos_f(float x)
{
    return abs(x) > 1.0 ? NOT_A_NUMBER : x == -1.0 ? 3.14159265 : 2.0 * atan_f(sqrt((1.0 - x) / (1.0 + x)));
}

float asinh_f(float x)
{
    float a = abs(x);
    float y = a > 1e9 ? log_f(a) + 0.693147181 : log1p_f(a + a * a / (1.0 + sqrt(1.0 + a * a)));
    y = x < 0.0 ? -y : y;
    return is_nan(x) ? x : y;
}

float acosh_f(float x)
{
    float t = x - 1.0;
    return x < 1.0 ? NOT_A_NUMBER : x > 1e9 ? log_f(x) + 0.693147181 : log1p_f(t + sqrt(2.0 * t + t * t));
}

float atanh_f(float x)
{
    return abs(x) > 1.0 ? NOT_A_NUMBER : 0.5 * (log1p_f(x) - log1p_f(-x));
}

float softplus_f(float x)
{
    float y = max(x, 0.0) + log1p_f(exp_f(-abs(x)));
    return is_nan(x) ? x : y;
}

/* x^y as C's pow has it for the cases that models use: negative x only with whole y. */
float pow_f(float x, float y)
{
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (is_nan(x) || is_nan(y)) {
        return NOT_A_NUMBER;
    }
    bool whole = y == floor(y), odd = whole && abs(y) < 16777216.0 && (int(abs(y)) & 1) == 1;
    if (abs(y) <= 4.0 && whole) { /* exact where a product is: squares and cubes abound */
        float a = x, p = 1.0;
        for (int i = 0; i < int(abs(y)); i++) {
            p *= a;
        }
        return y < 0.0 ? 1.0 / p : p;
    }
    if (y == 0.5 && x >= 0.0) {
        return sqrt(x);
    }
    if (x == 0.0) {
        return y < 0.0 ? INFINITY : 0.0;
    }
    if (x < 0.0 && !whole) {
        return NOT_A_NUMBER;
    }
    float z = exp_f(y * log_f(abs(x)));
    return x < 0.0 && odd ? -z : z;
}

/* enum activation of graph/op.h, and VK_ACT_GELU, VK_ACT_GELU_TANH. */
float activate(float x, uint act, float a, float b)
{
    switch (act) {
    case 1: /* clamp; NaN stays NaN */
        return x < a ? a : x > b ? b : x;
    case 2: /* hard swish */
        return x * clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case 3: /* leaky */
        return x < 0.0 ? a * x : x;
    case 4:
        return sigmoid_f(x);
    case 5:
        return tanh_f(x);
    case 6: /* swish */
        return x * sigmoid_f(x);
    case 7:
        return 0.5 * x * (1.0 + erf_f(x * 0.707106781));
    case 8:
        return 0.5 * x * (1.0 + tanh_f(0.797884561 * (x + 0.044715 * x * x * x)));
    default:
        return x;
    }
}
