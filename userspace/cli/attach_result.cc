#include "userspace/cli/attach_result.h"

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"
#include "userspace/base/json.h"
#include "userspace/cli/attach_words.h"
#include "userspace/cli/common/losses_json.h"

namespace rocattach {
namespace {

// The number of records of all kinds that were delivered for a process.
uint64_t Records(const v1::LossAccount& account) {
  return account.dispatches_delivered() + account.copies_delivered() +
         account.api_calls_delivered() + account.samples_delivered() +
         account.memory_delivered();
}

}  // namespace

ProcessOutcome OutcomeOf(const ProcessResult& process, bool recording) {
  if (!process.attached) {
    if (process.passed) return {AttachResult::kNothingHappened, "passed"};
    return {AttachResult::kNotRecorded, "not-attached"};
  }
  const uint64_t records = Records(process.account);
  if (records == 0 && (!recording || !process.problem.empty())) {
    const bool whole = process.problem.empty() && LossesOf(process.account).empty();
    return {whole ? AttachResult::kRecorded : AttachResult::kNotRecorded,
            "not-recorded"};
  }
  if (!process.problem.empty() || !LossesOf(process.account).empty()) {
    return {AttachResult::kNotRecorded, "incomplete"};
  }
  if (records == 0) return {AttachResult::kNothingHappened, "nothing-happened"};
  return {AttachResult::kRecorded, "recorded"};
}

Json ResultJson(pid_t pid, const ProcessResult& process,
                const ProcessOutcome& outcome) {
  const v1::LossAccount& account = process.account;
  return {{"event", "result"},
          {"pid", pid},
          {"comm", process.name},
          {"status", outcome.status},
          {"entry", process.attached ? EntryOf(process.window) : "none"},
          {"tid", process.attached ? StoppedThread(process.window) : 0},
          {"stopped_ns", process.attached ? StoppedNs(process.window) : 0},
          {"dispatches", account.dispatches_delivered()},
          {"copies", account.copies_delivered()},
          {"api_calls", account.api_calls_delivered()},
          {"samples", account.samples_delivered()},
          {"memory_records", account.memory_delivered()},
          {"lost", LostRecords(account)},
          {"lost_by", LossesJson(account)},
          {"untimed", account.untimed()},
          {"missing", MissingJson(process.missing)},
          {"reason", process.attached ? "none" : process.reason},
          {"detail", process.problem}};
}

std::string ResultText(pid_t pid, const ProcessResult& process, bool recording) {
  const v1::LossAccount& account = process.account;
  const std::vector<Loss> losses = LossesOf(account);
  std::string text = absl::StrCat("process ", pid, " (", process.name, "): ");
  if (Records(account) > 0 || !losses.empty()) {
    absl::StrAppend(&text, HumanCount(account.dispatches_delivered()), " dispatches, ",
                    HumanCount(account.copies_delivered()), " copies");
  } else {
    absl::StrAppend(&text, recording
                               ? "it was observed, and dispatched and copied nothing"
                               : "attached, and not recorded as requested");
  }
  if (!losses.empty()) absl::StrAppend(&text, ", lost: ", LossText(account));
  for (const Loss& loss : losses) {
    if (!loss.help.empty()) absl::StrAppend(&text, "; ", loss.help);
  }
  if (process.problem_said) {
    absl::StrAppend(&text, "; the session was refused, see above");
  } else if (!process.problem.empty()) {
    absl::StrAppend(&text, "; ", process.problem);
  }
  return text;
}

Json MissingJson(const std::vector<LeftOut>& missing) {
  Json list = Json::array();
  for (const LeftOut& one : missing) {
    list.push_back(Json{{"what", one.what}, {"why", one.why}});
  }
  return list;
}

}  // namespace rocattach
