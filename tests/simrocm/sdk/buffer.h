// Buffers of records and the threads that deliver them.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_BUFFER_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_BUFFER_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {

// Runs tasks in order on a thread of its own, for the life of the process.
class CallbackThread {
 public:
  void Start();
  void Post(std::function<void()> task);
  // Waits until all that was posted so far has run. False, at once, on this thread
  // itself.
  bool Wait();

 private:
  void Run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  uint64_t posted_ = 0, done_ = 0;
  uint64_t thread_id_ = 0;
};

class Buffer {
 public:
  Buffer(rocattach_sdk_buffer_id id, rocattach_sdk_context_id context, size_t size,
         size_t watermark, int32_t policy, rocattach_sdk_buffer_cb callback,
         void* data);

  // Copies the record in. A full buffer drops it and counts, or, if it is lossless,
  // waits for room. Reaching the watermark makes the callback thread deliver what is
  // there. As upstream, only a lossless buffer has both of its halves: in another one
  // every second delivery leaves no room at all, and what comes then is lost with a
  // message on stderr, and not counted.
  void Emplace(uint32_t category, uint32_t kind, const void* payload, size_t bytes);

  // Has everything delivered; waits for it if told to. BUFFER_BUSY on the callback
  // thread, where waiting would never end (upstream hangs).
  rocattach_sdk_status Flush(bool wait);

  rocattach_sdk_buffer_id id() const { return id_; }
  void set_thread(CallbackThread* thread) { thread_ = thread; }

 private:
  // A half collects while the other is delivered.
  struct Half {
    std::vector<std::byte> bytes;
    std::vector<rocattach_sdk_record_header>
        headers;  // payload: offset, until delivery
    size_t used = 0;
  };
  bool HasRoomAtAll();
  void Store(uint32_t category, uint32_t kind, const void* payload, size_t bytes);
  bool TryEmplace(uint32_t category, uint32_t kind, const void* payload, size_t bytes);
  void Deliver();

  const rocattach_sdk_buffer_id id_;
  const rocattach_sdk_context_id context_;
  const size_t size_, watermark_;
  const int32_t policy_;
  const rocattach_sdk_buffer_cb callback_;
  void* const data_;
  CallbackThread* thread_;
  std::mutex mutex_;     // the halves
  std::mutex delivery_;  // one delivery at a time
  Half halves_[2];
  int current_ = 0;
  bool delivery_posted_ = false;
  uint64_t drop_count_ = 0;
};

// nullptr if there is none.
Buffer* FindBuffer(rocattach_sdk_buffer_id id);
// In a forked child: the threads are gone.
void DisableBuffers();

// The callbacks around the creation of threads.
void AddThreadCreateCallbacks(rocattach_sdk_internal_thread_cb before,
                              rocattach_sdk_internal_thread_cb after, int libraries,
                              void* data);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_BUFFER_H_
