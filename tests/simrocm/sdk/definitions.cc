#include "tests/simrocm/sdk/definitions.h"

#include <sstream>

namespace simrocm::sdk {
namespace {

struct Line {
  size_t indent = 0;
  bool item = false;  // begins with a dash
  std::string key, value;
};

std::string Trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

Line Split(const std::string& text) {
  Line line;
  line.indent = text.find_first_not_of(' ');
  std::string rest = Trim(text);
  if (rest.rfind("- ", 0) == 0) {
    line.item = true;
    rest = Trim(rest.substr(2));
  }
  const size_t colon = rest.find(':');
  if (colon == std::string::npos) {
    line.value = rest;
  } else {
    line.key = rest.substr(0, colon);
    line.value = Trim(rest.substr(colon + 1));
  }
  return line;
}

bool ReadList(const std::string& text, std::set<std::string>* names) {
  if (text.empty()) return true;
  if (text.front() != '[' || text.back() != ']') return false;
  std::istringstream list(text.substr(1, text.size() - 2));
  for (std::string name; std::getline(list, name, ',');) names->insert(Trim(name));
  return true;
}

}  // namespace

std::optional<std::vector<CounterDefinition>> ParseDefinitions(
    const std::string& yaml) {
  std::vector<CounterDefinition> definitions;
  std::istringstream lines(yaml);
  std::string text, name, description;
  const auto expect = [&](const char* line) {
    return std::getline(lines, text) && text == line;
  };
  if (!expect("rocprofiler-sdk:") || !expect("  counters-schema-version: 1") ||
      !expect("  counters:")) {
    return std::nullopt;
  }
  while (std::getline(lines, text)) {
    if (Trim(text).empty()) return std::nullopt;
    const Line line = Split(text);
    if (line.item && line.indent == 2 && line.key == "name") {
      name = line.value;
      description.clear();
      continue;
    }
    if (name.empty()) return std::nullopt;
    if (line.indent == 4 && line.key == "description") {
      description = line.value;
    } else if (line.indent == 4 &&
               (line.key == "properties" || line.key == "definitions") && !line.item) {
      continue;
    } else if (line.item && line.indent == 4 && line.key == "architectures") {
      definitions.push_back({name, description, "", {}});
      if (!ReadList(line.value, &definitions.back().architectures)) return std::nullopt;
    } else {
      const bool continues = !definitions.empty() && definitions.back().name == name;
      const bool is_item = line.item && line.key.empty();
      if (!continues || line.indent != 6 || (!is_item && line.key != "expression")) {
        return std::nullopt;
      }
      if (is_item) {
        definitions.back().architectures.insert(line.value);
      } else {
        definitions.back().expression = line.value;
      }
    }
  }
  return definitions;
}

}  // namespace simrocm::sdk
