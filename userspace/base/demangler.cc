#include "userspace/base/demangler.h"

// libiberty's demangler, the one behind abi::__cxa_demangle. This form of it uses no
// heap memory and returns its text in pieces, so it can be abandoned at any time. Its
// header would declare basename() in a way that C++ does not accept.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// The signal after that of WaitAlarm.
int LimitSignal() {
  return SIGRTMAX - 5;
}

// The outcome of demangling a name.
enum Outcome : int { kDone = 0, kNoSymbol, kTextLimit, kTimeLimit };

// The work on one name. Plain data, because longjmp may leave it.
struct Work {
  sigjmp_buf limit;
  char* text;
  size_t room;
  size_t size;
};

// The calling thread's current work, for the signal handler.
thread_local Work* volatile current = nullptr;

void OnTimeLimit(int) {
  if (Work* work = current; work != nullptr) siglongjmp(work->limit, kTimeLimit);
}

// Called once per process. False if the signal is used for something else.
bool InstallHandler() {
  struct sigaction action = {}, old = {};
  if (sigaction(LimitSignal(), nullptr, &old) != 0) return false;
  if ((old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL) return false;
  action.sa_handler = OnTimeLimit;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return sigaction(LimitSignal(), &action, nullptr) == 0;
}

// Sends the calling thread the signal when it has used this much CPU time.
class TimeLimit {
 public:
  explicit TimeLimit(uint64_t limit_ns) {
    static const bool installed = InstallHandler();
    if (!installed) return;
    sigemptyset(&signals_);
    sigaddset(&signals_, LimitSignal());
    if (pthread_sigmask(SIG_UNBLOCK, &signals_, &before_) != 0) return;
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = LimitSignal();
    event._sigev_un._tid = gettid();
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) != 0) {
      pthread_sigmask(SIG_SETMASK, &before_, nullptr);
      return;
    }
    itimerspec time = {};
    time.it_value.tv_sec = static_cast<time_t>(limit_ns / 1'000'000'000);
    time.it_value.tv_nsec = static_cast<long>(limit_ns % 1'000'000'000);
    armed_ = timer_settime(timer_, 0, &time, nullptr) == 0;
    created_ = true;
  }
  ~TimeLimit() {
    if (!created_) return;
    // A signal that is still pending then has no effect.
    timer_delete(timer_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  bool armed() const { return armed_; }

 private:
  bool created_ = false, armed_ = false;
  timer_t timer_ = {};
  sigset_t signals_ = {}, before_ = {};
};

void StorePiece(const char* piece, size_t size, void* opaque) {
  Work* work = static_cast<Work*>(opaque);
  if (size > work->room - work->size) siglongjmp(work->limit, kTextLimit);
  memcpy(work->text + work->size, piece, size);
  work->size += size;
}

// Nothing in here or below has a destructor: both limits jump out of it.
Outcome Run(const char* symbol, Work* work) {
  const int left = sigsetjmp(work->limit, /*savemask=*/1);
  if (left != 0) {
    current = nullptr;
    return static_cast<Outcome>(left);
  }
  current = work;
  // The length of the symbol bounds how deep the parser goes (by default, names longer
  // than 1,024 characters would be refused); printing has its own bound.
  const int known = cplus_demangle_v3_callback(
      symbol, DMGL_PARAMS | DMGL_TYPES | DMGL_NO_RECURSE_LIMIT, StorePiece, work);
  current = nullptr;
  return known != 0 ? kDone : kNoSymbol;
}

}  // namespace

bool Demangler::Compute(const std::string& symbol, std::string* text) {
  if (wasted_ns_ >= limits_.wasted_ns) {
    ++given_up_;
    return false;
  }
  text->resize(limits_.text_bytes);
  Work work = {};
  work.text = text->data();
  work.room = text->size();
  const uint64_t begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
  Outcome outcome = kTimeLimit;
  {
    TimeLimit limit(limits_.name_ns);
    if (limit.armed()) outcome = Run(symbol.c_str(), &work);
  }
  text->resize(outcome == kDone ? work.size : 0);
  text->shrink_to_fit();
  if (outcome == kDone) return true;
  wasted_ns_ += ClockNs(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
  if (outcome != kNoSymbol) ++given_up_;
  return false;
}

std::string Demangler::Demangle(absl::string_view symbol) {
  if (symbol.size() < 3 || symbol.size() > limits_.symbol_bytes ||
      symbol.substr(0, 2) != "_Z" || symbol.find('\0') != symbol.npos) {
    return std::string(symbol);
  }
  if (auto known = cache_.find(symbol); known != cache_.end()) return known->second;
  const std::string name(symbol);
  std::string text;
  if (!Compute(name, &text)) text = name;
  const size_t bytes = name.size() + text.size();
  if (bytes > limits_.cache_bytes) return text;
  if (cached_bytes_ + bytes > limits_.cache_bytes) {
    cache_.clear();
    cached_bytes_ = 0;
  }
  cached_bytes_ += bytes;
  cache_.emplace(name, text);
  return text;
}

}  // namespace rocattach
