// The calls to a durable actor that have not ended yet, in the order they were made. The first tells the
// floor: the caller has its answers to everything below, and the actor need not remember them.
//
// Owner: the route. Thread: under the lane's baton. A call leaves by itself when it is destroyed.
#pragma once

#include <cstdint>

namespace troupe {

class OutstandingCall {
 public:
  OutstandingCall() = default;
  OutstandingCall(const OutstandingCall&) = delete;
  ~OutstandingCall() { leave(); }
  bool listed() const { return in_ != nullptr; }
  void leave();

  std::uint64_t number = 0;  // unique in the process, ascending on a lane

 private:
  friend class Outstanding;
  class Outstanding* in_ = nullptr;
  OutstandingCall *before_ = nullptr, *after_ = nullptr;
};

class Outstanding {
 public:
  Outstanding() = default;
  Outstanding(const Outstanding&) = delete;
  ~Outstanding() {
    while (first_ != nullptr) first_->leave();
  }
  void add(OutstandingCall& call) {
    call.in_ = this;
    call.before_ = last_;
    (last_ != nullptr ? last_->after_ : first_) = &call;
    last_ = &call;
  }
  // `otherwise`: when none is outstanding.
  std::uint64_t floor(std::uint64_t otherwise) const {
    return first_ != nullptr ? first_->number : otherwise;
  }

 private:
  friend class OutstandingCall;
  OutstandingCall *first_ = nullptr, *last_ = nullptr;
};

inline void OutstandingCall::leave() {
  if (in_ == nullptr) return;
  (before_ != nullptr ? before_->after_ : in_->first_) = after_;
  (after_ != nullptr ? after_->before_ : in_->last_) = before_;
  in_ = nullptr;
  before_ = after_ = nullptr;
}

}  // namespace troupe
