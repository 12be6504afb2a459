"""Student's t, Holm's correction, Pearson's r, least squares: the few pieces of statistics
that the demo and the study need. Standard library only."""

import functools
import math


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    """Over the number of values less one; None for fewer than two."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(sum((value - centre) ** 2 for value in values) / (len(values) - 1))


def incomplete_beta(a, b, x):
    """Regularized; its continued fraction by Lentz's method (Numerical Recipes, section 6.4)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    fraction, c, d = 1.0, 1.0, 0.0
    for k in range(300):
        m = k // 2
        if k == 0:
            numerator = 1.0
        elif k % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + numerator * d or 1e-300)
        c = 1 + numerator / c or 1e-300
        fraction *= c * d
        if abs(1 - c * d) < 1e-15:
            break
    return front * (fraction - 1)


def two_sided(t, freedom):
    """P(|T| > |t|)."""
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@functools.cache
def quantile(freedom, alpha=0.05):
    """The t that is exceeded in absolute value with probability `alpha`, by bisection."""
    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > alpha else (low, middle)
    return high


def test(values):
    """(mean, low, high, p) of the hypothesis that the mean is zero; the last three None for fewer than two values.
    Values without any spread have a p of 0, or 1 when they are zero."""
    centre, spread = mean(values), deviation(values)
    if spread is None:
        return centre, None, None, None
    freedom, error = len(values) - 1, spread / math.sqrt(len(values))
    half = quantile(freedom) * error
    if error == 0:
        return centre, centre, centre, float(centre == 0)
    return centre, centre - half, centre + half, two_sided(centre / error, freedom)


def holm(values, count):
    """Corrected p values of {name: p} out of a family of `count`; what was not measured counts as not significant."""
    corrected, largest = {}, 0.0
    for rank, (name, p) in enumerate(sorted(values.items(), key=lambda entry: entry[1])):
        largest = max(largest, min(1.0, (count - rank) * p))
        corrected[name] = largest
    return corrected


def pearson(xs, ys):
    """None without spread in either."""
    a, b = mean(xs), mean(ys)
    spread = math.sqrt(sum((x - a) ** 2 for x in xs) * sum((y - b) ** 2 for y in ys))
    return sum((x - a) * (y - b) for x, y in zip(xs, ys)) / spread if spread > 0 else None


def slope(xs, ys):
    a, b = mean(xs), mean(ys)
    return sum((x - a) * (y - b) for x, y in zip(xs, ys)) / sum((x - a) ** 2 for x in xs)


def solve(rows):
    """The solution of linear equations, each [coefficients..., right side]; None where they have no single one."""
    rows = [list(row) for row in rows]
    for place in range(len(rows)):
        pivot = max(range(place, len(rows)), key=lambda k: abs(rows[k][place]))
        rows[place], rows[pivot] = rows[pivot], rows[place]
        if abs(rows[place][place]) < 1e-12:
            return None
        for other in range(len(rows)):
            if other != place:
                share = rows[other][place] / rows[place][place]
                rows[other] = [a - share * b for a, b in zip(rows[other], rows[place])]
    return [row[-1] / row[place] for place, row in enumerate(rows)]


def coefficient(points):
    """Of the first predictor in a regression of y on all of them and a constant, by least squares; points [y,
    predictors...]. None where a predictor follows from the others."""
    middle = [mean(column) for column in zip(*points)]
    columns = list(zip(*([value - centre for value, centre in zip(point, middle)] for point in points)))
    scales = [math.sqrt(sum(value * value for value in column)) for column in columns]
    if min(scales[1:]) == 0:
        return None
    unit = [[value / scale for value in column] for column, scale in zip(columns[1:], scales[1:])]
    products = [[sum(a * b for a, b in zip(one, other)) for other in (*unit, columns[0])] for one in unit]
    solution = solve(products)
    return None if solution is None else solution[0] / scales[1]
