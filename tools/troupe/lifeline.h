// A command started by another one ends with it: the pipe it inherited is closed when the other ends, however
// it does. And the signals that ask a command to end.
//
// Owner: the command. Thread: the control thread, which the callback runs on, once for each request.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <asio/signal_set.hpp>
#include <functional>
#include <memory>
#include <string>

#include "core/control/loop.h"

namespace troupe::tools {

class EndRequests {
 public:
  // `lifeline` is the number of the pipe's read end, or -1.
  EndRequests(ControlLoop& loop, int lifeline, std::function<void(const std::string& why)> on_request);

 private:
  void wait_for_signal();

  std::function<void(const std::string&)> on_request_;
  asio::signal_set signals_;
  asio::posix::stream_descriptor lifeline_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for handlers that are queued
};

}  // namespace troupe::tools
