// What the agent tells the head, gathered for a turn of the loop and sent as one message.
//
// Owner: AgentState. Thread: the control thread. Order among the events of one process is kept. Bounded:
// output that does not fit is counted as dropped; the other events are bounded by the actors of the node.
#pragma once

#include <capnp/message.h>
#include <capnp/orphan.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/error.h"
#include "core/control/executor.h"
#include "core/protocol/cluster.capnp.h"

namespace troupe {

class EventQueue {
 public:
  explicit EventQueue(Executor& loop) : loop_(loop) {}
  ~EventQueue() noexcept(false) = default;
  EventQueue(const EventQueue&) = delete;

  void connect(wire::Membership::Client membership);
  void disconnect();  // what comes later is forgotten

  void forward(capnp::List<wire::NodeEvent>::Reader events);
  void actor_failed(std::uint64_t actor, std::uint32_t incarnation, const Error& why);
  void process_ended(std::uint64_t process, const Error& how);
  // It has ended, and the head may not have heard of it yet: its commands may still name the process.
  bool unheard(std::uint64_t process) const { return unheard_.count(process) > 0; }
  void output(std::uint64_t job, std::uint64_t process, std::string_view line);
  void dropped(std::uint64_t job, std::uint64_t process, std::uint64_t lines);

 private:
  static constexpr std::size_t kMostLines = 20'000;
  static constexpr std::size_t kMostLinesAMessage = 1'000;
  static constexpr int kMostOnTheirWay = 16;
  struct Output {
    std::uint64_t job, process;
    std::vector<std::string> lines;
    std::uint64_t dropped = 0;
  };

  wire::NodeEvent::Builder add();
  Output& output_of(std::uint64_t job, std::uint64_t process);
  void flush_later();
  void flush();

  Executor& loop_;
  kj::Maybe<wire::Membership::Client> membership_;
  // Declared before the orphans, which lie in it.
  std::unique_ptr<capnp::MallocMessageBuilder> arena_;
  std::vector<capnp::Orphan<wire::NodeEvent>> events_;
  std::unordered_set<std::uint64_t> unheard_;
  std::vector<std::uint64_t> ended_;  // among events_
  std::vector<Output> output_;
  std::size_t lines_ = 0;
  int on_their_way_ = 0;
  bool flush_posted_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for posted work
};

}  // namespace troupe
