#include "userspace/report/student_t.h"

#include <math.h>

#include <algorithm>
#include <cmath>

namespace rocattach {
namespace {

// lgamma() without its global variable.
double LogGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

// The continued fraction of the incomplete beta function, by Lentz's method.
double BetaFraction(double a, double b, double x) {
  constexpr int kMaxTerms = 500;
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  auto away_from_zero = [&](double value) {
    return std::abs(value) < kTiny ? kTiny : value;
  };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), result = d;
  for (int m = 1; m <= kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    result *= d * c;
    if (std::abs(d * c - 1) < kEnough) break;
  }
  return result;
}

// The regularised incomplete beta function.
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(LogGamma(a + b) - LogGamma(a) - LogGamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  // The fraction converges quickly on this side only.
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

// The part of the distribution above t >= 0.
double Above(double t, double freedom) {
  return IncompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
}

}  // namespace

double StudentQuantile(double probability, double freedom) {
  // From here on the distribution equals the normal one to six digits, and the
  // continued fraction converges slowly.
  freedom = std::min(freedom, 1e6);
  const double wanted = 1 - probability;
  double low = 0, high = 1;
  while (Above(high, freedom) > wanted && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (Above(middle, freedom) > wanted ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace rocattach
