// Where an object came from: the call whose result refers to it, kept by those references of this process
// that are that result, so that the call can be made again when the object is lost (CallOptions::recompute).
//
// Owner: shared by the references. Any thread; the work is done on lanes. What it was made from
// (`sources`) is made again first. Bounded: one call at a time, as many as were allowed, kAttempt for each
// attempt; each reader waits for its own time only; kMostDepth calls that follow from each other, of which
// the last keeps no origin. Errors: object_lost, because of what ended the last attempt; deadline_exceeded.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/objects/object_client.h"
#include "troupe/future.h"

namespace troupe::detail {

class ObjectOrigin : public std::enable_shared_from_this<ObjectOrigin> {
 public:
  using Handle = Ref<ObjectHandle>;
  // Makes the call once more, which ends within that time.
  using Again = std::function<Future<Handle>(std::chrono::milliseconds limit)>;
  using Sources = std::vector<std::shared_ptr<ObjectOrigin>>;
  static constexpr std::chrono::milliseconds kAttempt{60'000};
  static constexpr int kMostDepth = 256;

  ObjectOrigin(Handle made, int times, Sources sources, Again again)
      : sources_(std::move(sources)),
        again_(std::move(again)),
        times_(times),
        depth_(depth_over(sources_)),
        current_(std::move(made)),
        left_(times) {}

  // Of an origin over these: 1 without any.
  static int depth_over(const Sources& sources);
  Handle current() const;
  // Opens the object; makes it again when it turns out to be lost.
  Future<ObjectBytes> open(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;
  using Opened = Ref<FutureState<ObjectBytes>>;
  using Renewed = std::function<void(Result<void>)>;

  void attempt(Opened state, Clock::time_point until);
  void renew(const Handle& lost, Renewed then);
  void renew_sources(std::size_t from, Clock::time_point until);
  void call(Clock::time_point until);
  void called(Result<Handle> made, Clock::time_point until);
  void answer(const Result<void>& result);

  const Sources sources_;
  const Again again_;
  const int times_, depth_;
  mutable std::mutex mutex_;  // guards what follows
  Handle current_;
  int left_;
  std::vector<Renewed> waiting_;  // for the attempt under way; none: there is no attempt
};

// What a result must be to be made again: specialised where it can (object.h).
template <class Value>
struct Recomputable {
  static constexpr bool possible = false;
};

}  // namespace troupe::detail
