#include "userspace/report/report_process.h"

#include <string.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/clock.h"
#include "userspace/base/human.h"
#include "userspace/report/report_tables.h"
#include "userspace/report/report_words.h"
#include "userspace/report/text.h"
#include "userspace/report/workload_attributes.h"
#include "userspace/stream/hold.h"
#include "userspace/stream/losses.h"

namespace rocattach {
namespace {

const char* VerdictColor(v1::WindowState state, const ReportPage* page) {
  switch (state) {
    case v1::WINDOW_STATE_ATTACHED:
      return page->Green();
    case v1::WINDOW_STATE_REFUSED:
    case v1::WINDOW_STATE_MISSED:
      return page->Red();
    default:
      return page->Yellow();
  }
}

void Identity(const RecordingReport& recording, const v1::Process& process,
              ReportPage* page) {
  const std::string line = CommandText(process);
  if (!line.empty()) page->Line("command", line, "", 3);
  std::string who = absl::StrCat("uid ", process.uid());
  if (recording.header && process.start_ns() != 0) {
    absl::StrAppend(&who, ", started ",
                    WallTime(recording.header->clock(), process.start_ns()));
  }
  if (!process.cgroup().empty()) {
    absl::StrAppend(&who, ", cgroup ", TerminalSafe(process.cgroup()));
  }
  page->Line("run by", who);
  if (const std::string workload = WorkloadText(process.workload());
      !workload.empty()) {
    page->Line("workload", workload);
  }
}

// "held 395 us (180 us in the probe, stopped after 214 us)"; without a release, only
// what the kernel reported about the hold.
std::string HoldText(const v1::WindowEvent& window) {
  if (window.mode() == v1::WINDOW_MODE_SIGNALLED &&
      window.collector().entry_path() == v1::ENTRY_PATH_LATE) {
    return absl::StrCat("stopped for ", HumanDuration(HoldNs(window)),
                        " at a call of the runtime");
  }
  if (window.mode() != v1::WINDOW_MODE_HELD &&
      window.mode() != v1::WINDOW_MODE_SIGNALLED) {
    if (window.mode() == v1::WINDOW_MODE_BLOCKED ||
        window.mode() == v1::WINDOW_MODE_LISTENER ||
        window.mode() == v1::WINDOW_MODE_TAKEN_OVER) {
      return WindowModeText(window.mode());
    }
    return absl::StrCat("not held: ", WindowModeText(window.mode()));
  }
  auto since_hit = [&](uint64_t at) {
    return at == 0 || window.hit_ns() == 0 || at < window.hit_ns()
               ? std::string()
               : HumanDuration(at - window.hit_ns());
  };
  std::vector<std::string> parts;
  if (window.probe_ns() != 0) {
    parts.push_back(absl::StrCat(HumanDuration(window.probe_ns()), " in the probe"));
  }
  const std::string stopped = since_hit(window.stopped_ns());
  if (!stopped.empty()) parts.push_back(absl::StrCat("stopped after ", stopped));
  if (const std::string end = HoldEndText(window.hold_end()); !end.empty()) {
    parts.push_back(end);
  }
  const uint64_t hold_ns = window.released_ns() == 0 ? 0 : HoldNs(window);
  const std::string released = hold_ns == 0 ? "" : HumanDuration(hold_ns);
  if (released.empty()) return absl::StrCat("held ", absl::StrJoin(parts, ", "));
  return absl::StrCat(
      "held ", released,
      parts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(parts, ", "), ")"));
}

void Reason(const v1::WindowEvent& window, ReportPage* page) {
  if (window.reason() == v1::ATTACH_REASON_NONE) return;
  std::string why =
      absl::StrCat(ShortName(window.reason()), " at ", ShortName(window.stage()));
  if (window.error() != 0) {
    const char* name = strerrorname_np(static_cast<int>(window.error()));
    absl::StrAppend(&why, ", ",
                    name != nullptr ? name : absl::StrCat("errno ", window.error()));
  }
  if (window.retryable()) absl::StrAppend(&why, ", a later try may succeed");
  const bool failed = window.state() == v1::WINDOW_STATE_REFUSED ||
                      window.state() == v1::WINDOW_STATE_MISSED;
  if (failed) {
    absl::StrAppend(&why, window.target_modified() ? "; the process had been modified"
                                                   : "; the process was not modified");
  }
  page->Line("reason", why, failed ? page->Red() : "");
}

// `decides`: the verdict is already printed above.
void Window(const v1::WindowEvent& window, bool decides, ReportPage* page) {
  std::vector<std::string> parts;
  if (!decides) {
    parts.push_back(absl::StrCat("another window, ", ShortName(window.state())));
  }
  parts.push_back(HoldText(window));
  if (window.armed_ns() > window.hit_ns() && window.hit_ns() != 0) {
    parts.push_back(absl::StrCat("collector armed after ",
                                 HumanDuration(window.armed_ns() - window.hit_ns())));
  }
  if (window.collector().capture_mode() != v1::CAPTURE_MODE_NONE) {
    parts.push_back(
        absl::StrCat("capture by ", ShortName(window.collector().capture_mode())));
  }
  if (window.collector().entry_path() == v1::ENTRY_PATH_LATE) {
    parts.push_back("late: what was submitted before is not recorded");
  }
  if (window.collector().entry_path() == v1::ENTRY_PATH_TOOLS_LIB &&
      !window.collector().entry_reason().empty()) {
    parts.push_back(absl::StrCat("loaded by HSA_TOOLS_LIB, because ",
                                 TerminalSafe(window.collector().entry_reason())));
  }
  page->Line("attach", absl::StrJoin(parts, ", "));
  if (!window.collector().other_tool().empty()) {
    page->Line("beside", absl::StrCat("another profiler in this process, brought by ",
                                      TerminalSafe(window.collector().other_tool())));
  }
  Reason(window, page);
  if (!window.detail().empty()) page->Line("", TerminalSafe(window.detail()));
  if (!window.collector().refusal().empty()) {
    page->Line("collector", TerminalSafe(window.collector().refusal()), page->Red());
  }
}

// "busy 500 us of 8.89 ms (5.6 %); 99 idle gaps, median 3.00 us, longest 2.00 ms".
std::string ActivityText(const GpuActivity& activity) {
  std::string text = absl::StrCat("busy ", activity.late() > 0 ? "at least " : "",
                                  HumanDuration(activity.busy_ns()), " of ",
                                  HumanDuration(activity.span_ns()), " (",
                                  Percent(activity.busy_ns(), activity.span_ns()), ")");
  if (const DurationHistogram& gaps = activity.gaps(); gaps.count() > 0) {
    absl::StrAppend(&text, "; ", Plural(gaps.count(), "idle gap", "idle gaps"),
                    ", median ", HumanDuration(gaps.Quantile(0.5)), ", longest ",
                    HumanDuration(gaps.max()));
  }
  if (activity.overlap_ns() > 0) {
    absl::StrAppend(
        &text, "; several queues at once for ", HumanDuration(activity.overlap_ns()),
        " (", Percent(activity.overlap_ns(), activity.busy_ns()), " of the busy time)");
  }
  return text;
}

void Agents(const ProcessReport& process, ReportPage* page) {
  for (const auto& [id, agent] : process.agents) {
    if (agent.type() != v1::AGENT_TYPE_GPU) continue;
    uint64_t queues = 0, dispatches = 0;
    for (const auto& [queue_id, queue] : process.queues) {
      if (queue.queue.agent_id() != id) continue;
      ++queues;
      dispatches += queue.dispatches;
    }
    std::string text = TerminalSafe(agent.name());
    if (!agent.product_name().empty()) {
      absl::StrAppend(&text, " ", TerminalSafe(agent.product_name()));
    }
    absl::StrAppend(&text, ", ", agent.compute_units(), " CUs, ",
                    HumanBytes(agent.local_memory_bytes()), "; ",
                    Plural(queues, "queue", "queues"), ", ",
                    Plural(dispatches, "dispatch", "dispatches"));
    page->Line(absl::StrCat("GPU ", GpuNumber(process, id)), text);
    auto activity = process.activity.find(id);
    if (activity != process.activity.end() && activity->second.span_ns() > 0) {
      page->Line("", ActivityText(activity->second));
    }
  }
}

void Activity(const ProcessReport& process, ReportPage* page) {
  uint64_t kernel_ns = 0;
  for (const auto& [id, kernel] : process.kernels) kernel_ns += kernel.durations.sum();
  std::string text =
      absl::StrCat(Plural(process.dispatches, "dispatch", "dispatches"), " and ",
                   Plural(process.copies_count, "copy", "copies"));
  if (process.last_ns > process.first_ns) {
    absl::StrAppend(&text, " within ",
                    HumanDuration(process.last_ns - process.first_ns), ", ",
                    HumanDuration(kernel_ns), " of kernel time");
  }
  if (process.untimed > 0) {
    absl::StrAppend(&text, "; ", HumanCount(process.untimed), " without times");
  }
  if (process.unfinished > 0) {
    absl::StrAppend(&text, "; ", HumanCount(process.unfinished), " never finished");
  }
  if (const uint64_t count = process.TimesNotBelievable(); count > 0) {
    absl::StrAppend(&text, "; ", HumanCount(count),
                    " with implausible times (they start after a later packet of their "
                    "queue, or before they were submitted)");
  }
  page->Line("ran", text);
}

std::string End(const v1::ProcessEnd& end) {
  std::string text = EndText(end);
  if (end.wall_ns() > 0) {
    absl::StrAppend(&text, " after ", HumanDuration(end.wall_ns()));
  }
  return text;
}

const char* EndColor(const v1::ProcessEnd& end, const ReportPage* page) {
  bool bad = end.how() == v1::ProcessEnd::SIGNALLED ||
             (end.how() == v1::ProcessEnd::EXITED && end.exit_code() != 0);
  return bad ? page->Yellow() : "";
}

// All known losses, each as a clause.
std::vector<std::string> LossClauses(const RecordingReport& recording,
                                     const ProcessReport& process) {
  std::vector<std::string> lost;
  auto add = [&](uint64_t count, absl::string_view why) {
    if (count > 0) lost.push_back(absl::StrCat(HumanCount(count), " ", why));
  };
  if (process.account) {
    for (const Loss& loss : LossesOf(*process.account)) add(loss.count, loss.clause);
    if (recording.from_beginning) {
      add(process.MissingFromStream(), "written and missing from this stream");
    }
  }
  add(process.unknown_values, "counter values that no plan explains");
  add(process.entries_omitted, "names and events beyond what a report keeps in memory");
  if (process.Imbalance() != 0) {
    lost.push_back(absl::StrCat("the account is off by ", process.Imbalance()));
  }
  return lost;
}

// The reason why the process's losses are not fully known; empty if they are.
std::string DoubtOf(const ProcessReport& process) {
  if (process.NotBelievable()) {
    return absl::StrCat("its numbers are implausible (",
                        TerminalSafe(process.account->not_believable()),
                        "): it was no longer read, and what was lost is not known");
  }
  if (const std::string unseen = process.UnseenWork(); !unseen.empty()) {
    return absl::StrCat("it uses GPUs in a way that is not recorded: ",
                        TerminalSafe(unseen));
  }
  if (process.LacksAccount()) {
    return process.account ? "no final account: what it did last may be missing"
                           : "no account: what was lost of it is not known";
  }
  return "";
}

void Losses(const RecordingReport& recording, const ProcessReport& process,
            ReportPage* page) {
  std::vector<std::string> lost = LossClauses(recording, process);
  const std::string doubt = DoubtOf(process);
  if (!doubt.empty()) lost.insert(lost.begin(), doubt);
  std::string text;
  if (process.account) {
    const v1::LossAccount& account = *process.account;
    const uint64_t seen = account.dispatches_seen() + account.copies_seen();
    if (seen == 0 && lost.empty()) return;
    text = absl::StrCat(
        HumanCount(seen), " seen, ",
        HumanCount(account.dispatches_delivered() + account.copies_delivered()),
        " delivered",
        account.sampled_out() == 0
            ? ""
            : absl::StrCat(", ", HumanCount(account.sampled_out()), " sampled out"),
        account.final() ? "" : " so far");
  }
  if (!lost.empty()) {
    page->Line("lost",
               absl::StrCat(absl::StrJoin(lost, "; "),
                            text.empty() ? "" : absl::StrCat(" (", text, ")")),
               page->Red());
  } else if (!text.empty()) {
    page->Line("lost", absl::StrCat("nothing: ", text), page->Green());
  }
}

// States that the figures cover only a part of the dispatches.
void Sampling(const ProcessReport& process, ReportPage* page) {
  const uint64_t left_out = process.account ? process.account->sampled_out() : 0;
  if (left_out == 0) return;
  std::string text = absl::StrCat(
      Plural(left_out, "dispatch was", "dispatches were"),
      " counted and not recorded, to stay within the recorder's budget; counts and "
      "times here are of those that were recorded");
  if (!process.sampling.empty()) {
    absl::StrAppend(&text, " (", Plural(process.sampling.size(), "change", "changes"),
                    " of the level: rocattach dump --type sampling)");
  }
  page->Line("sampled", text, page->Yellow());
}

void Sessions(const ProcessReport& process, ReportPage* page) {
  constexpr size_t kShown = 6;
  size_t left_out = 0, shown = 0;
  for (const v1::SessionEvent& event : process.sessions) {
    const bool bad = event.what() == v1::SessionEvent::REFUSED ||
                     event.what() == v1::SessionEvent::LOST;
    if (!bad && shown++ >= kShown) {
      ++left_out;
      continue;
    }
    std::string text = absl::StrCat(event.session(), " ", ShortName(event.what()));
    if (event.latency_ns() > 0) {
      absl::StrAppend(&text, " in ", HumanDuration(event.latency_ns()));
    }
    if (event.plan() != 0) absl::StrAppend(&text, ", plan ", event.plan());
    if (!event.detail().empty()) {
      absl::StrAppend(&text, ": ", TerminalSafe(event.detail()));
    }
    page->Line("session", text, bad ? page->Red() : "");
  }
  if (left_out > 0) {
    page->Line("", absl::StrCat("… and ", Plural(left_out, "more event", "more events"),
                                " (rocattach dump --type session)"));
  }
}

}  // namespace

std::string ProcessName(const ProcessReport& process) {
  if (!process.process) return absl::StrCat("stream ", process.stream);
  return absl::StrCat(TerminalSafe(process.process->comm()), " (pid ",
                      process.process->pid(), ")");
}

std::string ProblemOf(const RecordingReport& recording, const ProcessReport& process) {
  std::vector<std::string> problems = LossClauses(recording, process);
  const std::string doubt = DoubtOf(process);
  if (!doubt.empty()) problems.insert(problems.begin(), doubt);
  if (process.DiedDuringAttach()) {
    problems.insert(problems.begin(), TerminalSafe(process.Verdict()->detail()));
  }
  return absl::StrJoin(problems, "; ");
}

void WriteProcess(const RecordingReport& recording, const ProcessReport& process,
                  const KernelGroups& groups, ReportPage* page) {
  const std::string name = ProcessName(process);
  std::string verdict = "no verdict";
  const char* color = page->Yellow();
  const v1::WindowEvent* deciding = process.Verdict();
  if (deciding != nullptr) {
    verdict = ShortName(deciding->state());
    color = VerdictColor(deciding->state(), page);
  }
  page->Gap();
  page->Raw(absl::StrCat(page->Bold(), name, page->Off(), "  ", color, verdict,
                         page->Off(), "\n"));
  if (process.process) Identity(recording, *process.process, page);
  for (const v1::WindowEvent& window : process.windows) {
    Window(window, &window == deciding, page);
  }
  Agents(process, page);
  if (process.dispatches + process.copies_count > 0) Activity(process, page);
  if (process.end) {
    page->Line("ended", End(*process.end), EndColor(*process.end, page));
  }
  Sampling(process, page);
  Losses(recording, process, page);
  WriteGroups(process, groups, page);
  WriteKernels(process, page);
  WriteCopies(process, page);
  Sessions(process, page);
  for (const auto& [id, plan] : process.plans) WriteCounters(plan, page);
  for (const auto& [id, plan] : process.plans) WriteSamples(process, plan, page);
  WriteMemory(process, page);
  WriteApiCalls(process, page);
}

}  // namespace rocattach
