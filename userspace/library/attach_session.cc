#include "userspace/library/attach_session.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/clock.h"
#include "userspace/library/attach_log.h"

namespace rocattach {
namespace {

uint64_t DeadlineIn(uint32_t msec) {
  return ClockNs(CLOCK_MONOTONIC) + uint64_t{msec} * 1'000'000;
}

}  // namespace

void AttachSession::HandleNotAttached(const RecorderEvent& event) {
  const rocattach_status_t status = StatusOfReason(event.reason);
  if (event.pid == root_) {
    root_status_ = status;
    AttachLog(AttachLogLevel::kError, event.detail);
  } else if (event.reason == "no-runtime") {
    AttachLog(AttachLogLevel::kWarning,
              absl::StrCat(event.detail, "; it is attached to when it does"));
  } else if (event.reason == "no-listener") {
    AttachLog(AttachLogLevel::kWarning, absl::StrCat(event.detail, "; it is left out"));
  } else {
    other_status_ = status;
    AttachLog(AttachLogLevel::kError, event.detail);
  }
}

void AttachSession::Handle(const std::string& line) {
  AttachLog(AttachLogLevel::kTrace, line);
  auto event = ParseRecorderEvent(line);
  if (!event.ok()) {
    if (garbled_++ == 0) {
      AttachLog(AttachLogLevel::kWarning,
                "the recorder printed something that is no event");
    }
    return;
  }
  using Kind = RecorderEvent::Kind;
  switch (event->kind) {
    case Kind::kAttached:
      attached_.insert(event->pid);
      AttachLog(AttachLogLevel::kInfo,
                absl::StrCat("attached to process ", event->pid));
      break;
    case Kind::kNotAttached:
      HandleNotAttached(*event);
      break;
    case Kind::kSessionRefused:
      AttachLog(
          AttachLogLevel::kWarning,
          absl::StrCat("process ", event->pid,
                       " is recorded without what it cannot give: ", event->reason));
      break;
    case Kind::kReady:
      ready_ = true;
      break;
    case Kind::kFailed:
      root_status_ = StatusOfReason(event->reason);
      // The lines after the first are texts of other libraries; level trace has them.
      AttachLog(AttachLogLevel::kError,
                event->detail.substr(0, event->detail.find('\n')));
      break;
    case Kind::kResult:
      if (event->lost != 0) {
        AttachLog(AttachLogLevel::kWarning,
                  absl::StrCat("of process ", event->pid, ", ", event->lost,
                               " records were lost; rocattach report shows why"));
      }
      break;
    case Kind::kEnd:
      ended_ = true;
      output_error_ = event->output_error;
      if (!event->files.empty()) {
        AttachLog(AttachLogLevel::kInfo,
                  absl::StrCat(attached_.empty()
                                   ? "nothing was recorded; the verdicts are in "
                                   : "recorded in ",
                               absl::StrJoin(event->files, ", ")));
      }
      break;
    case Kind::kOther:
      break;
  }
}

std::string AttachSession::Errors() {
  const std::string text = recorder_->Errors();
  return text.empty() ? "" : absl::StrCat(": ", text);
}

rocattach_status_t AttachSession::Attach(const std::string& program,
                                         const std::vector<std::string>& options,
                                         uint32_t duration_msec) {
  std::vector<std::string> arguments = {"attach", "--json", "--detach-on-eof",
                                        absl::StrCat("--pid=", root_)};
  // The API call decides these; the variables with the same meaning are for commands.
  arguments.push_back(tree_ ? "--attach-children" : "--attach-children=false");
  arguments.push_back(absl::StrCat("--attach-duration-msec=", duration_msec));
  arguments.insert(arguments.end(), options.begin(), options.end());
  auto recorder = AttachCommand::Start(program, arguments);
  if (!recorder.ok()) {
    AttachLog(AttachLogLevel::kError, recorder.status().message());
    return ROCATTACH_STATUS_ERROR;
  }
  recorder_ = *std::move(recorder);
  const uint64_t deadline = DeadlineIn(limits_.attach_msec);
  absl::Status stop = absl::UnknownError("the recorder does not mention it");
  while (!ready_) {
    auto line = recorder_->ReadLine(deadline);
    if (!line.ok()) {
      stop = line.status();
      break;
    }
    Handle(*line);
  }
  // A recording that has ended during its attach was attached nevertheless.
  if (Has(root_)) return other_status_;
  attached_.clear();
  End();
  if (root_status_ != ROCATTACH_STATUS_SUCCESS) return root_status_;
  AttachLog(AttachLogLevel::kError,
            absl::StrCat("process ", root_, " was not attached to: ", stop.message(),
                         Errors()));
  return ROCATTACH_STATUS_ERROR;
}

void AttachSession::End() {
  recorder_->RequestEnd();
  if (recorder_->WaitForEnd(DeadlineIn(limits_.end_msec))) return;
  AttachLog(AttachLogLevel::kError,
            absl::StrCat("the recorder (process ", recorder_->pid(),
                         ") does not end and is killed"));
  recorder_->Kill();
  (void)recorder_->WaitForEnd(DeadlineIn(limits_.end_msec));
}

rocattach_status_t AttachSession::Detach() {
  RequestEnd();
  const uint64_t deadline = DeadlineIn(limits_.detach_msec);
  absl::Status stop;
  while (true) {
    auto line = recorder_->ReadLine(deadline);
    if (!line.ok()) {
      stop = line.status();
      break;
    }
    Handle(*line);
  }
  if (absl::IsDeadlineExceeded(stop)) {
    recorder_->Kill();
  } else if (!ended_) {
    // Without its output, only its exit shows that the file is complete.
    (void)recorder_->WaitForEnd(deadline);
  }
  End();
  if (!ended_) {
    AttachLog(AttachLogLevel::kError,
              absl::StrCat("the recording of process ", root_,
                           " has ended without a report: ", stop.message(), Errors()));
    return ROCATTACH_STATUS_ERROR;
  }
  if (!output_error_.empty()) {
    // The recorder's messages on standard error name the files.
    AttachLog(AttachLogLevel::kError,
              absl::StrCat("the recording of process ", root_,
                           " is incomplete: ", output_error_, Errors()));
    return ROCATTACH_STATUS_ERROR;
  }
  return ROCATTACH_STATUS_SUCCESS;
}

}  // namespace rocattach
