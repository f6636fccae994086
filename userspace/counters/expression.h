// Arithmetic over counters, as in metric definitions: numbers, names, + - * / ( ), and
// sum, avr (or avg), min and max of one counter over its instances. A bare name means
// the sum. The form reduce(NAME, sum) and a second argument as in sum(NAME, 16), the
// number of instances, are accepted; the number is ignored.
#ifndef ROCATTACH_USERSPACE_COUNTERS_EXPRESSION_H_
#define ROCATTACH_USERSPACE_COUNTERS_EXPRESSION_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// The way in which the instances of a counter are reduced to one number.
enum class Reduction { kSum, kAverage, kMinimum, kMaximum };

class Expression {
 public:
  // Value of a name; nullopt when there is none.
  using Lookup = std::function<std::optional<double>(const std::string& name,
                                                     Reduction reduction)>;

  // Refuses expressions longer than 4096 characters or nested deeper than 64. Errors
  // give the character's position.
  static absl::StatusOr<Expression> Parse(absl::string_view text);

  // The names in it, each once, in order of appearance.
  const std::vector<std::string>& names() const { return names_; }

  // nullopt when a name has no value or the result is not a finite number (a division
  // by zero, for example): a metric that is not available is absent, never 0.
  std::optional<double> Evaluate(const Lookup& lookup) const;

 private:
  friend class ExpressionParser;
  enum class Op { kNumber, kName, kAdd, kSubtract, kMultiply, kDivide, kNegate };
  struct Step {
    Op op = Op::kNumber;
    double number = 0;
    size_t name = 0;  // index of names_
    Reduction reduction = Reduction::kSum;
  };
  std::vector<std::string> names_;
  std::vector<Step> steps_;  // in postfix order
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_EXPRESSION_H_
