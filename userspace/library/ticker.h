// A thread that flushes buffers at their intervals.
#ifndef ROCATTACH_USERSPACE_LIBRARY_TICKER_H_
#define ROCATTACH_USERSPACE_LIBRARY_TICKER_H_

#include <memory>
#include <thread>

#include "userspace/library/session_engine.h"

namespace rocattach {

// Runs until it is destroyed.
class Ticker {
 public:
  explicit Ticker(std::weak_ptr<SessionEngine> engine);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  struct Shared;
  static void Run(Shared& shared, const std::weak_ptr<SessionEngine>& engine);

  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_TICKER_H_
