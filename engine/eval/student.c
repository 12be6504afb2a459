#include "eval/student.h"

#include <math.h>

/* P(T > t) = I_x(degrees / 2, 1 / 2) / 2 at x = degrees / (degrees + t^2) (Abramowitz and Stegun 26.7.1), where I is
 * the regularized incomplete beta function, by its continued fraction (DLMF 8.17.22) evaluated with Lentz's method. */

enum { TERMS_MOST = 1000, HALVINGS = 60, DEGREES_OF_SERIES = 2000 };

static double fraction(double a, double b, double x)
{
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), value = d;
    for (int m = 1; m <= TERMS_MOST; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        value *= c * d;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        const double change = c * d;
        value *= change;
        if (fabs(change - 1) < 1e-16) break;
    }
    return value;
}

/* I_x(a, b), by whichever of x and 1 - x the fraction converges fast for. */
static double incomplete_beta(double a, double b, double x)
{
    const double scale = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return scale * fraction(a, b, x) / a;
    return 1 - scale * fraction(b, a, 1 - x) / b;
}

/* Cornish and Fisher's expansion around the normal quantile (Abramowitz and Stegun 26.7.5); the first term left out is
 * about 20 / degrees^5. */
static double series(double degrees)
{
    const double z = 1.959963984540054, z2 = z * z, v = degrees;
    const double first = z * (z2 + 1) / 4;
    const double second = z * ((5 * z2 + 16) * z2 + 3) / 96;
    const double third = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
    const double fourth = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
    return z + (first + (second + (third + fourth / v) / v) / v) / v;
}

double student_quantile(double degrees)
{
    double low = 1.9, high = 12.8; /* between the normal quantile and that of one degree */
    if (!(degrees >= 1)) return NAN;
    if (degrees >= DEGREES_OF_SERIES) return series(degrees);
    for (int i = 0; i < HALVINGS; i++) {
        const double t = (low + high) / 2;
        if (incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) > 0.05)
            low = t;
        else
            high = t;
    }
    return (low + high) / 2;
}
