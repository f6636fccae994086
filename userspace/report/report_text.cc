#include "userspace/report/report_text.h"

#include <string.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "userspace/base/human.h"
#include "userspace/report/report_words.h"
#include "userspace/report/table.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kMaxShownDamages = 10;

class Formatter {
 public:
  Formatter(const Report& report, const TextReportOptions& options)
      : report_(report), options_(options) {}

  std::string Format() {
    for (const RecordingReport& recording : report_.recordings) Recording(recording);
    ReaderDamage();
    return std::move(out_);
  }

 private:
  const char* Color(const char* code) const { return options_.color ? code : ""; }
  const char* Bold() const { return Color("\x1b[1m"); }
  const char* Dim() const { return Color("\x1b[2m"); }
  const char* Red() const { return Color("\x1b[31m"); }
  const char* Green() const { return Color("\x1b[32m"); }
  const char* Yellow() const { return Color("\x1b[33m"); }
  const char* Off() const { return Color("\x1b[0m"); }

  // "  key       text", on as many lines as the terminal's width asks for, at most
  // `max_lines`.
  void Line(absl::string_view key, const std::string& text, const char* color = "",
            size_t max_lines = 8) {
    constexpr size_t kKeyWidth = 10;
    size_t used = kIndent + kKeyWidth;
    size_t width = options_.width == 0          ? 0
                   : options_.width > used + 20 ? options_.width - used
                                                : 20;
    for (const std::string& line : WrapWidth(text, width, max_lines)) {
      absl::StrAppend(&out_, std::string(kIndent, ' '), Dim());
      absl::StrAppendFormat(&out_, "%-10s", key);
      absl::StrAppend(&out_, Off(), color, line, *color ? Off() : "", "\n");
      key = "";
    }
  }

  void Recording(const RecordingReport& recording) {
    if (!out_.empty()) out_ += '\n';
    std::string title = "Recording without its first frame";
    if (recording.header) {
      const v1::StreamHeader& header = *recording.header;
      title = absl::StrCat("Recorded ",
                           WallTime(header.clock(), header.clock().boottime_ns()),
                           " on ", TerminalSafe(header.hostname()), " (Linux ",
                           TerminalSafe(header.kernel_release()), ", rocattach-watch ",
                           TerminalSafe(header.producer_version()), ")");
    }
    absl::StrAppend(&out_, Bold(), title, Off(), "\n", Totals(recording), "\n");
    if (!recording.from_beginning) {
      absl::StrAppend(&out_, Yellow(),
                      "Joined in the middle: what was recorded before is ",
                      "not counted.", Off(), "\n");
    }
    if (!recording.end) {
      absl::StrAppend(&out_, Yellow(),
                      "The recording has no end: the recorder still runs, ",
                      "or was killed.", Off(), "\n");
    }
    for (const auto& process : recording.processes) Process(recording, *process);
    if (recording.summary) Summary(*recording.summary);
  }

  std::string Totals(const RecordingReport& recording) {
    std::map<int, uint64_t> states;
    uint64_t dispatches = 0, copies = 0, lost = 0;
    for (const auto& process : recording.processes) {
      if (const v1::WindowEvent* verdict = process->Verdict())
        ++states[verdict->state()];
      dispatches += process->dispatches;
      copies += process->copies_count;
      lost += recording.from_beginning || !process->account
                  ? process->Lost()
                  : DroppedRecords(*process->account);
    }
    std::vector<std::string> verdicts;
    for (const auto& [state, count] : states) {
      verdicts.push_back(absl::StrCat(HumanCount(count), " ",
                                      ShortName(static_cast<v1::WindowState>(state))));
    }
    std::string text = Plural(recording.processes.size(), "process", "processes");
    if (!verdicts.empty()) {
      absl::StrAppend(&text, " (", absl::StrJoin(verdicts, ", "), ")");
    }
    absl::StrAppend(&text, ", ", Plural(dispatches, "dispatch", "dispatches"), ", ",
                    Plural(copies, "copy", "copies"), ", ");
    if (lost == 0) {
      absl::StrAppend(&text, Green(), "nothing lost", Off());
    } else {
      absl::StrAppend(&text, Red(), HumanCount(lost), " lost", Off());
    }
    return text;
  }

  const char* VerdictColor(v1::WindowState state) const {
    switch (state) {
      case v1::WINDOW_STATE_ATTACHED:
        return Green();
      case v1::WINDOW_STATE_REFUSED:
      case v1::WINDOW_STATE_MISSED:
        return Red();
      default:
        return Yellow();
    }
  }

  void Process(const RecordingReport& recording, const ProcessReport& process) {
    std::string name = absl::StrCat("stream ", process.stream);
    if (process.process) {
      name = absl::StrCat(TerminalSafe(process.process->comm()), " (pid ",
                          process.process->pid(), ")");
    }
    std::string verdict = "no verdict";
    const char* color = Yellow();
    const v1::WindowEvent* deciding = process.Verdict();
    if (deciding != nullptr) {
      verdict = ShortName(deciding->state());
      color = VerdictColor(deciding->state());
    }
    absl::StrAppend(&out_, "\n", Bold(), name, Off(), "  ", color, verdict, Off(),
                    "\n");
    if (process.process) Identity(recording, *process.process);
    for (const v1::WindowEvent& window : process.windows) {
      Window(window, &window == deciding);
    }
    Agents(process);
    if (process.dispatches + process.copies_count > 0) Activity(process);
    if (process.end) Line("ended", End(*process.end), EndColor(*process.end));
    Losses(recording, process);
    Kernels(process);
    Copies(process);
    Sessions(process);
    for (const auto& [id, plan] : process.plans) Counters(plan);
    for (const auto& [id, plan] : process.plans) Samples(plan);
    ApiCalls(process);
  }

  void Identity(const RecordingReport& recording, const v1::Process& process) {
    std::vector<std::string> command;
    for (const std::string& argument : process.arguments()) {
      bool plain = !argument.empty() && !absl::StrContains(argument, ' ');
      command.push_back(plain ? TerminalSafe(argument)
                              : absl::StrCat("'", TerminalSafe(argument), "'"));
    }
    if (command.empty()) command.push_back(TerminalSafe(process.executable()));
    std::string line = absl::StrJoin(command, " ");
    if (!line.empty()) Line("command", line, "", 3);
    std::string who = absl::StrCat("uid ", process.uid());
    if (recording.header && process.start_ns() != 0) {
      absl::StrAppend(&who, ", started ",
                      WallTime(recording.header->clock(), process.start_ns()));
    }
    if (!process.cgroup().empty()) {
      absl::StrAppend(&who, ", cgroup ", TerminalSafe(process.cgroup()));
    }
    Line("run by", who);
  }

  // `decides`: the verdict stands above already.
  void Window(const v1::WindowEvent& window, bool decides) {
    std::vector<std::string> parts;
    if (!decides)
      parts.push_back(absl::StrCat("another window, ", ShortName(window.state())));
    auto since_hit = [&](const char* what, uint64_t at) {
      if (at == 0 || window.hit_ns() == 0 || at < window.hit_ns()) return;
      parts.push_back(absl::StrCat(what, " ", HumanDuration(at - window.hit_ns())));
    };
    switch (window.mode()) {
      case v1::WINDOW_MODE_HELD:
      case v1::WINDOW_MODE_SIGNALLED:
        parts.push_back(window.hold_ns() == 0
                            ? "held"
                            : absl::StrCat("held for ", HumanDuration(window.hold_ns()),
                                           " (", ShortName(window.hold_end()), ")"));
        break;
      default:
        parts.push_back(absl::StrCat("not held (", ShortName(window.mode()), ")"));
    }
    since_hit("hit to stopped", window.stopped_ns());
    since_hit("to released", window.released_ns());
    since_hit("to collector armed", window.armed_ns());
    if (window.collector().capture_mode() != v1::CAPTURE_MODE_NONE) {
      parts.push_back(
          absl::StrCat("capture by ", ShortName(window.collector().capture_mode())));
    }
    Line("attach", absl::StrJoin(parts, ", "));
    bool failed = window.state() == v1::WINDOW_STATE_REFUSED ||
                  window.state() == v1::WINDOW_STATE_MISSED;
    if (window.reason() != v1::ATTACH_REASON_NONE) {
      std::string why =
          absl::StrCat(ShortName(window.reason()), " at ", ShortName(window.stage()));
      if (window.error() != 0) {
        absl::StrAppend(&why, ", ",
                        strerrorname_np(static_cast<int>(window.error()))
                            ? strerrorname_np(static_cast<int>(window.error()))
                            : absl::StrCat("errno ", window.error()));
      }
      if (window.retryable()) absl::StrAppend(&why, ", a later try may succeed");
      if (failed) {
        absl::StrAppend(&why, window.target_modified()
                                  ? "; the process had been modified"
                                  : "; the process was not modified");
      }
      Line("reason", why, failed ? Red() : "");
    }
    if (!window.detail().empty()) Line("", TerminalSafe(window.detail()));
    if (!window.collector().refusal().empty()) {
      Line("collector", TerminalSafe(window.collector().refusal()), Red());
    }
  }

  void Agents(const ProcessReport& process) {
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
      Line(absl::StrCat("GPU ", id), text);
    }
  }

  void Activity(const ProcessReport& process) {
    uint64_t kernel_ns = 0;
    for (const auto& [id, kernel] : process.kernels)
      kernel_ns += kernel.durations.total_ns;
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
    Line("ran", text);
  }

  std::string End(const v1::ProcessEnd& end) {
    std::string text = EndText(end);
    if (end.wall_ns() > 0) {
      absl::StrAppend(&text, " after ", HumanDuration(end.wall_ns()));
    }
    return text;
  }

  const char* EndColor(const v1::ProcessEnd& end) const {
    bool bad = end.how() == v1::ProcessEnd::SIGNALLED ||
               (end.how() == v1::ProcessEnd::EXITED && end.exit_code() != 0);
    return bad ? Yellow() : "";
  }

  void Losses(const RecordingReport& recording, const ProcessReport& process) {
    if (!process.account) return;
    const v1::LossAccount& account = *process.account;
    std::vector<std::string> lost;
    auto add = [&](uint64_t count, const char* why) {
      if (count > 0) lost.push_back(absl::StrCat(HumanCount(count), " ", why));
    };
    add(account.dropped_ring_full(), "dropped, the ring was full");
    add(account.dropped_collector(), "dropped in the collector");
    add(account.dropped_invalid(), "refused as damaged");
    add(account.dropped_inflight(), "in flight and past saving");
    add(account.dropped_writer(), "dropped, the stream could not be written");
    if (recording.from_beginning) {
      add(process.MissingFromStream(), "written and missing from this stream");
    }
    add(account.packets_unseen(), "packets never seen by the collector");
    add(account.dictionary_dropped(), "names did not fit");
    add(account.counted_dropped(), "dispatches without their counter values");
    add(account.samples_dropped(), "samples");
    add(account.api_calls_dropped(), "API calls");
    add(process.unknown_values, "counter values that no plan explains");
    if (process.Imbalance() != 0) {
      lost.push_back(absl::StrCat("the account is off by ", process.Imbalance()));
    }
    uint64_t seen = account.dispatches_seen() + account.copies_seen();
    if (seen == 0 && lost.empty()) return;
    uint64_t delivered = account.dispatches_delivered() + account.copies_delivered();
    std::string text = absl::StrCat(HumanCount(seen), " seen, ", HumanCount(delivered),
                                    " delivered", account.final() ? "" : " so far");
    if (lost.empty()) {
      Line("lost", absl::StrCat("nothing: ", text), Green());
    } else {
      Line("lost", absl::StrCat(absl::StrJoin(lost, "; "), " (", text, ")"), Red());
    }
  }

  void Kernels(const ProcessReport& process) {
    std::vector<KernelReport> kernels = process.KernelsByName();
    if (kernels.empty()) return;
    uint64_t total = 0;
    for (const KernelReport& kernel : kernels) total += kernel.durations.total_ns;
    Table table(
        {"share", "count", "total", "mean", "min", "p50", "p99", "max", "kernel"});
    size_t shown =
        options_.top == 0 ? kernels.size() : std::min(options_.top, kernels.size());
    for (size_t i = 0; i < shown; ++i) {
      const KernelReport& kernel = kernels[i];
      const DurationSummary& d = kernel.durations;
      auto time = [&](uint64_t ns) {
        return d.timed == 0 ? std::string("-") : HumanDuration(ns);
      };
      table.Add({d.timed == 0 ? "-" : Percent(d.total_ns, total),
                 HumanCount(kernel.count), time(d.total_ns), time(d.mean_ns()),
                 time(d.min_ns), time(d.Quantile(0.5)), time(d.Quantile(0.99)),
                 time(d.max_ns), KernelText(kernel)});
    }
    absl::StrAppend(&out_, "\n", table.Format(kIndent, options_.width, Dim(), Off()));
    if (shown < kernels.size()) {
      absl::StrAppend(&out_, std::string(kIndent, ' '), "… and ",
                      Plural(kernels.size() - shown, "more kernel", "more kernels"),
                      " (--top ", kernels.size(), " shows all)\n");
    }
  }

  void Copies(const ProcessReport& process) {
    if (process.copies.empty()) return;
    Table table({"count", "bytes", "total", "mean", "min", "p50", "p99", "max", "GB/s",
                 "copies"});
    for (const auto& [direction, copies] : process.copies) {
      const DurationSummary& d = copies.durations;
      auto time = [&](uint64_t ns) {
        return d.timed == 0 ? std::string("-") : HumanDuration(ns);
      };
      std::string rate = "-";
      if (d.total_ns > 0) {
        rate = absl::StrFormat("%.2f", static_cast<double>(copies.timed_bytes) /
                                           static_cast<double>(d.total_ns));
      }
      table.Add({HumanCount(copies.count), HumanBytes(copies.bytes), time(d.total_ns),
                 time(d.mean_ns()), time(d.min_ns), time(d.Quantile(0.5)),
                 time(d.Quantile(0.99)), time(d.max_ns), rate,
                 DirectionText(copies.direction)});
    }
    absl::StrAppend(&out_, "\n", table.Format(kIndent, options_.width, Dim(), Off()));
  }

  void Sessions(const ProcessReport& process) {
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
      Line("session", text, bad ? Red() : "");
    }
    if (left_out > 0) {
      Line("", absl::StrCat("… and ", Plural(left_out, "more event", "more events"),
                            " (rocattach dump --type session)"));
    }
  }

  static std::string Number(const std::optional<double>& value) {
    constexpr double kWholeLimit = 9e15;
    if (!value.has_value()) return "-";
    if (!(std::abs(*value) < kWholeLimit) || *value != std::trunc(*value)) {
      return absl::StrFormat("%.6g", *value);
    }
    return absl::StrCat(*value < 0 ? "-" : "",
                        HumanCount(static_cast<uint64_t>(std::abs(*value))));
  }

  // A plan's values, kernel by kernel.
  void Counters(const PlanReport& plan) {
    if (plan.kernels.empty()) return;
    Table table({"total", "mean", "dispatches", "counter", "kernel"});
    bool mixed = false;
    std::vector<std::string> incomplete;
    const size_t shown = options_.top == 0
                             ? plan.kernels.size()
                             : std::min(options_.top, plan.kernels.size());
    for (size_t i = 0; i < shown; ++i) {
      const KernelCounters& kernel = plan.kernels[i];
      std::string name = kernel.kernel.empty()
                             ? absl::StrCat("kernel ", kernel.kernel_id)
                             : TerminalSafe(kernel.kernel);
      if (!kernel.complete) incomplete.push_back(TooSeldom(name, kernel.passes));
      if (plan.plan.architectures_size() > 1) {
        absl::StrAppend(&name, " [", TerminalSafe(kernel.architecture), "]");
      }
      for (const KernelValue& value : kernel.values) {
        mixed |= value.mixed;
        table.Add(
            {Number(value.total), Number(value.mean), HumanCount(value.dispatches),
             absl::StrCat(TerminalSafe(value.name), value.mixed ? "*" : ""), name});
      }
    }
    absl::StrAppend(&out_, "\n", table.Format(kIndent, options_.width, Dim(), Off()));
    if (mixed) {
      Note("* mixed: from means over different dispatches, no pass holds it whole");
    }
    for (const std::string& text : incomplete) Note(text);
    if (shown < plan.kernels.size()) {
      absl::StrAppend(
          &out_, std::string(kIndent, ' '), "… and ",
          Plural(plan.kernels.size() - shown, "more kernel", "more kernels"),
          " (--top ", plan.kernels.size(), " shows all)\n");
    }
  }

  void Note(const std::string& text) {
    absl::StrAppend(&out_, std::string(kIndent, ' '), Yellow(), text, Off(), "\n");
  }

  static std::string TooSeldom(const std::string& kernel,
                               const std::vector<uint64_t>& passes) {
    uint64_t measured = 0;
    for (uint64_t dispatches : passes) measured += dispatches;
    return absl::StrCat(kernel, " was measured ", Plural(measured, "time", "times"),
                        ", too seldom for its ", passes.size(), " passes");
  }

  void Samples(const PlanReport& plan) {
    if (plan.samples.empty()) return;
    Table table({"total", "per second", "min", "max", "samples", "GPU", "counter"});
    for (const SampledCounter& sampled : plan.samples) {
      std::optional<double> rate;
      if (sampled.covered_ns > 0) {
        rate = sampled.total * 1e9 / static_cast<double>(sampled.covered_ns);
      }
      table.Add({Number(sampled.total), Number(rate), Number(sampled.smallest),
                 Number(sampled.largest), HumanCount(sampled.samples),
                 absl::StrCat(sampled.agent_id), TerminalSafe(sampled.name)});
    }
    absl::StrAppend(&out_, "\n", table.Format(kIndent, options_.width, Dim(), Off()));
  }

  void ApiCalls(const ProcessReport& process) {
    if (process.api_call_count == 0) return;
    std::vector<std::pair<std::pair<uint32_t, uint32_t>, const ApiReport*>> calls;
    for (const auto& [key, call] : process.api_calls) {
      if (call.count > 0) calls.emplace_back(key, &call);
    }
    std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
      return a.second->durations.total_ns > b.second->durations.total_ns;
    });
    Table table({"count", "total", "mean", "p50", "p99", "max", "API call"});
    const size_t shown =
        options_.top == 0 ? calls.size() : std::min(options_.top, calls.size());
    for (size_t i = 0; i < shown; ++i) {
      const auto& [key, call] = calls[i];
      const DurationSummary& d = call->durations;
      table.Add({HumanCount(call->count), HumanDuration(d.total_ns),
                 HumanDuration(d.mean_ns()), HumanDuration(d.Quantile(0.5)),
                 HumanDuration(d.Quantile(0.99)), HumanDuration(d.max_ns),
                 call->function.empty()
                     ? absl::StrCat(ShortName(static_cast<v1::ApiDomain>(key.first)),
                                    " function ", key.second)
                     : TerminalSafe(call->function)});
    }
    absl::StrAppend(&out_, "\n", table.Format(kIndent, options_.width, Dim(), Off()));
    if (shown < calls.size()) {
      absl::StrAppend(&out_, std::string(kIndent, ' '), "… and ",
                      Plural(calls.size() - shown, "more function", "more functions"),
                      " (--top ", calls.size(), " shows all)\n");
    }
  }

  void QuantileLine(const char* key, const v1::Quantiles& quantiles) {
    if (quantiles.count() == 0) return;
    Line(key, absl::StrCat("median ", HumanDuration(quantiles.median_ns()), ", p99 ",
                           HumanDuration(quantiles.p99_ns()), ", max ",
                           HumanDuration(quantiles.max_ns()), " (",
                           Plural(quantiles.count(), "window", "windows"), ")"));
  }

  void Summary(const v1::WatcherSummary& summary) {
    absl::StrAppend(&out_, "\n", Bold(), "Watcher", Off(), "\n");
    Line("windows",
         absl::StrCat(HumanCount(summary.windows_attached()), " attached, ",
                      HumanCount(summary.windows_passed()), " passed, ",
                      HumanCount(summary.windows_refused()), " refused, ",
                      HumanCount(summary.windows_missed()), " missed"),
         summary.windows_missed() > 0 ? Red() : "");
    QuantileLine("hold", summary.hold());
    QuantileLine("stopped", summary.hit_to_stopped());
    QuantileLine("released", summary.hit_to_released());
    if (summary.events_lost() + summary.claims_full() + summary.hold_deadlines() > 0) {
      Line("trouble",
           absl::StrCat(HumanCount(summary.events_lost()), " events lost, ",
                        HumanCount(summary.claims_full()), " windows without room, ",
                        HumanCount(summary.hold_deadlines()),
                        " holds past the deadline"),
           Red());
    }
    std::string cost =
        absl::StrCat("ran for ", HumanDuration(summary.end_ns() - summary.begin_ns()));
    if (summary.recorder_cpu_ns() > 0) {
      absl::StrAppend(&cost, ", used ", HumanDuration(summary.recorder_cpu_ns()),
                      " of processor time");
    }
    if (summary.end_ns() > summary.begin_ns()) Line("cost", cost);
  }

  void ReaderDamage() {
    const ReadStats& stats = report_.stats;
    if (report_.entries_omitted > 0) {
      absl::StrAppend(&out_, "\n", Yellow(),
                      "The report is incomplete: ", HumanCount(report_.entries_omitted),
                      " entries are beyond what it keeps in memory.", Off(), "\n");
    }
    if (!stats.damaged() && stats.unknown_frames == 0) return;
    absl::StrAppend(&out_, "\n", stats.damaged() ? Red() : Yellow(),
                    stats.damaged() ? "The stream is damaged" : "The stream is newer",
                    Off(), ": ", Plural(stats.frames, "frame", "frames"), " intact, ",
                    HumanCount(stats.missing_frames), " missing, ",
                    HumanCount(stats.undecodable_frames), " undecodable, ",
                    HumanCount(stats.unknown_frames), " unknown; ",
                    HumanCount(stats.skipped_bytes), " bytes skipped");
    if (stats.lost_records > 0) {
      absl::StrAppend(&out_, "; at least ", HumanCount(stats.lost_records),
                      " records lost");
    }
    out_ += '\n';
    size_t shown = 0;
    for (const Damage& damage : report_.damages) {
      if (damage.kind == Damage::Kind::kNoEnd ||
          damage.kind == Damage::Kind::kNoBeginning) {
        continue;
      }
      if (++shown > kMaxShownDamages) {
        absl::StrAppend(&out_, "  … and more (rocattach dump --type damage)\n");
        break;
      }
      absl::StrAppend(&out_, "  ", damage.what, "\n");
    }
  }

  const Report& report_;
  const TextReportOptions& options_;
  std::string out_;
};

}  // namespace

std::string FormatReport(const Report& report, const TextReportOptions& options) {
  return Formatter(report, options).Format();
}

}  // namespace rocattach
