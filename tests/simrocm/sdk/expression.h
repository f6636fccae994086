// Expressions of derived counters: numbers, names, + - * / ( ),
// reduce(NAME, sum|min|max|avr|avg) and accumulate(NAME, HIGH_RES|LOW_RES|NONE), which
// is the name's value accumulated over time (see counter_truth.h). A name alone means
// all its instances; operators work on them one by one, and a single value can combine
// with any number of instances.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_EXPRESSION_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_EXPRESSION_H_

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace simrocm::sdk {

// The instances of a name; nullopt if there is no such name.
using NameLookup =
    std::function<std::optional<std::vector<double>>(const std::string& name)>;

// The value, one element if it is a single one; nullopt if the expression is malformed,
// names something unknown or mixes different numbers of instances. x / 0 is 0.
std::optional<std::vector<double>> Evaluate(const std::string& expression,
                                            const NameLookup& lookup);

// The names in an expression; nullopt if it is malformed. `known`: true if one exists.
std::optional<std::set<std::string>> NamesIn(
    const std::string& expression,
    const std::function<bool(const std::string&)>& known);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_EXPRESSION_H_
