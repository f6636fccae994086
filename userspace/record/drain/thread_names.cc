#include "userspace/record/drain/thread_names.h"

#include <dirent.h>

#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/record/drain/dictionary.h"

namespace rocattach {
namespace {

constexpr size_t kMaxCommBytes = 64;
constexpr size_t kMaxStatusBytes = 8 << 10;
// To find a thread of a process in a pid namespace, all of its tasks are read: at most
// this many per scan, in at most this many scans.
constexpr int kMostTasks = 1024;
constexpr int kMostInnerReads = 16;

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

}  // namespace

void ThreadNames::Look(uint32_t tid) {
  // At most one scan between calls of TakeCost(): other new threads are found later.
  if (!own_namespace_ && cost_ >= kMostTasks * kCostOfLook) return;
  last_ = tid;
  if (tid == 0 || known_.size() >= kMostThreads || !known_.insert(tid).second) return;
  cost_ += kCostOfLook;
  auto name = Read(tid);
  if (!name.has_value() && tid == main_ && !comm_.empty()) name = comm_;
  if (!name.has_value()) return;
  v1::Thread thread;
  thread.set_tid(tid);
  thread.set_name(*std::move(name));
  found_(std::move(thread));
}

void ThreadNames::ReadInnerTids() {
  const std::string tasks = absl::StrCat("/proc/", id_.pid, "/task");
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(tasks.c_str()), closedir);
  if (directory == nullptr) return;
  for (int i = 0; i < kMostTasks; ++i) {
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] == '.') continue;
    cost_ += kCostOfLook;
    std::string task = absl::StrCat(tasks, "/", entry->d_name);
    if (const auto inner = InnerTid(task); inner.has_value()) {
      inner_[*inner] = std::move(task);
    }
  }
}

std::optional<std::string> ThreadNames::Read(uint32_t tid) {
  std::string task = absl::StrCat("/proc/", id_.pid, "/task/", tid);
  if (!own_namespace_) {
    if (!inner_.contains(tid) && inner_reads_ < kMostInnerReads) {
      ++inner_reads_;
      ReadInnerTids();
    }
    const auto found = inner_.find(tid);
    if (found == inner_.end()) return std::nullopt;
    task = found->second;
  }
  auto comm = ReadFile(task + "/comm", kMaxCommBytes);
  if (!comm.ok()) return std::nullopt;
  // The id may be another process's by now.
  auto ticks = ReadStartTicks(id_.pid);
  if (!ticks.ok() || *ticks != id_.start_ticks) return std::nullopt;
  return CleanText(absl::StripSuffix(*comm, "\n"));
}

}  // namespace rocattach
