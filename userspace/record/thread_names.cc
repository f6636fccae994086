#include "userspace/record/thread_names.h"

#include <dirent.h>

#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/record/dictionary.h"

namespace rocattach {
namespace {

constexpr size_t kMaxCommBytes = 64;
constexpr size_t kMaxStatusBytes = 8 << 10;
// Of a process in a pid namespace, every task is looked at to find one.
constexpr int kMostTasks = 4096;

// The last number of the line NSpid: the id in the innermost namespace.
std::optional<uint32_t> InnerTid(const std::string& task) {
  auto status = ReadFile(task + "/status", kMaxStatusBytes);
  if (!status.ok()) return std::nullopt;
  for (absl::string_view line : absl::StrSplit(*status, '\n')) {
    if (!absl::ConsumePrefix(&line, "NSpid:")) continue;
    const size_t last = line.find_last_of(" \t");
    uint32_t tid = 0;
    if (last != absl::string_view::npos &&
        absl::SimpleAtoi(line.substr(last + 1), &tid)) {
      return tid;
    }
  }
  return std::nullopt;
}

// The directory of the task with this id in its own namespace; empty if there is none.
std::string FindTask(const std::string& tasks, uint32_t tid) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(tasks.c_str()), closedir);
  if (directory == nullptr) return "";
  for (int i = 0; i < kMostTasks; ++i) {
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] == '.') continue;
    std::string task = absl::StrCat(tasks, "/", entry->d_name);
    if (InnerTid(task) == tid) return task;
  }
  return "";
}

}  // namespace

void ThreadNames::Look(uint32_t tid) {
  last_ = tid;
  if (tid == 0 || noted_.size() >= kMostThreads || !noted_.insert(tid).second) return;
  auto name = Read(tid);
  if (!name.has_value() && tid == main_ && !comm_.empty()) name = comm_;
  if (!name.has_value()) return;
  v1::Thread thread;
  thread.set_tid(tid);
  thread.set_name(*std::move(name));
  found_(std::move(thread));
}

std::optional<std::string> ThreadNames::Read(uint32_t tid) const {
  const std::string tasks = absl::StrCat("/proc/", id_.pid, "/task");
  const std::string task =
      own_namespace_ ? absl::StrCat(tasks, "/", tid) : FindTask(tasks, tid);
  if (task.empty()) return std::nullopt;
  auto comm = ReadFile(task + "/comm", kMaxCommBytes);
  if (!comm.ok()) return std::nullopt;
  // The id may be another process's by now.
  auto ticks = ReadStartTicks(id_.pid);
  if (!ticks.ok() || *ticks != id_.start_ticks) return std::nullopt;
  return CleanText(absl::StripSuffix(*comm, "\n"));
}

}  // namespace rocattach
