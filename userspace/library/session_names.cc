#include "userspace/library/session_names.h"

#include <iterator>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/demangler.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/library/engine_state.h"
#include "userspace/session/target_names.h"

namespace rocattach {
namespace {

// By TraceRecord::operation_id.
constexpr const char* kDirections[] = {"unknown direction", "host to host",
                                       "host to device", "device to host",
                                       "device to device"};

}  // namespace

absl::StatusOr<std::shared_ptr<TargetNames>> SessionNames::Names(SessionId id,
                                                                 pid_t pid) const {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  std::shared_ptr<TargetNames> names = session->names->Find(pid);
  if (names != nullptr) return names;
  return SessionError(SessionStatus::kInvalidArguments,
                      absl::StrCat(HandleName(id), " has no records of process ", pid));
}

absl::StatusOr<const char*> SessionNames::Keep(SessionId id, std::string text) const {
  absl::MutexLock lock(&state_->mutex);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, state_->Find(id));
  return session->texts.insert(std::move(text)).first->c_str();
}

absl::StatusOr<const char*> SessionNames::Kernel(SessionId session, pid_t pid,
                                                 uint32_t kernel) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<TargetNames> names, Names(session, pid));
  const std::optional<std::string> mangled = names->Kernel(kernel);
  if (!mangled.has_value()) {
    return SessionError(
        SessionStatus::kKernelNotFound,
        absl::StrCat("no name is known of kernel ", kernel, " of process ", pid));
  }
  return Keep(session, Demangler(Demangler::WithoutCache()).Demangle(*mangled));
}

absl::StatusOr<const char*> SessionNames::Operation(SessionId session, pid_t pid,
                                                    TraceDomain domain,
                                                    uint32_t operation) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<TargetNames> names, Names(session, pid));
  std::optional<std::string> name;
  switch (domain) {
    case TraceDomain::kMemoryCopies:
      if (operation < std::size(kDirections)) name = kDirections[operation];
      break;
    case TraceDomain::kHsaApi:
    case TraceDomain::kHipApi:
    case TraceDomain::kMarkers:
    case TraceDomain::kRcclApi:
      name = names->Function(domain, operation);
      break;
    default:
      return SessionError(SessionStatus::kInvalidDomainId,
                          absl::StrCat("domain ", static_cast<int>(domain)));
  }
  if (!name.has_value()) {
    return SessionError(
        SessionStatus::kInvalidOperationId,
        absl::StrCat("no name is known of operation ", operation, " of domain ",
                     static_cast<int>(domain), " of process ", pid));
  }
  return Keep(session, *std::move(name));
}

absl::StatusOr<SessionNames::GpuTexts> SessionNames::Gpu(SessionId session, pid_t pid,
                                                         uint32_t number) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<TargetNames> names, Names(session, pid));
  const std::vector<GpuName> gpus = names->Gpus();
  if (number >= gpus.size()) {
    return SessionError(SessionStatus::kAgentNotFound,
                        absl::StrCat("process ", pid, " has ", gpus.size(),
                                     " GPUs, and none has the number ", number));
  }
  const GpuName& gpu = gpus[number];
  GpuTexts texts = {};
  ASSIGN_OR_RETURN(texts.architecture, Keep(session, gpu.architecture));
  ASSIGN_OR_RETURN(texts.product_name, Keep(session, gpu.product_name));
  ASSIGN_OR_RETURN(texts.uuid, Keep(session, gpu.uuid));
  ASSIGN_OR_RETURN(texts.pci, Keep(session, gpu.pci));
  texts.compute_units = gpu.compute_units;
  return texts;
}

}  // namespace rocattach
