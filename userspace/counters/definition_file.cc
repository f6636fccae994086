#include "userspace/counters/definition_file.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

absl::Status Bad(absl::string_view source, absl::string_view place,
                 absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", place, ": ", what));
}

// One level of a file: `place` is its path in words.
class Section {
 public:
  Section(const Document& node, absl::string_view source, std::string place)
      : node_(node), source_(source), place_(std::move(place)) {}

  absl::Status CheckMap(std::initializer_list<absl::string_view> keys) const {
    if (!node_.is_object())
      return Bad(source_, place_, "expected \"key: value\" lines");
    for (const auto& [key, value] : node_.items()) {
      bool known = false;
      for (absl::string_view k : keys) known = known || k == key;
      if (!known) {
        return Bad(source_, place_,
                   absl::StrCat("unknown key \"", key, "\"; there are ",
                                absl::StrJoin(keys, ", ")));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Text(const char* key, bool required) const {
    auto found = node_.find(key);
    if (found == node_.end()) {
      if (required) return Bad(source_, place_, absl::StrCat("lacks \"", key, "\""));
      return std::string();
    }
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number()) return found->dump();
    return Bad(source_, place_, absl::StrCat("\"", key, "\" must be text"));
  }

  absl::StatusOr<uint32_t> Number(const char* key, uint32_t fallback,
                                  uint32_t limit) const {
    auto found = node_.find(key);
    if (found == node_.end()) return fallback;
    if (!found->is_number_integer() || found->get<int64_t>() < 0 ||
        found->get<int64_t>() > limit) {
      return Bad(source_, place_,
                 absl::StrCat("\"", key, "\" must be a number from 0 to ", limit));
    }
    return static_cast<uint32_t>(found->get<int64_t>());
  }

  absl::StatusOr<std::vector<std::string>> Words(const char* key) const {
    auto found = node_.find(key);
    if (found == node_.end() || !found->is_array() || found->empty()) {
      return Bad(source_, place_, absl::StrCat("needs a list \"", key, "\""));
    }
    std::vector<std::string> words;
    for (const Document& word : *found) {
      if (!word.is_string()) {
        return Bad(source_, place_,
                   absl::StrCat("\"", key, "\" must be a list of words"));
      }
      words.push_back(word.get<std::string>());
    }
    return words;
  }

  absl::StatusOr<bool> Flag(const char* key) const {
    auto found = node_.find(key);
    if (found == node_.end()) return false;
    if (!found->is_boolean()) {
      return Bad(source_, place_, absl::StrCat("\"", key, "\" must be true or false"));
    }
    return found->get<bool>();
  }

 private:
  const Document& node_;
  absl::string_view source_;
  std::string place_;
};

absl::Status ReadBlock(const std::string& name, const Document& node,
                       absl::string_view source, CounterDefinitions& out) {
  const Section section(node, source, absl::StrCat("block ", name));
  RETURN_IF_ERROR(section.CheckMap({"counters", "description"}));
  CounterBlock block;
  block.name = name;
  ASSIGN_OR_RETURN(block.counters, section.Number("counters", 0, 256));
  ASSIGN_OR_RETURN(block.description, section.Text("description", false));
  out.blocks.push_back(std::move(block));
  return absl::OkStatus();
}

absl::Status ReadCounter(const std::string& name, const Document& node,
                         absl::string_view source, CounterDefinitions& out) {
  const std::string place = absl::StrCat("counter ", name);
  const Section section(node, source, place);
  RETURN_IF_ERROR(
      section.CheckMap({"block", "description", "slots", "follows", "made", "since"}));
  HardwareCounter counter;
  counter.name = name;
  ASSIGN_OR_RETURN(counter.block, section.Text("block", true));
  ASSIGN_OR_RETURN(counter.description, section.Text("description", false));
  ASSIGN_OR_RETURN(counter.slots, section.Number("slots", 1, 8));
  ASSIGN_OR_RETURN(counter.follows, section.Flag("follows"));
  ASSIGN_OR_RETURN(counter.made, section.Flag("made"));
  ASSIGN_OR_RETURN(counter.since, section.Text("since", false));
  // Sizes that divide each other: the planner's proof of minimality relies on this.
  if (counter.slots == 0 || (counter.slots & (counter.slots - 1)) != 0) {
    return Bad(source, place, "\"slots\" must be 1, 2, 4 or 8");
  }
  if (counter.follows && counter.slots != 1) {
    return Bad(source, place, "a counter that follows another takes one slot");
  }
  out.counters.push_back(std::move(counter));
  return absl::OkStatus();
}

absl::Status ReadMetric(const std::string& name, const Document& node,
                        absl::string_view source, CounterDefinitions& out) {
  const std::string place = absl::StrCat("metric ", name);
  const Section section(node, source, place);
  RETURN_IF_ERROR(section.CheckMap({"expression", "unit", "description"}));
  DerivedMetric metric;
  metric.name = name;
  ASSIGN_OR_RETURN(metric.text, section.Text("expression", true));
  ASSIGN_OR_RETURN(metric.unit, section.Text("unit", false));
  ASSIGN_OR_RETURN(metric.description, section.Text("description", false));
  auto expression = Expression::Parse(metric.text);
  if (!expression.ok()) return Bad(source, place, expression.status().message());
  metric.expression = *std::move(expression);
  out.metrics.push_back(std::move(metric));
  return absl::OkStatus();
}

absl::StatusOr<CounterGroup> ReadGroup(const std::string& name, const Document& node,
                                       absl::string_view source) {
  const Section section(node, source, absl::StrCat("group ", name));
  RETURN_IF_ERROR(section.CheckMap({"counters", "description"}));
  CounterGroup group;
  group.name = name;
  ASSIGN_OR_RETURN(group.description, section.Text("description", false));
  ASSIGN_OR_RETURN(group.members, section.Words("counters"));
  return group;
}

// Calls `read` for each entry of the map under `key`, if there is one.
template <typename Read>
absl::Status ForEach(const Document& root, const char* key, absl::string_view source,
                     bool names_are_counters, Read read) {
  auto found = root.find(key);
  if (found == root.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_object()) return Bad(source, key, "expected \"name: …\" lines");
  for (const auto& [name, node] : found->items()) {
    if (names_are_counters && !IsCounterName(name)) {
      return Bad(source, key, absl::StrCat("\"", name, "\" is not a counter's name"));
    }
    RETURN_IF_ERROR(read(name, node));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CounterDefinitions>> ReadOwnFormat(
    const Document& root, absl::string_view source) {
  const Section top(root, source, "file");
  RETURN_IF_ERROR(top.CheckMap(
      {"architectures", "blocks", "counters", "metrics", "sets", "sections", "since"}));
  CounterDefinitions out;
  ASSIGN_OR_RETURN(out.architectures, top.Words("architectures"));
  RETURN_IF_ERROR(
      ForEach(root, "since", source, false,
              [&](const std::string& name, const Document& node) -> absl::Status {
                if (!node.is_string()) return Bad(source, "since", "must be texts");
                out.since[name] = node.get<std::string>();
                return absl::OkStatus();
              }));
  RETURN_IF_ERROR(ForEach(root, "blocks", source, true,
                          [&](const std::string& name, const Document& node) {
                            return ReadBlock(name, node, source, out);
                          }));
  RETURN_IF_ERROR(ForEach(root, "counters", source, true,
                          [&](const std::string& name, const Document& node) {
                            return ReadCounter(name, node, source, out);
                          }));
  RETURN_IF_ERROR(ForEach(root, "metrics", source, true,
                          [&](const std::string& name, const Document& node) {
                            return ReadMetric(name, node, source, out);
                          }));
  auto read_groups = [&](const char* key, std::vector<CounterGroup>& groups) {
    return ForEach(root, key, source, false,
                   [&](const std::string& name, const Document& node) -> absl::Status {
                     ASSIGN_OR_RETURN(groups.emplace_back(),
                                      ReadGroup(name, node, source));
                     return absl::OkStatus();
                   });
  };
  RETURN_IF_ERROR(read_groups("sets", out.sets));
  RETURN_IF_ERROR(read_groups("sections", out.sections));
  return std::vector<CounterDefinitions>{std::move(out)};
}

// One definition of rocprofv3's format: a block (and an event, which the SDK knows) or
// an expression, for some architectures.
absl::Status ReadExtraDefinition(const std::string& name,
                                 const std::string& description, const Document& node,
                                 absl::string_view source,
                                 std::vector<CounterDefinitions>& out) {
  const std::string place = absl::StrCat("counter ", name);
  const Section section(node, source, place);
  RETURN_IF_ERROR(section.CheckMap({"architectures", "expression", "block", "event"}));
  CounterDefinitions definitions;
  ASSIGN_OR_RETURN(definitions.architectures, section.Words("architectures"));
  if (node.contains("expression")) {
    DerivedMetric metric;
    metric.name = name;
    metric.description = description;
    ASSIGN_OR_RETURN(metric.text, section.Text("expression", true));
    auto expression = Expression::Parse(metric.text);
    if (!expression.ok()) return Bad(source, place, expression.status().message());
    metric.expression = *std::move(expression);
    definitions.metrics.push_back(std::move(metric));
  } else {
    HardwareCounter counter;
    counter.name = name;
    counter.description = description;
    ASSIGN_OR_RETURN(counter.block, section.Text("block", true));
    definitions.counters.push_back(std::move(counter));
  }
  out.push_back(std::move(definitions));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CounterDefinitions>> ReadExtraCounters(
    const Document& root, absl::string_view source) {
  auto counters = root.find("counters");
  if (counters == root.end() || !counters->is_array()) {
    return Bad(source, "rocprofiler-sdk", "needs a list \"counters\"");
  }
  std::vector<CounterDefinitions> out;
  for (const Document& node : *counters) {
    const Section section(node, source, "rocprofiler-sdk counters");
    RETURN_IF_ERROR(
        section.CheckMap({"name", "description", "properties", "definitions"}));
    ASSIGN_OR_RETURN(const std::string name, section.Text("name", true));
    ASSIGN_OR_RETURN(const std::string description, section.Text("description", false));
    if (!IsCounterName(name)) {
      return Bad(source, "rocprofiler-sdk",
                 absl::StrCat("\"", name, "\" is not a counter's name"));
    }
    auto definitions = node.find("definitions");
    if (definitions == node.end() || !definitions->is_array()) {
      return Bad(source, name, "needs a list \"definitions\"");
    }
    for (const Document& definition : *definitions) {
      RETURN_IF_ERROR(ReadExtraDefinition(name, description, definition, source, out));
    }
  }
  return out;
}

}  // namespace

bool IsCounterName(absl::string_view name) {
  if (name.empty() || name.size() > 63 ||
      absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) {
    return false;
  }
  for (char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

absl::StatusOr<std::vector<CounterDefinitions>> ReadCounterDefinitions(
    const Document& document, absl::string_view source) {
  if (!document.is_object()) {
    return Bad(source, "file",
               "expected a map with \"architectures\" and \"counters\"");
  }
  auto extra = document.find("rocprofiler-sdk");
  if (extra != document.end()) return ReadExtraCounters(*extra, source);
  return ReadOwnFormat(document, source);
}

}  // namespace rocattach
