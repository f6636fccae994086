#include "userspace/counters/expression.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kMaxLength = 4096;
constexpr int kMaxDepth = 64;

std::optional<Reduction> ReductionOf(absl::string_view word) {
  if (word == "sum") return Reduction::kSum;
  if (word == "avr" || word == "avg") return Reduction::kAverage;
  if (word == "min") return Reduction::kMinimum;
  if (word == "max") return Reduction::kMaximum;
  return std::nullopt;
}

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

}  // namespace

// Recursive descent: sum := product {(+|-) product}; product := unary {(*|/) unary};
// unary := '-' unary | number | name | call | '(' sum ')'.
class ExpressionParser {
 public:
  explicit ExpressionParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Expression> Run() {
    RETURN_IF_ERROR(Sum(0));
    SkipSpaces();
    if (at_ != text_.size()) return Error("expected an operator");
    return std::move(result_);
  }

 private:
  using Op = Expression::Op;

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("expression \"", text_, "\", character ", at_ + 1, ": ", what));
  }

  void SkipSpaces() {
    while (at_ < text_.size() &&
           absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
      ++at_;
    }
  }

  bool Consume(char c) {
    SkipSpaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::string_view ConsumeWord() {
    SkipSpaces();
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  void Emit(Op op) { result_.steps_.push_back({op, 0, 0, Reduction::kSum}); }

  void EmitName(absl::string_view word, Reduction reduction) {
    auto& names = result_.names_;
    auto found = std::find(names.begin(), names.end(), word);
    const size_t index = static_cast<size_t>(found - names.begin());
    if (found == names.end()) names.emplace_back(word);
    result_.steps_.push_back({Op::kName, 0, index, reduction});
  }

  absl::Status Sum(int depth) {
    if (depth > kMaxDepth) return Error("nested too deeply");
    RETURN_IF_ERROR(Product(depth));
    while (true) {
      if (Consume('+')) {
        RETURN_IF_ERROR(Product(depth));
        Emit(Op::kAdd);
      } else if (Consume('-')) {
        RETURN_IF_ERROR(Product(depth));
        Emit(Op::kSubtract);
      } else {
        return absl::OkStatus();
      }
    }
  }

  absl::Status Product(int depth) {
    RETURN_IF_ERROR(Unary(depth));
    while (true) {
      if (Consume('*')) {
        RETURN_IF_ERROR(Unary(depth));
        Emit(Op::kMultiply);
      } else if (Consume('/')) {
        RETURN_IF_ERROR(Unary(depth));
        Emit(Op::kDivide);
      } else {
        return absl::OkStatus();
      }
    }
  }

  absl::Status Unary(int depth) {
    if (depth > kMaxDepth) return Error("nested too deeply");
    if (Consume('-')) {
      RETURN_IF_ERROR(Unary(depth + 1));
      Emit(Op::kNegate);
      return absl::OkStatus();
    }
    if (Consume('(')) {
      RETURN_IF_ERROR(Sum(depth + 1));
      return Consume(')') ? absl::OkStatus() : Error("expected )");
    }
    const absl::string_view word = ConsumeWord();
    if (word.empty()) return Error("expected a number or a name");
    double number = 0;
    if (absl::ascii_isdigit(static_cast<unsigned char>(word[0])) || word[0] == '.') {
      if (!absl::SimpleAtod(word, &number) || !std::isfinite(number)) {
        return Error("not a number");
      }
      result_.steps_.push_back({Op::kNumber, number, 0, Reduction::kSum});
      return absl::OkStatus();
    }
    if (Consume('(')) return Call(word);
    EmitName(word, Reduction::kSum);
    return absl::OkStatus();
  }

  // Parses what follows "WORD(".
  absl::Status Call(absl::string_view function) {
    std::optional<Reduction> reduction = ReductionOf(function);
    if (!reduction.has_value() && function != "reduce") {
      return Error(absl::StrCat("unknown function ", function,
                                "; there are sum, avr, min, max and reduce"));
    }
    const absl::string_view name = ConsumeWord();
    if (name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) {
      return Error("expected the name of a counter");
    }
    if (Consume(',')) {
      const absl::string_view second = ConsumeWord();
      if (function == "reduce") {
        reduction = ReductionOf(second);
        if (!reduction.has_value()) return Error("expected sum, avr, min or max");
      } else if (double ignored = 0; !absl::SimpleAtod(second, &ignored)) {
        return Error("expected a number of instances");
      }
    } else if (function == "reduce") {
      return Error("expected a comma and sum, avr, min or max");
    }
    if (!Consume(')')) return Error("expected )");
    EmitName(name, *reduction);
    return absl::OkStatus();
  }

  absl::string_view text_;
  size_t at_ = 0;
  Expression result_;
};

absl::StatusOr<Expression> Expression::Parse(absl::string_view text) {
  if (text.size() > kMaxLength) {
    return absl::InvalidArgumentError("expression longer than 4096 characters");
  }
  return ExpressionParser(text).Run();
}

std::optional<double> Expression::Evaluate(const Lookup& lookup) const {
  std::vector<double> stack;
  for (const Step& step : steps_) {
    if (step.op == Op::kNumber) {
      stack.push_back(step.number);
      continue;
    }
    if (step.op == Op::kName) {
      const std::optional<double> value = lookup(names_[step.name], step.reduction);
      if (!value.has_value()) return std::nullopt;
      stack.push_back(*value);
      continue;
    }
    if (step.op == Op::kNegate) {
      stack.back() = -stack.back();
      continue;
    }
    const double right = stack.back();
    stack.pop_back();
    double& left = stack.back();
    switch (step.op) {
      case Op::kAdd:
        left += right;
        break;
      case Op::kSubtract:
        left -= right;
        break;
      case Op::kMultiply:
        left *= right;
        break;
      default:
        left /= right;
        break;
    }
  }
  if (stack.size() != 1 || !std::isfinite(stack.back())) return std::nullopt;
  return stack.back();
}

}  // namespace rocattach
