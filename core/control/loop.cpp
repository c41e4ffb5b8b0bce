#include "core/control/loop.h"

#include <asio/post.hpp>

#include "core/base/log.h"
#include "core/control/kj_error.h"

namespace troupe {

struct ControlLoop::LogFailures final : kj::TaskSet::ErrorHandler {
  void taskFailed(kj::Exception&& failure) override {
    // A peer that goes away is reported by whoever watches it.
    if (failure.getType() == kj::Exception::Type::DISCONNECTED) return;
    log(Level::warning, "background task failed: " + error_of(failure).describe());
  }
};

ControlLoop::ControlLoop()
    : port_(io_),
      loop_(port_),
      scope_(loop_),
      on_failure_(kj::heap<LogFailures>()),
      tasks_(kj::heap<kj::TaskSet>(*on_failure_)) {
  port_.attach(loop_, scope_);
}

ControlLoop::~ControlLoop() noexcept(false) {
  tasks_ = nullptr;
  // Handlers that streams left behind hold no KJ objects any more; let them run so that they free their
  // state.
  io_.restart();
  io_.poll();
  port_.detach();
}

void ControlLoop::run() {
  // Pumps that a promise.wait() met did nothing: whatever it left runnable is seen to now.
  port_.attach(loop_, scope_);
  while (!stopping_) {
    try {
      io_.restart();  // a promise.wait() may have left it stopped
      if (!stopping_) io_.run();
    } catch (const std::exception& e) {
      log(Level::error, std::string("control thread: exception escaped a handler: ") + e.what());
    } catch (const kj::Exception& e) {
      log(Level::error, "control thread: exception escaped a handler: " + error_of(e).describe());
    }
  }
}

void ControlLoop::stop() {
  stopping_ = true;
  io_.stop();
}

void ControlLoop::post(std::function<void()> work) { asio::post(io_, std::move(work)); }

void ControlLoop::spawn(const char* what, kj::Promise<void> promise) {
  tasks_->add(promise.catch_([what](kj::Exception&& failure) {
    if (failure.getType() == kj::Exception::Type::DISCONNECTED) return;
    log(Level::warning, std::string(what) + " failed: " + error_of(failure).describe());
  }));
}

}  // namespace troupe
