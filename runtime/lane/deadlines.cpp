#include "runtime/lane/deadlines.h"

#include "runtime/call/call_state.h"

namespace troupe {

void Deadlines::place(std::size_t at, Entry entry) {
  heap_[at] = entry;
  entry.call->in_flight.timer = static_cast<std::uint32_t>(at + 1);
}

void Deadlines::sift_up(std::size_t at) {
  Entry entry = heap_[at];
  while (at > 0) {
    std::size_t parent = (at - 1) / 2;
    if (heap_[parent].at <= entry.at) break;
    place(at, heap_[parent]);
    at = parent;
  }
  place(at, entry);
}

void Deadlines::sift_down(std::size_t at) {
  Entry entry = heap_[at];
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].at < heap_[child].at) ++child;
    if (entry.at <= heap_[child].at) break;
    place(at, heap_[child]);
    at = child;
  }
  place(at, entry);
}

void Deadlines::add(CallState& call, std::int64_t at) {
  heap_.push_back({at, &call});
  sift_up(heap_.size() - 1);
}

void Deadlines::remove(CallState& call) {
  if (call.in_flight.timer == 0) return;
  std::size_t at = call.in_flight.timer - 1;
  call.in_flight.timer = 0;
  Entry last = heap_.back();
  heap_.pop_back();
  if (last.call == &call) return;
  heap_[at] = last;
  sift_up(at);
  sift_down(last.call->in_flight.timer - 1);
}

CallState* Deadlines::pop_expired(std::int64_t now) {
  if (heap_.empty() || heap_.front().at > now) return nullptr;
  CallState* call = heap_.front().call;
  remove(*call);
  return call;
}

}  // namespace troupe
