// Assigns correlation ids as rocprofv3 does: an operation has the id of the API call
// that submitted it, and no other record has the same id. In recordings the collector
// numbers operations and rocprofiler-sdk numbers calls, both from 1.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_LAUNCH_LINKS_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_LAUNCH_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "userspace/abi/records.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

// A dispatch as it was recorded, and the correlation id that it gets.
struct LinkedDispatch {
  rocattach_dispatch record;
  uint64_t correlation_id;
};

// Links the operations of one process. An operation belongs to the innermost HSA, HIP
// or RCCL call that its thread was in when it was submitted. A call is recorded when it
// returns, an operation when it has completed, so either may come first; inner calls
// come before outer ones. Operations wait for their calls, and others wait behind them,
// so that all keep their order; calls are remembered. Both have limits: an operation
// beyond these is left unlinked, and never linked wrongly. An operation stops waiting
// once an outermost call has begun after it on its thread: calls around the operation
// have ended before that, and are recorded.
class LaunchLinks {
 public:
  // Bit that is set in the ids of one of the two numberings, so that these are
  // disjoint: in those of operations without a call or, if the process had operations
  // before anything else, in those of its calls.
  static constexpr uint64_t kOtherCount = uint64_t{1} << 48;
  // Bit that is set in the ids of samples of whole GPUs.
  static constexpr uint64_t kSampleCount = uint64_t{1} << 49;
  // Time of the recording for which an operation waits for its call.
  static constexpr uint64_t kMaxWaitNs = 1'000'000'000;

  // Sets the maximum numbers of operations that wait and of calls that are remembered.
  void set_window(size_t waiting, size_t calls) {
    max_waiting_ = waiting;
    max_calls_ = calls;
  }
  // To be called if the process has API functions: calls may come, and operations wait
  // for them. `may_launch`: these are functions of HSA, HIP or RCCL.
  void ExpectCalls(bool may_launch);

  void Add(absl::Span<const rocattach_dispatch> records);
  void Add(absl::Span<const rocattach_copy> records);
  // Calls of any domain, as recorded.
  void Add(absl::Span<const ApiCallRecord> calls);
  // To be called for records that are not passed to Add(), before the ids of these are
  // taken from the functions below. Memory records are numbered with the calls.
  void BeforeOperations() { Decide(true); }
  void BeforeCalls() { Decide(false); }

  // Gives up on operations that were already waiting at the previous call of this, so
  // that none waits for long; on all of them if `all` is set.
  void Release(bool all);

  // Operations whose ids are known now, in the order of the recording; the caller
  // empties both lists.
  std::vector<LinkedDispatch>* dispatches() { return &dispatches_; }
  std::vector<rocattach_copy>* copies() { return &copies_; }

  // Ids of records that are numbered with the calls, and of operations without a call.
  uint64_t OfCall(uint64_t id) const {
    return calls_marked_ && id != 0 ? id | kOtherCount : id;
  }
  uint64_t OfOperation(uint64_t id) const {
    return calls_marked_ ? id : id | kOtherCount;
  }
  bool calls_marked() const { return calls_marked_; }

 private:
  struct Call {
    uint64_t begin_ns, end_ns, id;
    uint64_t parent;  // number of the call around it; 0: not known
    bool outermost;   // as recorded
  };
  // Calls of a thread in the order of their ends, numbered from 1.
  struct Thread {
    std::deque<Call> calls;
    uint64_t first = 1;          // number of calls.front()
    std::deque<uint64_t> roots;  // numbers of calls without a parent so far
    uint64_t settled_ns = 0;     // the latest begin of an outermost call
    const Call& At(uint64_t number) const { return calls[number - first]; }
  };
  // An operation whose call is not known yet.
  struct Waiting {
    uint64_t enqueue_ns;
    uint64_t number;
    auto operator<=>(const Waiting&) const = default;
  };
  // The waiting operations of a thread, sorted.
  using WaitingQueue = std::deque<Waiting>;
  struct Operation {
    uint64_t since_ns;  // newest_ns_ when it was added
    uint64_t id;
    bool known;  // true if `id` is known
    bool copy;
    union {
      rocattach_dispatch dispatch;
      rocattach_copy of_copy;
    };
    uint64_t own_id() const {
      return copy ? of_copy.correlation_id : dispatch.correlation_id;
    }
  };

  void Decide(bool operation_first);
  template <typename Record>
  void AddOperation(const Record& record);
  // The id of the call that an operation belongs to; 0: none; nothing: not known yet.
  std::optional<uint64_t> Find(uint32_t tid, uint64_t enqueue_ns) const;
  void AddCall(const ApiCallRecord& call);
  bool IsOutermost(const ApiCallRecord& call) const;
  void Wait(uint32_t tid, Waiting operation);
  // Ends the wait of the thread's operations that were submitted while `call` ran,
  // which belong to it, or before it, if it is outermost.
  void Settle(const ApiCallRecord& call, WaitingQueue* waiting);
  void Remember(const ApiCallRecord& call);
  void ForgetOldest();
  // Gives up on the oldest operation, which is waiting.
  void ReleaseOldest();
  void ReleaseDue();
  size_t waiting() const { return operations_.size() - head_; }
  Operation& At(uint64_t number) {
    return operations_[head_ + static_cast<size_t>(number - first_number_)];
  }
  // Emits the operations at the front whose ids are known.
  void EmitKnown();
  void Emit(const rocattach_dispatch& record, uint64_t id);
  void Emit(const rocattach_copy& record, uint64_t id);

  size_t max_waiting_ = size_t{1} << 16;
  size_t max_calls_ = size_t{1} << 18;
  bool decided_ = false, calls_marked_ = false;
  bool calls_expected_ = false, launches_expected_ = false;
  uint64_t newest_ns_ = 0;  // of all records so far
  absl::flat_hash_map<uint32_t, Thread> threads_;
  std::deque<uint32_t> call_order_;    // threads of the remembered calls
  std::vector<Operation> operations_;  // from head_ on; the first one of these waits
  size_t head_ = 0;
  uint64_t first_number_ = 1;                            // the number of that first one
  absl::flat_hash_map<uint32_t, WaitingQueue> waiting_;  // by thread
  // True if calls were found inside others that their records do not name.
  bool nesting_unknown_ = false;
  uint64_t released_before_ = 1;  // lower numbers were there at the last Release()
  std::vector<const ApiCallRecord*> sorted_;
  std::vector<LinkedDispatch> dispatches_;
  std::vector<rocattach_copy> copies_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_LAUNCH_LINKS_H_
