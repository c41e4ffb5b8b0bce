// Which node gets which waiting actor. Pure: no clock, no randomness; the same calls give the same grants.
//
// Actors wait in queues by shape (resources, node affinity, avoided node). Within a shape the order is first
// come, first served. Across shapes the oldest goes first; one that does not fit yet may be passed by others,
// at most kMostPasses times: then one node is reserved for it, and requests that want what it wants keep off
// that node. A shape that no node could ever hold is infeasible: it waits and reserves nothing.
//
// Thread: that of the owner (the control store). Errors: none; preconditions are noted.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "gcs/placement/node_slots.h"

namespace troupe::gcs {

struct Grant {
  ActorId actor;
  NodeId node;
  GpuSlots gpus;
};

struct Settled {
  std::vector<Grant> granted;
  std::vector<ActorId> judged;  // waiting actors whose feasibility changed
};

class Placement {
 public:
  static constexpr std::uint32_t kMostPasses = 100;

  void add_node(NodeId id, const std::string& name, Resources total, bool open);
  void remove_node(NodeId id);          // what it had given is gone with it
  void set_open(NodeId id, bool open);  // closed: takes nothing new
  bool is_open(NodeId id) const;

  // `avoid` is a wish: another node is taken when one fits now.
  void wait(ActorId actor, const Resources& wanted, const std::string& affinity, NodeId avoid);
  void cancel(ActorId actor);  // no effect if it does not wait
  void give_back(NodeId node, const Resources& wanted, const GpuSlots& gpus);
  bool claim(NodeId node, const Resources& wanted, const GpuSlots& gpus);

  // Grants whatever can be granted now. Call it after every group of changes.
  void settle(Settled& out);

  bool waits(ActorId actor) const { return waiting_.count(actor) != 0; }
  bool infeasible(ActorId actor) const;
  std::string reason(ActorId actor) const;  // why it waits, in words
  std::size_t waiting() const { return waiting_.size(); }
  const NodeSlots* node(NodeId id) const;
  std::uint32_t live(NodeId id) const;
  std::string check() const;  // empty, or which invariant is broken

 private:
  struct Key {
    std::vector<std::pair<std::string, std::int64_t>> amounts;
    std::string affinity;
    NodeId avoid;
    auto operator<=>(const Key&) const = default;
  };
  struct Shape {
    Resources wanted;
    std::string affinity;
    NodeId avoid;
    std::map<std::uint64_t, ActorId> queue;  // by order of arrival
    bool blocked = false;                    // did not fit when it was last tried
    bool infeasible = false;
    std::uint32_t passes = 0;  // grants to younger ones while its head was blocked
  };
  using Shapes = std::map<Key, Shape>;
  struct Node {
    std::string name;
    NodeSlots slots;
    bool open = true;
    std::uint32_t live = 0;
  };
  struct Order {  // spread: fewest live actors first, then most free CPUs
    std::uint32_t live;
    std::int64_t taken_cpu;
    NodeId id;
    auto operator<=>(const Order&) const = default;
  };
  struct Ticket {
    Shape* shape;
    std::uint64_t order;
  };

  Order order_of(NodeId id, const Node& node) const;
  bool could_hold(const Node& node, const Shape& shape) const;
  NodeId choose(const Shape& shape) const;
  bool reserved_against(NodeId node, const Shape& shape) const;
  void judge(Shape& shape);
  void update_reservation();
  void count_pass(const Shape& granted, std::uint64_t order);
  void drop_shape_if_empty(Shape& shape);
  void unblock_all();
  void set_blocked(Shape& shape, bool blocked);

  std::map<NodeId, Node> nodes_;
  std::unordered_map<std::string, NodeId> by_name_;
  std::set<Order> spread_;  // open nodes
  Shapes shapes_;
  std::set<std::pair<std::uint64_t, Shape*>> ready_;    // by the order of their heads
  std::set<std::pair<std::uint64_t, Shape*>> blocked_;  // feasible, and did not fit
  std::unordered_map<ActorId, Ticket> waiting_;
  std::uint64_t next_order_ = 1;
  std::vector<ActorId> judged_;  // to be told by the next settle()
  bool rejudge_ = false;
  Shape* reserving_ = nullptr;
  NodeId reserved_;
};

}  // namespace troupe::gcs
