#include "userspace/cli/why_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "userspace/cli/attach_words.h"
#include "userspace/report/report_words.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

// "  NAME VALUE"; nothing for an empty value.
void AddLine(absl::string_view name, absl::string_view value, std::string* text) {
  if (!value.empty()) {
    absl::StrAppend(text, "  ", name, " ", TerminalSafe(value), "\n");
  }
}

std::string EndOf(const v1::ProcessLife& life) {
  if (life.has_end()) return EndText(life.end());
  return life.running() ? "running" : "not running, or its end was not seen";
}

std::string VerdictText(const v1::WindowEvent& verdict,
                        const v1::ClockSnapshot& clock) {
  std::string text = ShortName(verdict.state());
  if (verdict.reason() != v1::ATTACH_REASON_NONE) {
    absl::StrAppend(&text, " (", ReasonName(verdict.reason()), ")");
  }
  if (const std::string time = WallTime(clock, verdict.time_ns()); !time.empty()) {
    absl::StrAppend(&text, " at ", time);
  }
  if (verdict.state() == v1::WINDOW_STATE_ATTACHED) {
    absl::StrAppend(&text, ", ", StopText(verdict));
  }
  if (!verdict.detail().empty()) absl::StrAppend(&text, ": ", verdict.detail());
  return text;
}

// The meaning of a reason of missed_windows, and what can be done.
std::string MissText(absl::string_view reason) {
  if (reason == "late") {
    return "it had started its runtime before that copy had a probe, and was entered "
           "later if that was possible. Name the copy with --library, so that it has a "
           "probe from the start";
  }
  if (reason == "uncertain") {
    return "it mapped a new copy of the runtime, and ended before it was known whether "
           "it used it. Name the copy with --library";
  }
  if (reason == "too_many_copies") {
    return "its copy of the runtime has no probe, because there are too many copies: "
           "raise --max-libraries or --max-libraries-per-user";
  }
  if (reason == "not_probed") {
    return "it mapped a file that is named like the runtime and cannot be probed: "
           "'rocattach doctor --library FILE' says why";
  }
  if (reason == "unknown_copy") {
    return "the kernel driver says that it uses GPUs (/dev/kfd), and no copy of the "
           "runtime was seen in it: that is linked statically, or its file has another "
           "name. Name the file with --library";
  }
  return std::string(reason);
}

std::string WorkloadText(const v1::Workload& workload) {
  std::string text;
  const auto add = [&text](absl::string_view name, const std::string& value) {
    if (value.empty()) return;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", value);
  };
  add("namespace", workload.kube_namespace());
  add("pod", workload.pod());
  add("pod uid", workload.pod_uid());
  add("container", workload.container());
  add("container id", workload.container_id());
  add("node", workload.node());
  add("Slurm job", workload.slurm_job());
  add("step", workload.slurm_step());
  add("of array", workload.slurm_array_job());
  add("task", workload.slurm_array_task());
  return text;
}

}  // namespace

bool WasAttached(const v1::ProcessLife& life) {
  for (const v1::WindowEvent& verdict : life.verdicts()) {
    if (verdict.state() == v1::WINDOW_STATE_ATTACHED) return true;
  }
  return false;
}

std::string LifeText(const v1::ProcessLife& life, const v1::ClockSnapshot& clock) {
  const v1::Process& process = life.process();
  std::string text = absl::StrCat("process ", process.pid());
  if (!process.comm().empty()) {
    absl::StrAppend(&text, " (", TerminalSafe(process.comm()), ")");
  }
  if (const std::string time = WallTime(clock, process.start_ns()); !time.empty()) {
    absl::StrAppend(&text, ", started at ", time);
  }
  absl::StrAppend(&text, ": ", EndOf(life), "\n");
  AddLine("executable:", process.executable(), &text);
  AddLine("runtime:   ", process.hsa_library(), &text);
  AddLine("workload:  ", WorkloadText(life.workload()), &text);
  for (const v1::WindowEvent& verdict : life.verdicts()) {
    AddLine("verdict:   ", VerdictText(verdict, clock), &text);
  }
  if (life.verdicts_forgotten() > 0) {
    AddLine("           ",
            absl::StrCat("and before that ", life.verdicts_forgotten(),
                         " more verdicts, which were forgotten"),
            &text);
  }
  if (!life.missed_window().empty()) {
    AddLine("missed:    ", MissText(life.missed_window()), &text);
  }
  AddLine("late:      ", life.not_attached(), &text);
  if (life.verdicts().empty() && life.missed_window().empty() &&
      life.not_attached().empty()) {
    AddLine("verdict:   ", "none yet", &text);
  }
  return text;
}

Json LifeJson(const v1::ProcessLife& life) {
  Json json = MessageJson(life, UnsetFields::kOmitted);
  json["attached"] = WasAttached(life);
  json["running"] = life.running();
  Json reasons = Json::array();
  for (const v1::WindowEvent& verdict : life.verdicts()) {
    reasons.push_back(ReasonName(verdict.reason()));
  }
  json["reasons"] = std::move(reasons);
  return json;
}

}  // namespace rocattach
