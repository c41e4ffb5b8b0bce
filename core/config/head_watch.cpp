#include "core/config/head_watch.h"

#include "core/base/log.h"
#include "core/control/kj_error.h"

namespace troupe {

void HeadWatch::ask(wire::Head::Client& head) {
  bool is_asked = waits_;
  asked();
  if (is_asked || !waits_) return;
  auto lives = [this, alive = std::weak_ptr<int>(alive_), number = head_] {
    if (!alive.expired() && number == head_) answered();
  };
  loop_.spawn("asking the head whether it lives",
              head.adminRequest().send().ignoreResult().then(kj::cp(lives), [lives](kj::Exception&& failure) {
                if (error_of(failure).kind != ErrorKind::unavailable) lives();
              }));
}

void HeadWatch::asked() {
  if (!connect_) return;
  auto now = loop_.timer().now();
  if (!std::exchange(waits_, true)) since_ = now;
  if (searching_ || now - since_ < kSilence) return;
  searching_ = true;
  log(Level::warning, "the head does not answer; looking whether another has taken over");
  search(head_);
}

void HeadWatch::answered() { waits_ = searching_ = false; }

void HeadWatch::left() {
  ++head_;
  waits_ = searching_ = false;
}

void HeadWatch::search(std::uint64_t head) {
  std::weak_ptr<int> alive = alive_;
  auto again = [this, alive, head]() -> kj::Promise<void> {
    return loop_.timer().afterDelay(kRetry).then([this, alive, head] {
      if (!alive.expired() && silent(head)) search(head);
    });
  };
  auto found = connect_().then([this, alive, head](kj::Own<RpcConnection> other) -> kj::Promise<void> {
    if (alive.expired() || !silent(head)) return kj::READY_NOW;
    return loop_.timer().afterDelay(kProof).then([this, alive, head, other = kj::mv(other)]() mutable {
      if (alive.expired() || !silent(head)) return;
      log(Level::warning, "another head has answered: leaving the silent one");
      left();
      move_(kj::mv(other));
    });
  });
  loop_.spawn("looking for another head",
              found.catch_([again](kj::Exception&&) -> kj::Promise<void> { return again(); }));
}

}  // namespace troupe
