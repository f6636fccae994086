#include "userspace/counters/expression.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace rocattach {
namespace {

std::optional<double> Value(const std::string& text,
                            const std::map<std::string, double>& values) {
  auto expression = Expression::Parse(text);
  EXPECT_TRUE(expression.ok()) << expression.status();
  if (!expression.ok()) return std::nullopt;
  return expression->Evaluate(
      [&](const std::string& name, Reduction) -> std::optional<double> {
        auto found = values.find(name);
        return found == values.end() ? std::nullopt : std::optional(found->second);
      });
}

TEST(Expression, KeepsThePrecedenceOfArithmetic) {
  EXPECT_EQ(Value("1 + 2 * 3", {}), 7);
  EXPECT_EQ(Value("(1 + 2) * 3", {}), 9);
  EXPECT_EQ(Value("8 / 4 / 2", {}), 1);
  EXPECT_EQ(Value("8 - 4 - 2", {}), 2);
  EXPECT_EQ(Value("-2 * -(3 - 1)", {}), 4);
  EXPECT_EQ(Value("2*a - b/4", {{"a", 3}, {"b", 8}}), 4);
  EXPECT_EQ(Value("1e3 + 0.5", {}), 1000.5);
}

TEST(Expression, TellsReductionsApart) {
  auto expression =
      Expression::Parse("max(A) + min(A) * reduce(A, avr) + A + sum(B,16) + avg(A)");
  ASSERT_TRUE(expression.ok()) << expression.status();
  EXPECT_EQ(expression->names(), (std::vector<std::string>{"A", "B"}));
  const auto value =
      expression->Evaluate([](const std::string& name, Reduction reduction) {
        if (name == "B") return std::optional<double>(10000);
        switch (reduction) {
          case Reduction::kMaximum:
            return std::optional<double>(1000);
          case Reduction::kMinimum:
            return std::optional<double>(2);
          case Reduction::kAverage:
            return std::optional<double>(50);
          default:
            return std::optional<double>(7);
        }
      });
  EXPECT_EQ(value, 1000 + 2 * 50 + 7 + 10000 + 50);
}

TEST(Expression, HasNoValueRatherThanAWrongOne) {
  EXPECT_EQ(Value("1 / 0", {}), std::nullopt);
  EXPECT_EQ(Value("0 / 0", {}), std::nullopt);
  EXPECT_EQ(Value("A + 1", {}), std::nullopt);
}

TEST(Expression, RejectsInvalidExpressions) {
  for (const char* text :
       {"", "1 +", "(1", "1)", "1 2", "foo(A)", "reduce(A)", "reduce(A, median)",
        "sum()", "sum(1)", "sum(A, B)", "A $ B", "1..2", "*3", "sum(A", "sum(A,16"}) {
    EXPECT_FALSE(Expression::Parse(text).ok()) << text;
  }
  EXPECT_FALSE(Expression::Parse(std::string(5000, '1')).ok());
}

TEST(Expression, BoundsItsDepth) {
  EXPECT_TRUE(
      Expression::Parse(std::string(60, '(') + "1" + std::string(60, ')')).ok());
  EXPECT_FALSE(
      Expression::Parse(std::string(2000, '(') + "1" + std::string(2000, ')')).ok());
  EXPECT_FALSE(Expression::Parse(std::string(4000, '-') + "1").ok());
}

TEST(Expression, SaysWhereTheMistakeIs) {
  auto expression = Expression::Parse("A + * B");
  ASSERT_FALSE(expression.ok());
  EXPECT_NE(expression.status().message().find("character 5"), std::string::npos)
      << expression.status();
}

}  // namespace
}  // namespace rocattach
