// A link over the simulated network, as its lane sees one. Between processes of one machine it behaves as
// shared rings do (a doorbell rings a lane that asked for it; death shows at the descriptor), else as TCP
// does (whatever arrives is an event of the descriptor).
//
// Owner: a lane's peer. Thread: the simulation's.
#pragma once

#include <functional>
#include <vector>

#include "core/link/link.h"
#include "tests/sim/network.h"

namespace troupe::sim {

class SimLink final : public Link {
 public:
  // `woken(event)` when the lane's doorbell is rung, or (event) its descriptor has become ready.
  SimLink(std::unique_ptr<Network::Wire> wire, bool shared, int descriptor,
          std::function<void(bool event)> woken);
  ~SimLink() override;

  std::byte* begin_frame(std::size_t size) override;
  void end_frame() override;
  void flush() override;
  bool flush_is_cheap() const override { return shared_; }
  std::size_t receive(Sink& sink, std::size_t max_frames) override;
  bool prepare_sleep() override;
  void cancel_sleep() override { asked_ = false; }
  int descriptor() const override { return descriptor_; }
  void on_ready() override;
  bool closed() const override;
  std::string close_reason() const override { return reason_; }
  std::size_t backlog() const override { return shared_ ? 0 : out_.size(); }
  void close(const std::string& reason) override;

 private:
  void arrived();
  void take();

  std::unique_ptr<Network::Wire> wire_;
  bool shared_;
  int descriptor_;
  std::function<void(bool)> woken_;
  std::vector<std::byte> out_, in_;
  std::size_t read_ = 0;    // of in_
  bool asked_ = false;      // the lane wants to be rung
  bool peer_gone_ = false;  // its end was noticed
  bool closed_ = false;
  std::string reason_;
};

}  // namespace troupe::sim
