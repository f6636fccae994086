#include "tests/integration/simrocm/other_tool_report.h"

#include <fstream>
#include <sstream>

namespace rocattach {
namespace {

using Fields = std::map<std::string, std::string>;

Fields ParseFields(std::istream& words) {
  Fields fields;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return fields;
}

uint64_t Number(const Fields& fields, const std::string& name) {
  auto found = fields.find(name);
  return found != fields.end() ? std::stoull(found->second) : 0;
}

void AddLine(const std::string& kind, const Fields& fields, OtherToolReport* report) {
  const OtherToolReport::Sums sums = {
      Number(fields, "dispatches") + Number(fields, "copies"), Number(fields, "timed"),
      Number(fields, "ns"), Number(fields, "bytes")};
  if (kind == "queue") {
    report->dispatches[{Number(fields, "id"), fields.at("kernel")}] = sums;
  } else if (kind == "copy") {
    report->copies[fields.at("direction")] = sums;
  } else if (kind == "call") {
    report->calls[fields.at("name")] = Number(fields, "calls");
  } else if (kind == "total") {
    report->complete = true;
    for (const auto& [name, value] : fields) report->total[name] = std::stoull(value);
  }
}

}  // namespace

uint64_t OtherToolReport::Total(const std::string& name) const {
  auto found = total.find(name);
  return found != total.end() ? found->second : 0;
}

uint64_t OtherToolReport::TimedDispatches() const {
  uint64_t timed = 0;
  for (const auto& [key, sums] : dispatches) timed += sums.timed;
  return timed;
}

uint64_t OtherToolReport::TimedCopies() const {
  uint64_t timed = 0;
  for (const auto& [key, sums] : copies) timed += sums.timed;
  return timed;
}

OtherToolReport ReadOtherToolReport(const std::string& path) {
  OtherToolReport report;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    AddLine(kind, ParseFields(words), &report);
  }
  return report;
}

}  // namespace rocattach
