// A thread that sends queued signals, which a target counts.
#ifndef ROCATTACH_TESTS_INTEGRATION_INJECTOR_SIGNAL_STORM_H_
#define ROCATTACH_TESTS_INTEGRATION_INJECTOR_SIGNAL_STORM_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <thread>

namespace rocattach {

// The signals have the values 1, 2, …; the target adds them up.
class SignalStorm {
 public:
  explicit SignalStorm(pid_t pid)
      : thread_([pid] {
          for (int n = 1; n <= kSignals; ++n) {
            sigval value;
            value.sival_int = n;
            EXPECT_EQ(sigqueue(pid, SIGRTMIN, value), 0);
            // Spreads the signals over the whole time of an attach.
            std::this_thread::sleep_for(std::chrono::microseconds(20));
          }
        }) {}
  ~SignalStorm() { Join(); }

  // Waits until all have been sent.
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  // The target's output if no signal was lost.
  static std::string Sum() {
    return "sum=" + std::to_string(kSignals * (kSignals + 1) / 2) + "\n";
  }

 private:
  static constexpr int kSignals = 400;

  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_INJECTOR_SIGNAL_STORM_H_
