// An OpenTelemetry collector with scripted answers that keeps the requests it receives.
#ifndef ROCATTACH_TESTS_UNIT_PUSH_SCRIPTED_COLLECTOR_H_
#define ROCATTACH_TESTS_UNIT_PUSH_SCRIPTED_COLLECTOR_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "userspace/base/unique_fd.h"

namespace rocattach::testing_support {

class ScriptedCollector {
 public:
  struct Request {
    std::string head, body;
  };
  // The answer to a request of which nothing was rejected.
  static std::string Ok(const std::string& body = "") {
    return Answer("200 OK", "", body);
  }
  static std::string Answer(const std::string& status, const std::string& headers = "",
                            const std::string& body = "") {
    return absl::StrCat("HTTP/1.1 ", status, "\r\n", headers,
                        "Content-Length: ", body.size(), "\r\n\r\n", body);
  }

  // Sends the answers in order, then Ok(). An empty answer closes the connection.
  explicit ScriptedCollector(std::deque<std::string> answers = {})
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        answers_(std::move(answers)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_.get(), raw, size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), raw, &size), 0);
    url_ = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~ScriptedCollector() {
    // Ends accept() and recv() in Run().
    shutdown(listener_.get(), SHUT_RDWR);
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      if (connection_ >= 0) shutdown(connection_, SHUT_RDWR);
    }
    thread_.join();
  }

  const std::string& url() const { return url_; }
  // Requests get no answers until they are no longer held.
  void Hold(bool hold) {
    absl::MutexLock lock(&mutex_);
    held_ = hold;
  }
  // Waits for `count` requests; returns fewer if they do not come within ten seconds.
  std::vector<Request> Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return requests_.size() >= count; };
    mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(10));
    return requests_;
  }

 private:
  void Run() {
    for (;;) {
      const UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (fd.get() < 0) return;
      {
        absl::MutexLock lock(&mutex_);
        if (stopping_) return;
        connection_ = fd.get();
      }
      while (Serve(fd.get())) {
      }
      absl::MutexLock lock(&mutex_);
      connection_ = -1;
    }
  }

  // Serves one request; returns false at the end of the connection.
  bool Serve(int fd) {
    std::string bytes;
    size_t head = std::string::npos, length = 0;
    while (head == std::string::npos || bytes.size() < head + 4 + length) {
      char piece[65536];
      const ssize_t count = recv(fd, piece, sizeof(piece), 0);
      if (count <= 0) return false;
      bytes.append(piece, static_cast<size_t>(count));
      head = bytes.find("\r\n\r\n");
      const size_t field = bytes.find("Content-Length: ");
      if (head != std::string::npos && field < head) {
        length = std::stoul(bytes.substr(field + 16));
      }
    }
    std::string answer = Ok();
    {
      absl::MutexLock lock(&mutex_);
      requests_.push_back({bytes.substr(0, head + 2), bytes.substr(head + 4)});
      if (!answers_.empty()) {
        answer = answers_.front();
        answers_.pop_front();
      }
    }
    {
      absl::MutexLock lock(&mutex_);
      const auto may_answer = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return !held_ || stopping_;
      };
      mutex_.Await(absl::Condition(&may_answer));
    }
    if (answer.empty()) return false;
    return send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(answer.size());
  }

  const UniqueFd listener_;
  std::string url_;
  absl::Mutex mutex_;
  std::deque<std::string> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  int connection_ ABSL_GUARDED_BY(mutex_) = -1;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_UNIT_PUSH_SCRIPTED_COLLECTOR_H_
