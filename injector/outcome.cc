#include "injector/outcome.h"

namespace rocattach {

absl::string_view AttachStageName(AttachStage stage) {
  switch (stage) {
    case AttachStage::kCheck:
      return "check";
    case AttachStage::kSeize:
      return "seize";
    case AttachStage::kStop:
      return "stop";
    case AttachStage::kResolve:
      return "resolve";
    case AttachStage::kWrite:
      return "write";
    case AttachStage::kRedirect:
      return "redirect";
    case AttachStage::kRelease:
      return "release";
    case AttachStage::kReport:
      return "report";
    case AttachStage::kDone:
      return "done";
  }
  return "unknown";
}

}  // namespace rocattach
