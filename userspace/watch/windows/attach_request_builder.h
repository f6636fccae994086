// Builds the attach request for a window, with what the kernel knows of its process.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_ATTACH_REQUEST_BUILDER_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_ATTACH_REQUEST_BUILDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bpf/watch_events.h"
#include "injector/attach.h"
#include "injector/elf/file_identity.h"
#include "injector/elf/known_files.h"
#include "injector/process/filesystem_view_cache.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/watch/windows/collector_file.h"
#include "userspace/watch/windows/kernel_probe.h"

namespace rocattach {

struct CollectorOptions {
  // The file that targets load, and the one that is loaded by targets that do not see
  // the first (empty path: none).
  CollectorFile::Choice file, other_file;
  int descriptor = -1;  // sent to targets that see neither; -1: none
  rocattach_collector_config config = {};
  uint64_t memory_bytes =
      0;  // size of the shared memory that the collector creates with this config
};

// Thread-safe. Caches facts about files and directories across attaches; must outlive
// the attaches of its requests.
class AttachRequestBuilder {
 public:
  // `probe` must outlive it.
  AttachRequestBuilder(KernelProbe* probe, CollectorOptions collector,
                       uint32_t stop_timeout_msec)
      : probe_(probe),
        collector_(std::move(collector)),
        stop_timeout_msec_(stop_timeout_msec) {}

  const CollectorOptions& collector() const { return collector_; }
  AttachRequest Build(const rocattach_event& event) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds a library of an earlier service, whose reports are accepted from now on: a
  // forked child that has inherited it may be attached to.
  void AddInheritedLibrary(const FileIdentity& library) ABSL_LOCKS_EXCLUDED(mutex_);
  size_t inherited_libraries() const ABSL_LOCKS_EXCLUDED(mutex_);
  // True for the collector's and inherited libraries; compares device and inode only.
  bool HasCollector(const FileIdentity& library) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds what the kernel knows of the held process: each fact saves reading a file in
  // /proc. `event` must outlive the request.
  void AddKernelFacts(const rocattach_event& event, AttachRequest* request);

 private:
  KernelProbe* const probe_;
  const CollectorOptions collector_;
  const uint32_t stop_timeout_msec_;
  FilesystemViewCache filesystem_views_;
  KnownFiles files_;
  mutable absl::Mutex mutex_;
  std::vector<FileIdentity> inherited_libraries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_ATTACH_REQUEST_BUILDER_H_
