#include "core/control/event_port.h"

#include <asio/post.hpp>
#include <chrono>

#include <capnp/common.h>

namespace troupe {
namespace {

kj::TimePoint kj_now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return kj::origin<kj::TimePoint>() +
         std::chrono::duration_cast<std::chrono::nanoseconds>(since).count() * kj::NANOSECONDS;
}

}  // namespace

AsioEventPort::AsioEventPort(asio::io_context& io) : io_(io), timer_(kj_now()), alarm_(io) {}

void AsioEventPort::attach(kj::EventLoop& loop, kj::WaitScope& scope) {
  loop_ = &loop;
  scope_ = &scope;
  post_pump();
}

void AsioEventPort::detach() {
  loop_ = nullptr;
  scope_ = nullptr;
  alarm_.cancel();
}

bool AsioEventPort::wait() {
  in_wait_ = true;
  KJ_DEFER(in_wait_ = false);
  arm_timer();
  io_.restart();
  io_.run_one();
  advance_time();
  return woken_.exchange(false);
}

bool AsioEventPort::poll() {
  advance_time();
  return woken_.exchange(false);
}

void AsioEventPort::setRunnable(bool runnable) {
  if (runnable) post_pump();
}

void AsioEventPort::wake() const {
  woken_ = true;
  post_pump();
}

void AsioEventPort::post_pump() const {
  if (pump_posted_.exchange(true)) return;
  auto* self = const_cast<AsioEventPort*>(this);
  asio::post(io_, [self] { self->pump(); });
}

void AsioEventPort::pump() {
  pump_posted_ = false;
  // A pump met by wait() has done its work by waking run_one: the waiter turns the loop itself.
  if (loop_ == nullptr || in_wait_) return;
  advance_time();
  loop_->run(kTurnsPerPump);
  if (!loop_->isRunnable()) {
#if CAPNP_VERSION >= 1000000
    scope_->poll(kTurnsPerPump);
#else
    scope_->poll();
#endif
  }
  loop_->run(0);
  if (loop_->isRunnable()) post_pump();
  arm_timer();
}

void AsioEventPort::advance_time() { timer_.advanceTo(kj_now()); }

kj::Promise<void> AsioEventPort::atTime(kj::TimePoint time) {
  auto promise = timer_.atTime(time);
  if (next_timer() < armed_for_) post_pump();
  return promise;
}

kj::Promise<void> AsioEventPort::afterDelay(kj::Duration delay) { return atTime(kj_now() + delay); }

kj::TimePoint AsioEventPort::now() const { return kj_now(); }

std::uint64_t AsioEventPort::next_timer() {
  KJ_IF_MAYBE (time, timer_.nextEvent()) {
    return static_cast<std::uint64_t>((*time - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS);
  }
  return kNoTimer;
}

void AsioEventPort::arm_timer() {
  std::uint64_t next = next_timer();
  if (next == armed_for_) return;
  armed_for_ = next;
  if (next == kNoTimer) {
    alarm_.cancel();
    return;
  }
  alarm_.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(next)));
  alarm_.async_wait([this](const std::error_code& error) {
    if (error) return;
    armed_for_ = kNoTimer;
    pump();
  });
}

}  // namespace troupe
