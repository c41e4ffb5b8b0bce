// Communicator: one rank of one generation of a group. Carries out collectives and messages between ranks, in
// the order in which they were submitted.
//
//   Communicator group(options, exchange);
//   group.connect();                                  // every rank
//   group.all_reduce(gradients, ReduceOp::average).wait();
//
// All ranks call the same collectives in the same order; send and recv pair up by rank and order. Each begins
// with a check between the ranks (check.h): when they do not agree, all of them get the same
// invalid_argument, which names the ranks, nothing is changed, and the communicator goes on.
//
// Everything else that fails breaks the communicator for good: a deadline that passed, a lost connection,
// abort(). The operation under way and all others, now and later, end with that error. After a deadline the
// error has the flight record of this rank as its cause, and what the records of all ranks show.
//
// Owner: anybody. Any thread may call; operations run on a thread of the communicator's own, or, when nothing
// else is queued, on a thread that waits in run(). Tensors are kept alive until the operation has ended and
// must not be touched meanwhile. After an error outputs hold anything. The destructor aborts and waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "core/auth/token.h"
#include "runtime/group/agreement.h"
#include "runtime/group/data_path.h"
#include "runtime/group/exchange.h"
#include "runtime/group/flight_recorder.h"
#include "runtime/group/operation.h"
#include "runtime/group/work.h"

namespace troupe {

// What carries the messages between ranks; the same for all of a group.
enum class Transport {
  sockets,  // socket_mesh.h
  gloo,     // gloo_mesh.h: its ports ask for no token
};

struct CommunicatorOptions {
  int rank = 0, size = 1;
  std::uint64_t generation = 1;
  std::string host = "127.0.0.1";  // the address of this machine that the other ranks reach
  std::optional<Token> token;      // the cluster's: proves the connections between several ranks
  Transport transport = Transport::sockets;
  Device device;      // of its tensors: the CPU, or one GPU (NCCL)
  std::string place;  // that no other rank may share, as a GPU of a machine; empty: none
  std::chrono::nanoseconds limit = std::chrono::minutes(5);  // of operations that give none
  // After a lost connection: how long abort() may take to bring a better reason than that.
  std::chrono::nanoseconds grace = std::chrono::milliseconds(100);
  // After a deadline: how long the records of other ranks are waited for.
  std::chrono::nanoseconds collecting = std::chrono::seconds(1);
  std::size_t most_queued = 4096;  // operations; more are refused as overloaded
};

class Communicator;

// What split() makes of a rank: its communicator in the part, none where it is in no part, and the part's
// ranks as the whole group numbers them.
struct SubGroup {
  std::shared_ptr<Communicator> communicator;
  std::vector<int> ranks;
};

class Communicator {
 public:
  using Limit = std::chrono::nanoseconds;  // from now; zero: that of the options

  Communicator(CommunicatorOptions options, std::shared_ptr<Exchange> exchange);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const CommunicatorOptions& options() const { return options_; }

  // The first operation: meets the other ranks and connects to them.
  Work connect(Limit limit = {});

  Work barrier(Limit limit = {});
  // From the root's tensor to those of all.
  Work broadcast(Tensor tensor, int root, Limit limit = {});
  // Each element becomes the combination of that element of all ranks.
  Work all_reduce(Tensor tensor, ReduceOp op, Limit limit = {}) {
    return all_reduce(tensor, tensor, op, limit);
  }
  Work all_reduce(Tensor in, Tensor out, ReduceOp op, Limit limit = {});
  // The same, for the root alone; others may leave `out` undefined.
  Work reduce(Tensor in, Tensor out, ReduceOp op, int root, Limit limit = {});
  // Combines and deals out: `in` is as large as the outputs of all ranks together, which lie in it by rank.
  Work reduce_scatter(Tensor in, Tensor out, ReduceOp op, Limit limit = {});
  // `out` takes the inputs of all ranks, by rank. Inputs may differ in size.
  Work all_gather(Tensor in, Tensor out, Limit limit = {});
  Work gather(Tensor in, Tensor out, int root, Limit limit = {});   // `out` at the root alone
  Work scatter(Tensor in, Tensor out, int root, Limit limit = {});  // `in` at the root alone
  // From each to each: `counts[r]` elements of `in` go to rank r; none given: equal parts.
  Work all_to_all(Tensor in, Tensor out, std::vector<std::int64_t> counts = {}, Limit limit = {});
  Work send(Tensor tensor, int to, Limit limit = {});
  Work recv(Tensor tensor, int from, Limit limit = {});

  // Cuts the group into parts: ranks with one color (0 or more) are together, ordered by key, then by rank.
  // Every rank calls it. Ends when the parts are connected. What breaks this communicator by abort(), or by
  // an operation that fails, breaks the parts as well; not the other way round.
  Work split(int color, int key, std::shared_ptr<SubGroup> out, Limit limit = {});

  Work submit(Operation operation);       // with a deadline of its own, or 0
  Result<void> run(Operation operation);  // the same, and waits; the quickest way for small ones

  // Ends the operation under way and all others with `why`. Any thread; returns at once; the first one
  // counts.
  void abort(const Error& why);
  // Why it is broken; nothing while it is not.
  std::optional<Error> broken() const;
  RankReport report() const { return recorder_.report(); }

 private:
  struct Item {
    Operation operation;
    Work work;
    std::uint64_t record = 0;    // of the flight recorder
    std::uint64_t sequence = 0;  // of collectives, or of messages with that peer
  };
  struct Outcome {
    std::optional<Error> error;
    bool breaks = false;
  };

  Item make_item(Operation operation);
  void enqueue(Item item);
  std::int64_t earliest_deadline(const Item& current) const;  // under the lock
  void loop();
  void carry_out(Item& item);
  Outcome execute(Item& item);
  Outcome connect_all(Item& item);
  Outcome collective(Item& item);
  Outcome message(Item& item);
  Outcome split(Item& item);  // split.cpp
  bool adopt(const std::shared_ptr<Communicator>& part);
  Outcome run_plan(Item& item, Plan& plan, const Tensor& out, const std::vector<Contribution>* small);
  Outcome mesh_failure(const Item& item);
  Error late(const Item& item, const MeshFailure& failure);
  void fail_queued();

  const CommunicatorOptions options_;
  const std::shared_ptr<Exchange> exchange_;
  FlightRecorder recorder_;
  std::unique_ptr<Mesh> mesh_;
  // Of whoever carries out an operation.
  std::unique_ptr<DataPath> path_;
  std::unique_ptr<Agreement> agreement_;
  std::vector<std::byte> payload_;
  std::vector<Contribution> contributions_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::uint64_t collectives_ = 0;
  std::vector<std::uint64_t> sent_, received_;  // messages, by peer
  std::optional<Error> broken_;
  std::vector<std::weak_ptr<Communicator>> parts_;
  bool busy_ = false;  // somebody carries out an operation
  bool connected_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace troupe
