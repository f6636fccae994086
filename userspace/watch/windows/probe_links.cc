#include "userspace/watch/windows/probe_links.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/task_thread.h"
#include "userspace/watch/windows/kernel_programs.h"

namespace rocattach {
namespace {

// BPF_LINK_CREATE of a probe without a perf event, which libbpf 1.1 and the headers of
// Linux 6.1 do not know: include/uapi/linux/bpf.h, from Linux 6.6 on.
struct MultiLinkAttributes {
  uint32_t prog_fd;
  uint32_t target_fd;
  uint32_t attach_type;
  uint32_t flags;
  uint64_t path;
  uint64_t offsets;
  uint64_t ref_ctr_offsets;
  uint64_t cookies;
  uint32_t count;
  uint32_t uprobe_flags;
  uint32_t pid;  // 0: every process
  uint32_t pad;
};
constexpr size_t kMultiLinkBytes = offsetof(MultiLinkAttributes, pad);

// Returns the link, or -1 with errno set.
int AttachMulti(const bpf_program* program, const char* path,
                const std::vector<uint64_t>& offsets, uint64_t cookie, pid_t pid = 0) {
  const std::vector<uint64_t> cookies(offsets.size(), cookie);
  MultiLinkAttributes attributes = {};
  attributes.prog_fd = static_cast<uint32_t>(bpf_program__fd(program));
  attributes.attach_type = kUprobeMultiAttachType;
  attributes.path = reinterpret_cast<uint64_t>(path);
  attributes.offsets = reinterpret_cast<uint64_t>(offsets.data());
  attributes.cookies = reinterpret_cast<uint64_t>(cookies.data());
  attributes.count = static_cast<uint32_t>(offsets.size());
  attributes.pid = static_cast<uint32_t>(pid);
  return static_cast<int>(
      syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, kMultiLinkBytes));
}

// Maximum number of probes that are removed at the same time.
constexpr size_t kDetachThreads = 32;

void Destroy(const std::vector<bpf_link*>& links, std::vector<UniqueFd> multi) {
  std::atomic<size_t> next = 0;
  const size_t count = links.size() + multi.size();
  auto work = [&links, &multi, &next, count] {
    for (size_t i = next++; i < count; i = next++) {
      if (i < links.size()) {
        bpf_link__destroy(links[i]);
      } else {
        multi[i - links.size()].reset();
      }
    }
  };
  std::vector<TaskThread> threads;
  for (size_t i = 0; i + 1 < std::min(count, kDetachThreads); ++i) {
    threads.emplace_back(/*priority=*/0, "rwa-detach", work);
  }
  work();
  for (TaskThread& thread : threads) thread.join();
}

// A status with errno and the function that has no probe.
absl::Status UprobeError(const std::string& path, uint64_t offset) {
  return ErrnoStatus(
      errno, absl::StrCat("uprobe on ", path, "+0x", absl::Hex(offset), " failed"));
}

}  // namespace

ProbeLinks::~ProbeLinks() {
  std::vector<bpf_link*> links;
  std::vector<UniqueFd> multi;
  {
    absl::MutexLock lock(&mutex_);
    links = std::move(permanent_);
    for (auto [cookie, link] : libraries_) links.push_back(link);
    for (auto& [cookie, fd] : multi_libraries_) multi.push_back(std::move(fd));
  }
  for (auto& [pid, late] : late_) links.insert(links.end(), late.begin(), late.end());
  for (auto& [pid, fds] : multi_late_) {
    for (UniqueFd& link : fds) multi.push_back(std::move(link));
  }
  Destroy(links, std::move(multi));
}

absl::Status ProbeLinks::AddTracepoint(const bpf_program* program) {
  bpf_link* link = bpf_program__attach(program);
  if (link == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("attaching ", bpf_program__name(program),
                                           " to its raw tracepoint failed"));
  }
  absl::MutexLock lock(&mutex_);
  permanent_.push_back(link);
  return absl::OkStatus();
}

absl::Status ProbeLinks::AddUprobe(const bpf_program* program, const std::string& path,
                                   uint64_t file_offset) {
  bpf_link* link = bpf_program__attach_uprobe(program, /*retprobe=*/false, /*pid=*/-1,
                                              path.c_str(), file_offset);
  if (link == nullptr) return UprobeError(path, file_offset);
  absl::MutexLock lock(&mutex_);
  permanent_.push_back(link);
  return absl::OkStatus();
}

absl::Status ProbeLinks::AddLibrary(const bpf_program* program, const std::string& path,
                                    uint64_t file_offset, uint64_t cookie) {
  if (multi_) {
    UniqueFd link(AttachMulti(program, path.c_str(), {file_offset}, cookie));
    if (!link.valid()) return UprobeError(path, file_offset);
    absl::MutexLock lock(&mutex_);
    multi_libraries_[cookie] = std::move(link);
    return absl::OkStatus();
  }
  DECLARE_LIBBPF_OPTS(bpf_uprobe_opts, options);
  if (cookies_) options.bpf_cookie = cookie;
  bpf_link* link = bpf_program__attach_uprobe_opts(program, /*pid=*/-1, path.c_str(),
                                                   file_offset, &options);
  if (link == nullptr) return UprobeError(path, file_offset);
  absl::MutexLock lock(&mutex_);
  libraries_[cookie] = link;
  return absl::OkStatus();
}

void ProbeLinks::RemoveLibraries(const std::vector<uint64_t>& cookies) {
  std::vector<bpf_link*> links;
  std::vector<UniqueFd> multi;
  {
    absl::MutexLock lock(&mutex_);
    for (uint64_t cookie : cookies) {
      if (auto link = multi_libraries_.extract(cookie); !link.empty()) {
        multi.push_back(std::move(link.mapped()));
      }
      if (auto link = libraries_.extract(cookie); !link.empty()) {
        links.push_back(link.mapped());
      }
    }
  }
  Destroy(links, std::move(multi));
}

// Some kernels from 6.6 to 6.9 filter for the first thread instead of the process: then
// a process whose other threads call the runtime appears to be idle.
absl::Status ProbeLinks::AddLate(const bpf_program* program, const ProcessId& process,
                                 const std::string& path,
                                 const std::vector<uint64_t>& file_offsets,
                                 uint64_t cookie) {
  if (multi_) {
    UniqueFd link(
        AttachMulti(program, path.c_str(), file_offsets, cookie, process.pid));
    if (!link.valid()) {
      return ErrnoStatus(errno, absl::StrCat("uprobes on ", path, " of process ",
                                             process.pid, " failed"));
    }
    absl::MutexLock lock(&mutex_);
    multi_late_[process].push_back(std::move(link));
    return absl::OkStatus();
  }
  absl::Status first_error;
  for (uint64_t offset : file_offsets) {
    DECLARE_LIBBPF_OPTS(bpf_uprobe_opts, options);
    options.bpf_cookie = cookie;
    bpf_link* link = bpf_program__attach_uprobe_opts(program, process.pid, path.c_str(),
                                                     offset, &options);
    if (link == nullptr) {
      first_error.Update(
          ErrnoStatus(errno, absl::StrCat("uprobe on ", path, "+0x", absl::Hex(offset),
                                          " of process ", process.pid, " failed")));
      continue;
    }
    absl::MutexLock lock(&mutex_);
    late_[process].push_back(link);
  }
  absl::MutexLock lock(&mutex_);
  return late_.count(process) > 0 ? absl::OkStatus() : first_error;
}

void ProbeLinks::RemoveLate(const std::vector<ProcessId>& processes) {
  std::vector<bpf_link*> links;
  std::vector<UniqueFd> multi;
  {
    absl::MutexLock lock(&mutex_);
    for (const ProcessId& process : processes) {
      if (auto late = multi_late_.extract(process); !late.empty()) {
        for (UniqueFd& link : late.mapped()) multi.push_back(std::move(link));
      }
      auto found = late_.find(process);
      if (found == late_.end()) continue;
      links.insert(links.end(), found->second.begin(), found->second.end());
      late_.erase(found);
    }
  }
  Destroy(links, std::move(multi));
}

}  // namespace rocattach
