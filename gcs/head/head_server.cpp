#include "gcs/head/head_server.h"

#include <chrono>

#include "gcs/head/head_state.h"
#include "gcs/head/servants.h"

namespace troupe::gcs {

HeadServer::HeadServer(kj::Timer& timer, Store& store, Options options) {
  if (!options.now) {
    // A clock that is set moves no deadline: the time of day when the head began, and what has passed since.
    auto ms = [](auto time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time).count(); };
    auto began = std::chrono::system_clock::now().time_since_epoch();
    options.now = [ms, began, since = std::chrono::steady_clock::now()] {
      return static_cast<Time>(ms(began + (std::chrono::steady_clock::now() - since)));
    };
  }
  state_ = std::make_shared<HeadState>(timer, store, std::move(options));
}

HeadServer::~HeadServer() noexcept(false) { state_->close(); }

kj::Promise<void> HeadServer::start() { return state_->start(); }

wire::Head::Client HeadServer::bootstrap() { return kj::heap<HeadServant>(state_); }

kj::Promise<void> HeadServer::shutdown_requested() { return state_->shutdown_requested(); }

void HeadServer::shut_down() { state_->request_shutdown(); }

void HeadServer::set_address(std::string address) { state_->set_address(std::move(address)); }

const ControlStore& HeadServer::core() const { return state_->core(); }

}  // namespace troupe::gcs
