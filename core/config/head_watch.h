// Notices that the head has fallen silent (it hangs, or its machine was stopped: the connection stays open)
// and that another one has taken over, and moves to that.
//
// A head that merely is slow is never left: the move happens when another connection was made and proved
// while no answer came over the present one. Should that lead to the same head, going on again, it is
// dropped.
//
// Owner: NodeAgent, or a driver's Process. Thread: the control thread. Nothing is called after it was
// dropped.
#pragma once

#include <functional>
#include <memory>

#include "core/control/executor.h"
#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"

namespace troupe {

class HeadWatch {
 public:
  static constexpr auto kSilence = 2 * kj::SECONDS;
  static constexpr auto kProof = 500 * kj::MILLISECONDS;  // the present head's last chance
  static constexpr auto kRetry = 500 * kj::MILLISECONDS;
  using Connect = std::function<kj::Promise<kj::Own<RpcConnection>>()>;
  using Move = std::function<void(kj::Own<RpcConnection>)>;

  // Without `connect` it does nothing.
  HeadWatch(Executor& loop, Connect connect, Move move)
      : loop_(loop), connect_(std::move(connect)), move_(std::move(move)) {}

  // Asks the present head whether it lives, unless a question is with it already. To be called now and then.
  void ask(wire::Head::Client& head);
  // For those who ask it themselves: a question that any living head answers at once has left, or was
  // answered.
  void asked();
  void answered();
  void left();  // the present head is lost, or given up: nothing counts until the next one is asked

 private:
  void search(std::uint64_t head);
  bool silent(std::uint64_t head) const { return head == head_ && waits_ && searching_; }

  Executor& loop_;
  Connect connect_;
  Move move_;
  std::uint64_t head_ = 0;  // number of the present one
  bool waits_ = false;      // for an answer, since:
  kj::TimePoint since_ = kj::origin<kj::TimePoint>();
  bool searching_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for tasks on the loop
};

}  // namespace troupe
