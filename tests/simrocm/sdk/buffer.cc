#include "tests/simrocm/sdk/buffer.h"

#include <pthread.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/version.h"

namespace simrocm::sdk {
namespace {

struct ThreadCreateCallbacks {
  rocattach_sdk_internal_thread_cb before, after;
  int libraries;
  void* data;
};

struct Buffers {
  std::mutex mutex;
  std::vector<Buffer*> all;  // by id; destroyed ones are nullptr and leak on purpose
  std::vector<CallbackThread*> threads;
  std::vector<ThreadCreateCallbacks> callbacks;
  std::atomic<bool> disabled{false};
};

Buffers& Get() {
  static auto* buffers = new Buffers;
  return *buffers;
}

constexpr uint64_t kFirstBuffer = 0x2b00;
constexpr uint64_t kFirstThread = 1;

size_t Aligned(size_t bytes) {
  return (bytes + 7) & ~size_t{7};
}

// Buffers that were given no thread share the first one. Call with the mutex held.
CallbackThread* DefaultThread(Buffers& buffers) {
  if (buffers.threads.empty()) {
    buffers.threads.push_back(new CallbackThread);
    buffers.threads.back()->Start();
  }
  return buffers.threads.front();
}

}  // namespace

void CallbackThread::Start() {
  auto callbacks = Get().callbacks;
  for (const auto& callback : callbacks) {
    if (callback.libraries & ROCATTACH_SDK_LIBRARY_SDK && callback.before != nullptr) {
      callback.before(ROCATTACH_SDK_LIBRARY_SDK, callback.data);
    }
  }
  std::thread([this] { Run(); }).detach();
  for (const auto& callback : callbacks) {
    if (callback.libraries & ROCATTACH_SDK_LIBRARY_SDK && callback.after != nullptr) {
      callback.after(ROCATTACH_SDK_LIBRARY_SDK, callback.data);
    }
  }
}

void CallbackThread::Run() {
  std::unique_lock lock(mutex_);
  thread_id_ = ThreadId();
  for (;;) {
    changed_.wait(lock, [this] { return !tasks_.empty(); });
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

void CallbackThread::Post(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  ++posted_;
  changed_.notify_all();
}

bool CallbackThread::Wait() {
  std::unique_lock lock(mutex_);
  if (thread_id_ == ThreadId()) return false;
  uint64_t until = posted_;
  changed_.wait(lock, [&] { return done_ >= until; });
  return true;
}

Buffer::Buffer(rocattach_sdk_buffer_id id, rocattach_sdk_context_id context,
               size_t size, size_t watermark, int32_t policy,
               rocattach_sdk_buffer_cb callback, void* data)
    : id_(id),
      context_(context),
      size_(size),
      watermark_(watermark),
      policy_(policy),
      callback_(callback),
      data_(data),
      thread_(nullptr) {
  halves_[0].bytes.resize(size);
  if (policy != ROCATTACH_SDK_POLICY_DISCARD) halves_[1].bytes.resize(size);
}

bool Buffer::HasRoomAtAll() {
  std::lock_guard lock(mutex_);
  return !halves_[current_].bytes.empty();
}

bool Buffer::TryEmplace(uint32_t category, uint32_t kind, const void* payload,
                        size_t bytes) {
  std::lock_guard lock(mutex_);
  Half& half = halves_[current_];
  if (half.used + Aligned(bytes) > half.bytes.size()) return false;
  memcpy(half.bytes.data() + half.used, payload, bytes);
  half.headers.push_back({category, kind, half.bytes.data() + half.used});
  half.used += Aligned(bytes);
  return true;
}

// Tracing records begin with their size. From 1.4 on the simulated ones are larger than
// tools expect, and for each there is one of a kind that no tool knows.
void Buffer::Emplace(uint32_t category, uint32_t kind, const void* payload,
                     size_t bytes) {
  if (category != ROCATTACH_SDK_CATEGORY_TRACING || !TheVersion().IsAtLeast(4, 0)) {
    return Store(category, kind, payload, bytes);
  }
  constexpr size_t kGrown = 24;
  constexpr uint32_t kUnknownKind = 61;
  std::vector<std::byte> grown(bytes + kGrown, std::byte{0xa5});
  memcpy(grown.data(), payload, bytes);
  const uint64_t size = grown.size();
  memcpy(grown.data(), &size, sizeof(size));
  Store(category, kUnknownKind, grown.data(), grown.size());
  Store(category, kind, grown.data(), grown.size());
}

void Buffer::Store(uint32_t category, uint32_t kind, const void* payload,
                   size_t bytes) {
  if (Get().disabled) return;
  if (!HasRoomAtAll()) {
    fprintf(stderr,
            "[rocprofiler-sdk] buffer %llu is too small (size=0) for a record of %zu "
            "bytes\n",
            static_cast<unsigned long long>(id_.handle), bytes);
    return;
  }
  bool stored = TryEmplace(category, kind, payload, bytes);
  if (!stored && policy_ == ROCATTACH_SDK_POLICY_LOSSLESS && Aligned(bytes) <= size_) {
    do {
      // On the callback thread itself no room can be made: drop the record there.
      if (Flush(/*wait=*/true) != ROCATTACH_SDK_STATUS_SUCCESS) break;
      stored = TryEmplace(category, kind, payload, bytes);
    } while (!stored);
  }
  bool full = false;
  {
    std::lock_guard lock(mutex_);
    if (!stored) ++drop_count_;
    full = halves_[current_].used >= watermark_;
  }
  if (full) Flush(/*wait=*/false);
}

rocattach_sdk_status Buffer::Flush(bool wait) {
  if (FiniStatus() > 0) return ROCATTACH_SDK_STATUS_ERROR_FINALIZED;
  if (Get().disabled) return ROCATTACH_SDK_STATUS_SUCCESS;
  {
    // One delivery takes everything: no need to queue up more than one.
    std::lock_guard lock(mutex_);
    if (!delivery_posted_) {
      delivery_posted_ = true;
      thread_->Post([this] { Deliver(); });
    }
  }
  if (!wait) return ROCATTACH_SDK_STATUS_SUCCESS;
  return thread_->Wait() ? ROCATTACH_SDK_STATUS_SUCCESS
                         : ROCATTACH_SDK_STATUS_ERROR_BUFFER_BUSY;
}

void Buffer::Deliver() {
  std::lock_guard delivery(delivery_);
  Half* half = nullptr;
  uint64_t drops = 0;
  {
    std::lock_guard lock(mutex_);
    delivery_posted_ = false;
    half = &halves_[current_];
    current_ ^= 1;
    drops = drop_count_;
  }
  if (half->headers.empty()) return;
  std::vector<rocattach_sdk_record_header*> headers;
  for (auto& header : half->headers) headers.push_back(&header);
  if (callback_ != nullptr) {
    callback_(context_, id_, headers.data(), headers.size(), data_, drops);
  }
  std::lock_guard lock(mutex_);
  half->headers.clear();
  half->used = 0;
}

Buffer* FindBuffer(rocattach_sdk_buffer_id id) {
  Buffers& buffers = Get();
  std::lock_guard lock(buffers.mutex);
  if (id.handle < kFirstBuffer || id.handle - kFirstBuffer >= buffers.all.size()) {
    return nullptr;
  }
  return buffers.all[id.handle - kFirstBuffer];
}

void DisableBuffers() {
  Get().disabled = true;
}

void AddThreadCreateCallbacks(rocattach_sdk_internal_thread_cb before,
                              rocattach_sdk_internal_thread_cb after, int libraries,
                              void* data) {
  std::lock_guard lock(Get().mutex);
  Get().callbacks.push_back({before, after, libraries, data});
}

}  // namespace simrocm::sdk

using namespace simrocm::sdk;

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_create_buffer(
    rocattach_sdk_context_id context, size_t size, size_t watermark, int32_t policy,
    rocattach_sdk_buffer_cb callback, void* callback_data,
    rocattach_sdk_buffer_id* id) {
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  if (FindBuffer(*id) != nullptr) {
    return ROCATTACH_SDK_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED;
  }
  Buffers& buffers = Get();
  std::lock_guard lock(buffers.mutex);
  id->handle = kFirstBuffer + buffers.all.size();
  auto* buffer =
      new Buffer(*id, context, size, watermark, policy, callback, callback_data);
  buffer->set_thread(DefaultThread(buffers));
  buffers.all.push_back(buffer);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_destroy_buffer(rocattach_sdk_buffer_id id) {
  if (FindBuffer(id) == nullptr) return ROCATTACH_SDK_STATUS_ERROR_BUFFER_NOT_FOUND;
  std::lock_guard lock(Get().mutex);
  Get().all[id.handle - kFirstBuffer] = nullptr;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_flush_buffer(rocattach_sdk_buffer_id id) {
  if (FiniStatus() > 0) return ROCATTACH_SDK_STATUS_ERROR_FINALIZED;
  Buffer* buffer = FindBuffer(id);
  if (buffer == nullptr) return ROCATTACH_SDK_STATUS_ERROR_BUFFER_NOT_FOUND;
  return buffer->Flush(/*wait=*/true);
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_create_callback_thread(rocattach_sdk_callback_thread* id) {
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  Buffers& buffers = Get();
  std::lock_guard lock(buffers.mutex);
  DefaultThread(buffers);
  id->handle = kFirstThread + buffers.threads.size();
  buffers.threads.push_back(new CallbackThread);
  buffers.threads.back()->Start();
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_assign_callback_thread(
    rocattach_sdk_buffer_id buffer_id, rocattach_sdk_callback_thread id) {
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  Buffer* buffer = FindBuffer(buffer_id);
  Buffers& buffers = Get();
  std::lock_guard lock(buffers.mutex);
  if (id.handle < kFirstThread || id.handle - kFirstThread >= buffers.threads.size()) {
    return ROCATTACH_SDK_STATUS_ERROR_THREAD_NOT_FOUND;
  }
  if (buffer == nullptr) return ROCATTACH_SDK_STATUS_ERROR_BUFFER_NOT_FOUND;
  buffer->set_thread(buffers.threads[id.handle - kFirstThread]);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_at_internal_thread_create(
    rocattach_sdk_internal_thread_cb before, rocattach_sdk_internal_thread_cb after,
    int libraries, void* data) {
  AddThreadCreateCallbacks(before, after, libraries, data);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}
