// A fake kernel with one thread, whose behaviour a test plans, and with its own clock.
#ifndef ROCATTACH_TESTS_UNIT_INJECTOR_FAKE_TRACE_CALLS_H_
#define ROCATTACH_TESTS_UNIT_INJECTOR_FAKE_TRACE_CALLS_H_

#include <errno.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "injector/tracing/trace_calls.h"

namespace rocattach::testing_support {

class FakeTraceCalls : public TraceCalls {
 public:
  static constexpr uint64_t kBeginNs = 1'000'000'000'000;
  static constexpr uint64_t kCallNs = 1'000;  // duration of Peek() and Yield()

  // The thread gets this status `after_ns` after the beginning; later ones replace it.
  void Plan(uint64_t after_ns, WaitStatus status) {
    plan_.insert_or_assign(kBeginNs + after_ns, status);
  }
  // `after_ns` after the beginning the machine pauses for `ns`: only time passes.
  void PlanStandstill(uint64_t after_ns, uint64_t ns) {
    standstill_at_ = kBeginNs + after_ns;
    standstill_ns_ = ns;
  }
  void Advance(uint64_t ns) {
    now_ns_ += ns;
    if (standstill_ns_ != 0 && now_ns_ >= standstill_at_) {
      // Statuses that are planned for later are delayed by as much.
      std::map<uint64_t, WaitStatus> later;
      for (auto& [at, status] : plan_) {
        later.insert_or_assign(at >= standstill_at_ ? at + standstill_ns_ : at, status);
      }
      plan_ = std::move(later);
      now_ns_ += std::exchange(standstill_ns_, 0);
    }
  }
  uint64_t elapsed_ns() const { return now_ns_ - kBeginNs; }

  int Seize(pid_t) override {
    ++seizes;
    return seizes <= failing_seizes ? EPERM : seize_error;
  }
  int Interrupt(pid_t) override {
    ++interrupts;
    return interrupt_error;
  }
  int Continue(pid_t, int signal) override {
    continued.push_back(signal);
    plan_.clear();
    return continue_error;
  }
  int DistinguishSystemCalls(pid_t) override { return options_error; }
  int ContinueToSystemCall(pid_t, int signal) override {
    continued.push_back(signal);
    plan_.clear();
    if (!stops.empty()) {
      Plan(elapsed_ns(), stops.front());
      stops.erase(stops.begin());
    }
    return continue_error;
  }
  int GetSystemCall(pid_t, SystemCallStop* stop) override {
    *stop = system_call;
    return 0;
  }
  int Detach(pid_t, int signal) override {
    detached.push_back(signal);
    return detach_error;
  }
  int Listen(pid_t) override {
    ++listens;
    return 0;
  }
  int GetSignalInfo(pid_t, siginfo_t* info) override {
    info->si_code = signal_code;
    return 0;
  }
  int GetRegisters(pid_t, user_regs_struct* registers, size_t* bytes) override {
    registers->cs = code_segment;
    *bytes = sizeof(*registers);
    return registers_error;
  }
  int GetDispatch(pid_t, bool* on) override {
    *on = dispatched;
    return dispatch_error;
  }
  int SetRegisters(pid_t, const user_regs_struct&) override { return registers_error; }
  int PokeUser(pid_t, size_t, uint64_t) override { return registers_error; }
  int PeekData(pid_t, uint64_t address, uint64_t* word) override {
    *word = memory[address];
    return 0;
  }
  int PokeData(pid_t, uint64_t address, uint64_t word) override {
    memory[address] = word;
    return 0;
  }

  int Peek(pid_t, bool block, std::optional<WaitStatus>* status) override {
    ++looks;
    status->reset();
    Advance(kCallNs);
    if (peek_error != 0) return peek_error;
    if (block && !Current().has_value()) {
      // Waits until the status or the alarm, whichever comes first.
      uint64_t until = alarm_ns_ != 0 ? alarm_ns_ : now_ns_;
      if (!plan_.empty()) until = std::min(until, plan_.begin()->first);
      if (until > now_ns_) Advance(until - now_ns_);
      if (alarm_ns_ != 0 && now_ns_ >= alarm_ns_) alarm_ns_ = now_ns_ + 20'000'000;
    }
    *status = Current();
    return 0;
  }
  void Collect(pid_t) override { ++collected; }
  absl::StatusOr<ThreadStatus> ReadStatus(pid_t, pid_t) override {
    return thread_status;
  }
  pid_t Self() override { return 1; }

  uint64_t NowNs() override { return now_ns_; }
  void Yield() override {
    ++yields;
    Advance(kCallNs);
  }
  void Sleep(uint64_t ns) override {
    ++sleeps;
    Advance(ns);
  }
  bool ArmAlarm(uint64_t after_ns) override {
    if (!has_alarm) return false;
    ++alarms;
    alarm_ns_ = now_ns_ + after_ns;
    return true;
  }
  void DisarmAlarm() override { alarm_ns_ = 0; }
  bool is_armed() const { return alarm_ns_ != 0; }

  // Results of calls: 0 or an errno.
  int seizes = 0;
  int failing_seizes = 0;  // the first ones, with EPERM
  int seize_error = 0, interrupt_error = 0, continue_error = 0, detach_error = 0;
  int peek_error = 0, registers_error = 0, options_error = 0, dispatch_error = 0;
  bool dispatched = false;
  // The stops after each ContinueToSystemCall.
  std::vector<WaitStatus> stops;
  SystemCallStop system_call;
  int signal_code = SI_USER;
  uint64_t code_segment = 0x33;
  bool has_alarm = true;
  absl::StatusOr<ThreadStatus> thread_status = ThreadStatus();

  // Number of calls, and the signals passed to them.
  int interrupts = 0, listens = 0, looks = 0, collected = 0;
  int yields = 0, sleeps = 0, alarms = 0;
  std::vector<int> continued, detached;
  std::map<uint64_t, uint64_t> memory;

 private:
  std::optional<WaitStatus> Current() const {
    auto next = plan_.upper_bound(now_ns_);
    if (next == plan_.begin()) return std::nullopt;
    return std::prev(next)->second;
  }

  uint64_t now_ns_ = kBeginNs;
  uint64_t alarm_ns_ = 0;  // 0: none
  uint64_t standstill_at_ = 0, standstill_ns_ = 0;
  std::map<uint64_t, WaitStatus> plan_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_UNIT_INJECTOR_FAKE_TRACE_CALLS_H_
