#include "tests/integration/watch/attacher.h"

#include <signal.h>
#include <stdlib.h>

#include <filesystem>

#include "absl/strings/str_split.h"

namespace rocattach::testing_support {

using nlohmann::json;

int64_t Printed(const std::string& output, const std::string& key) {
  const size_t at = output.rfind(key + "=");
  return at == std::string::npos ? -1 : atoll(&output[at + key.size() + 1]);
}

Attacher::Attacher(const std::string& file, const std::vector<pid_t>& pids,
                   std::vector<std::string> more) {
  std::vector<std::string> command = {ClientPath(), "attach", "--json", "--collector",
                                      CollectorPath()};
  for (pid_t pid : pids) {
    command.push_back("-p");
    command.push_back(std::to_string(pid));
  }
  command.push_back("-d");
  command.push_back(std::filesystem::path(file).parent_path().string());
  command.push_back("-o");
  command.push_back(std::filesystem::path(file).filename().string());
  command.insert(command.end(), more.begin(), more.end());
  child_ = std::make_unique<Child>(command, Child::Options{.dies_with_us = true});
}

std::vector<json> Attacher::Events(const std::string& name) {
  std::vector<json> events;
  for (absl::string_view line : absl::StrSplit(child_->PollOutput(), '\n')) {
    json event = json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == name) events.push_back(event);
  }
  return events;
}

bool Attacher::Attached(size_t processes) {
  return Saw("attached", processes);
}

bool Attacher::Saw(const std::string& name, size_t count) {
  return Eventually([&] { return Events(name).size() >= count; });
}

Finished Attacher::Stop() {
  child_->Signal(SIGINT);
  return child_->Wait();
}

}  // namespace rocattach::testing_support
