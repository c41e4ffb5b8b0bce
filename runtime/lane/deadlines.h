// The calls of a lane that have a deadline, ordered by it: a binary heap in which each call knows its place,
// so that a call that ends early leaves at once. Under the baton only.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

class CallState;

class Deadlines {
 public:
  bool empty() const { return heap_.empty(); }
  std::int64_t next() const { return heap_.front().at; }  // precondition: not empty
  void add(CallState& call, std::int64_t at);
  void remove(CallState& call);  // nothing when it is not in
  // Fails every call whose deadline is at or before `now`; the lane cancels them at their callee.
  CallState* pop_expired(std::int64_t now);

 private:
  struct Entry {
    std::int64_t at;
    CallState* call;
  };
  void place(std::size_t at, Entry entry);
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);

  std::vector<Entry> heap_;
};

}  // namespace troupe
