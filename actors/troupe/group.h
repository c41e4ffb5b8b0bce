// Group: actors that work on tensors together, with collectives over sockets (CPU) or NCCL (GPU).
//
//   auto group = troupe::make_group(trainers);            // in the driver: describes it, costs nothing
//   for (auto& t : trainers) t.call<&Trainer::train>(group);
//   …
//   void Trainer::train(troupe::Group group) {            // in each actor
//     group.join().get();                                 // waits for all
//     group.all_reduce(gradients, troupe::ReduceOp::average).get();
//   }
//
// Every rank calls the same collectives in the same order; operations of one group run in that order, one
// after the other, on a thread of the group's own. Tensors must not be touched until the future is ready.
// Ranks that disagree (another operation, root, dtype, size) get the same InvalidArgument, which names them,
// and the group goes on. When a rank is lost, or a deadline passes, all operations end with an error that
// names the rank, and the group is broken until the survivors, and members that were restarted, call
// reform().
//
// A Group is a value: an argument, a result, a member. All copies in one actor are the same rank; when the
// last is gone the actor leaves, which breaks the group for the others. One thread at a time: the actor's.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "core/codec/archive.h"
#include "runtime/group/reduce_op.h"
#include "troupe/future.h"
#include "troupe/handle.h"
#include "troupe/tensor.h"

namespace troupe {

class Communicator;
class GroupMember;
struct SubGroupMember;
struct GroupDescription;
struct Operation;

class GroupOptions {
 public:
  // Tensors of the actors' GPUs, over NCCL; each member must hold a GPU. Default: CPU tensors.
  GroupOptions& gpu(bool value = true) { return gpu_ = value, *this; }
  // Rank i is the i-th handle. Default: ranks of one node are next to each other.
  GroupOptions& keep_order(bool value = true) { return keep_order_ = value, *this; }
  // How long join() and reform() wait for the others; default 30 s.
  GroupOptions& patience(std::chrono::milliseconds value) { return patience_ = value, *this; }
  // Of each operation; default 5 minutes.
  GroupOptions& deadline(std::chrono::milliseconds value) { return deadline_ = value, *this; }

 private:
  friend class Group;
  bool gpu_ = false, keep_order_ = false;
  std::chrono::milliseconds patience_{30'000}, deadline_{300'000};
};

class Group {
 public:
  Group() = default;  // of nobody
  Group(const std::vector<ActorId>& members, const GroupOptions& options);

  // Forms the first generation: ready when every member has called it. Fails with DeadlineExceeded, which
  // names who is missing, or ActorDied when a member died before.
  Future<void> join();
  // Forms the next one, with all members that are not dead for good: those that restart are waited for.
  Future<void> reform();
  void leave();  // this copy; the last one leaves the group

  // Cuts the group into parts: ranks with one color (0 or more) are a group, ordered by key, then by rank; a
  // negative color is in none and gets Group(). Every rank calls it. A part lives as long as this generation
  // of its group: it is not reformed but made again, and it does not travel in messages.
  Future<Group> split(int color, int key = 0) const;

  // Of the generation; InvalidArgument before join().
  int rank() const;
  int size() const;
  std::uint64_t generation() const;  // 1 for the first
  std::vector<ActorId> ranks() const;

  Future<void> barrier() const;
  // From the root's tensor to those of all.
  Future<void> broadcast(Tensor tensor, int root) const;
  // Each element becomes the combination of that element of all ranks, in place.
  Future<void> all_reduce(Tensor tensor, ReduceOp op = ReduceOp::sum) const;
  // The same into `out`, at the root alone; others may leave `out` undefined.
  Future<void> reduce(Tensor in, Tensor out, int root, ReduceOp op = ReduceOp::sum) const;
  // Combines and deals out: `in` is as large as the outputs of all ranks together, which lie in it by rank.
  Future<void> reduce_scatter(Tensor in, Tensor out, ReduceOp op = ReduceOp::sum) const;
  // `out` takes the inputs of all ranks, by rank. Inputs may differ in size.
  Future<void> all_gather(Tensor in, Tensor out) const;
  Future<void> gather(Tensor in, Tensor out, int root) const;   // `out` at the root alone
  Future<void> scatter(Tensor in, Tensor out, int root) const;  // `in` at the root alone
  // `counts[r]` elements of `in` go to rank r; none given: equal parts.
  Future<void> all_to_all(Tensor in, Tensor out, std::vector<std::int64_t> counts = {}) const;
  // Pair up by rank and order. A send ends when the other rank receives it; until then later operations of
  // this rank wait, so two ranks that both send first wait for each other until the deadline.
  Future<void> send(Tensor tensor, int to) const;
  Future<void> recv(Tensor tensor, int from) const;

  template <class A>
  void save(A& archive) const {
    write(archive.writer());
  }
  template <class A>
  void load(A& archive) {
    read(archive.reader());
  }

 private:
  void write(Writer& to) const;
  void read(Reader& from);
  GroupMember& member() const;
  std::shared_ptr<Communicator> communicator() const;
  Future<void> form(bool reform);
  Future<void> run(Operation operation) const;

  std::shared_ptr<const GroupDescription> description_;
  mutable std::shared_ptr<GroupMember> member_;
  std::shared_ptr<const SubGroupMember> sub_;  // of a part
};

// A group of these actors. They join it when they are told of it: pass it to them.
template <class T>
Group make_group(const std::vector<Handle<T>>& members, const GroupOptions& options = {}) {
  std::vector<ActorId> ids;
  for (const auto& handle : members) ids.push_back(handle.id());
  return Group(ids, options);
}

}  // namespace troupe
