#include "tests/simrocm/sdk/expression.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <numeric>

#include "tests/simrocm/counter_truth.h"

namespace simrocm::sdk {
namespace {

using Value = std::optional<std::vector<double>>;

Value Single(double value) {
  return std::vector<double>(1, value);
}

// Recursive descent; the depth is bounded, because tools may create counters.
class Parser {
 public:
  Parser(const std::string& text, const NameLookup& lookup)
      : text_(text), lookup_(lookup) {}

  Value Parse() {
    Value value = Sum();
    SkipBlanks();
    return position_ == text_.size() ? value : std::nullopt;
  }

 private:
  void SkipBlanks() {
    while (position_ < text_.size() &&
           isspace(static_cast<unsigned char>(text_[position_]))) {
      ++position_;
    }
  }

  bool Consume(char c) {
    SkipBlanks();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  std::string Name() {
    SkipBlanks();
    size_t start = position_;
    while (position_ < text_.size() &&
           (isalnum(static_cast<unsigned char>(text_[position_])) ||
            text_[position_] == '_')) {
      ++position_;
    }
    return text_.substr(start, position_ - start);
  }

  static Value Combine(const Value& a, const Value& b, char operation) {
    if (!a || !b) return std::nullopt;
    if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return std::nullopt;
    std::vector<double> result(std::max(a->size(), b->size()));
    for (size_t i = 0; i < result.size(); ++i) {
      double x = (*a)[a->size() == 1 ? 0 : i], y = (*b)[b->size() == 1 ? 0 : i];
      switch (operation) {
        case '+':
          result[i] = x + y;
          break;
        case '-':
          result[i] = x - y;
          break;
        case '*':
          result[i] = x * y;
          break;
        default:
          result[i] = y == 0 ? 0 : x / y;
      }
    }
    return result;
  }

  Value Sum() {
    Value value = Product();
    for (;;) {
      if (Consume('+')) {
        value = Combine(value, Product(), '+');
      } else if (Consume('-')) {
        value = Combine(value, Product(), '-');
      } else {
        return value;
      }
    }
  }

  Value Product() {
    Value value = Atom();
    for (;;) {
      if (Consume('*')) {
        value = Combine(value, Atom(), '*');
      } else if (Consume('/')) {
        value = Combine(value, Atom(), '/');
      } else {
        return value;
      }
    }
  }

  Value Reduce() {
    if (!Consume('(')) return std::nullopt;
    Value value = Sum();
    if (!value || value->empty() || !Consume(',')) return std::nullopt;
    std::string how = Name();
    if (!Consume(')')) return std::nullopt;
    double sum = std::accumulate(value->begin(), value->end(), 0.0);
    if (how == "sum") return Single(sum);
    if (how == "avr" || how == "avg") {
      return Single(sum / static_cast<double>(value->size()));
    }
    if (how == "min") return Single(*std::min_element(value->begin(), value->end()));
    if (how == "max") return Single(*std::max_element(value->begin(), value->end()));
    return std::nullopt;
  }

  Value Accumulate() {
    if (!Consume('(')) return std::nullopt;
    Value value = lookup_(Name());
    if (!value || !Consume(',')) return std::nullopt;
    const std::string how = Name();
    if (!Consume(')')) return std::nullopt;
    if (how == "HIGH_RES") return Combine(value, Single(kAccumulatedHighRes), '*');
    if (how == "LOW_RES") return Combine(value, Single(kAccumulatedLowRes), '*');
    return how == "NONE" ? value : std::nullopt;
  }

  Value Atom() {
    if (++depth_ > 64) return std::nullopt;
    Value value = AtomInside();
    --depth_;
    return value;
  }

  Value AtomInside() {
    if (Consume('(')) {
      Value value = Sum();
      return Consume(')') ? value : std::nullopt;
    }
    SkipBlanks();
    if (position_ >= text_.size()) return std::nullopt;
    if (isdigit(static_cast<unsigned char>(text_[position_]))) {
      char* end = nullptr;
      double number = strtod(text_.c_str() + position_, &end);
      position_ = static_cast<size_t>(end - text_.c_str());
      return Single(number);
    }
    std::string name = Name();
    if (name.empty()) return std::nullopt;
    if (name == "accumulate") return Accumulate();
    return name == "reduce" ? Reduce() : lookup_(name);
  }

  const std::string& text_;
  const NameLookup& lookup_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::vector<double>> Evaluate(const std::string& expression,
                                            const NameLookup& lookup) {
  return Parser(expression, lookup).Parse();
}

std::optional<std::set<std::string>> NamesIn(
    const std::string& expression,
    const std::function<bool(const std::string&)>& known) {
  std::set<std::string> names;
  bool parsed = Evaluate(expression, [&](const std::string& name) -> Value {
                  if (!known(name)) return std::nullopt;
                  names.insert(name);
                  return Single(1.0);
                }).has_value();
  if (!parsed) return std::nullopt;
  return names;
}

}  // namespace simrocm::sdk
