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
  // Waits until all tasks posted so far have run. On this thread itself, returns false
  // at once.
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

  // Copies a record into the buffer. A full buffer drops and counts it, or waits for
  // room if it is lossless. At the watermark, the callback thread delivers the records.
  // As upstream, only a lossless buffer has both halves: another one has no room at all
  // after every second delivery, and records that come then are lost with a
  // message on stderr, and not counted.
  void Emplace(uint32_t category, uint32_t kind, const void* payload, size_t bytes);

  // Requests the delivery of everything, and waits for it if `wait` is set. BUFFER_BUSY
  // on the callback thread, where waiting would never end (upstream hangs).
  rocattach_sdk_status Flush(bool wait);

  rocattach_sdk_buffer_id id() const { return id_; }
  void set_thread(CallbackThread* thread) { thread_ = thread; }

 private:
  // One half is filled while the other is delivered.
  struct Half {
    std::vector<std::byte> bytes;
    std::vector<rocattach_sdk_record_header> headers;  // payload points into `bytes`
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
  std::mutex mutex_;     // guards the halves
  std::mutex delivery_;  // one delivery at a time
  Half halves_[2];
  int current_ = 0;
  bool delivery_posted_ = false;
  uint64_t drop_count_ = 0;
};

// nullptr if there is none.
Buffer* FindBuffer(rocattach_sdk_buffer_id id);
// For a forked child, in which the threads do not exist.
void DisableBuffers();

// Adds callbacks for before and after the creation of threads.
void AddThreadCreateCallbacks(rocattach_sdk_internal_thread_cb before,
                              rocattach_sdk_internal_thread_cb after, int libraries,
                              void* data);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_BUFFER_H_
