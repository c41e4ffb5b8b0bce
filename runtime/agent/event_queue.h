// What the agent tells the head, gathered for a turn of the loop and sent as one message.
//
// Owner: AgentState. Thread: the control thread. Order among the events of one process is kept. Events other
// than output are kept until the head has recorded them, and told again to the next head when the connection
// broke before; the head knows them as repeated. Bounded: output that does not fit is counted as dropped; the
// other events are bounded by the actors of the node.
#pragma once

#include <capnp/message.h>
#include <capnp/orphan.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/control/executor.h"
#include "core/protocol/cluster.capnp.h"

namespace troupe {

class EventQueue {
 public:
  using Recorded = std::function<void(std::uint64_t report)>;
  EventQueue(Executor& loop, Recorded recorded) : loop_(loop), recorded_(std::move(recorded)) {}
  ~EventQueue() noexcept(false) = default;
  EventQueue(const EventQueue&) = delete;

  void connect(wire::Membership::Client membership);
  void disconnect();  // what is not recorded yet waits for the next connect()
  void forget();      // drops all that waits

  // The number of the report that the next event becomes part of; `recorded` names it, and thereby all before
  // it.
  std::uint64_t next_report() const { return next_report_; }

  void forward(capnp::List<wire::NodeEvent>::Reader events);
  void actor_alive(std::uint64_t actor, std::uint32_t incarnation, wire::Endpoint::Reader where,
                   std::uint16_t lane);
  void actor_failed(std::uint64_t actor, std::uint32_t incarnation, const Error& why);
  void process_ended(std::uint64_t process, const Error& how);
  void output(std::uint64_t job, std::uint64_t process, std::string_view line);
  void dropped(std::uint64_t job, std::uint64_t process, std::uint64_t lines);

 private:
  static constexpr std::size_t kMostLines = 20'000;
  static constexpr std::size_t kMostLinesAMessage = 1'000;
  static constexpr int kMostOnTheirWay = 16;
  static constexpr auto kRepeat = 500 * kj::MILLISECONDS;
  struct Output {
    std::uint64_t job, process;
    std::vector<std::string> lines;
    std::uint64_t dropped = 0;
  };

  // Declared with the arena before the orphans, which lie in it.
  struct Report {
    std::uint64_t number;
    std::unique_ptr<capnp::MallocMessageBuilder> arena;
    std::vector<capnp::Orphan<wire::NodeEvent>> events;
    bool sent = false;
  };

  wire::NodeEvent::Builder add();
  void close_report();
  void send(std::size_t outputs, Report* report);
  void answered(std::uint64_t connection, std::uint64_t number, bool recorded);
  Output& output_of(std::uint64_t job, std::uint64_t process);
  void flush_later();
  void flush();

  Executor& loop_;
  kj::Maybe<wire::Membership::Client> membership_;
  // Declared before the orphans, which lie in it.
  std::unique_ptr<capnp::MallocMessageBuilder> arena_;
  std::vector<capnp::Orphan<wire::NodeEvent>> events_;
  std::vector<Output> output_;
  std::size_t lines_ = 0;
  Recorded recorded_;
  std::uint64_t next_report_ = 1;
  std::deque<Report> reports_;    // closed, in order; those in front may be on their way
  std::uint64_t connection_ = 0;  // number of the current one
  int on_their_way_ = 0;
  bool flush_posted_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for posted work
};

}  // namespace troupe
