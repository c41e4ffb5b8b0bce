// Work: an operation that was submitted. Copyable; any thread. Dropping it changes nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "core/base/error.h"

namespace troupe {

class Work {
 public:
  Work() : state_(std::make_shared<State>()) {}

  bool done() const;
  // Waits for the end: it comes by the operation's deadline, or at once after an abort.
  Result<void> wait() const;
  // False when the limit passed first.
  bool wait_for(std::chrono::nanoseconds limit) const;
  // Calls f with the outcome: on the communicator's thread, or now when it is there already. One f only.
  void then(std::function<void(const Result<void>&)> f) const;

  // For who carries it out. Once.
  void finish(std::optional<Error> error) const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    std::optional<Error> error;
    std::function<void(const Result<void>&)> continuation;
  };
  Result<void> outcome() const;

  std::shared_ptr<State> state_;
};

}  // namespace troupe
