#include "gcs/placement/placement.h"

#include <algorithm>

namespace troupe::gcs {

Placement::Order Placement::order_of(NodeId id, const Node& node) const {
  return {node.live, -node.slots.free().units("cpu"), id};
}

void Placement::add_node(NodeId id, const std::string& name, Resources total, bool open) {
  remove_node(id);
  Node& node = nodes_.insert_or_assign(id, Node{name, NodeSlots(std::move(total)), open, 0}).first->second;
  by_name_[name] = id;
  if (open) spread_.insert(order_of(id, node));
  unblock_all();
  rejudge_ = true;
}

void Placement::remove_node(NodeId id) {
  auto at = nodes_.find(id);
  if (at == nodes_.end()) return;
  spread_.erase(order_of(id, at->second));
  auto named = by_name_.find(at->second.name);
  if (named != by_name_.end() && named->second == id) by_name_.erase(named);
  nodes_.erase(at);
  rejudge_ = true;
  if (reserved_ == id) update_reservation();
}

void Placement::set_open(NodeId id, bool open) {
  auto at = nodes_.find(id);
  if (at == nodes_.end() || at->second.open == open) return;
  at->second.open = open;
  if (open) {
    spread_.insert(order_of(id, at->second));
    unblock_all();
  } else {
    spread_.erase(order_of(id, at->second));
    if (reserved_ == id) update_reservation();
  }
}

bool Placement::is_open(NodeId id) const {
  auto at = nodes_.find(id);
  return at != nodes_.end() && at->second.open;
}

void Placement::wait(ActorId actor, const Resources& wanted, const std::string& affinity, NodeId avoid) {
  cancel(actor);
  Shape& shape = shapes_[Key{wanted.all(), affinity, avoid}];
  bool fresh = shape.queue.empty();
  if (fresh) {
    shape.wanted = wanted;
    shape.affinity = affinity;
    shape.avoid = avoid;
    ready_.insert({next_order_, &shape});
  }
  shape.queue.emplace(next_order_, actor);
  waiting_.emplace(actor, Ticket{&shape, next_order_});
  ++next_order_;
  if (fresh) {
    judge(shape);
  } else if (shape.infeasible) {
    judged_.push_back(actor);
  }
}

void Placement::cancel(ActorId actor) {
  auto at = waiting_.find(actor);
  if (at == waiting_.end()) return;
  auto [shape, order] = at->second;
  waiting_.erase(at);
  bool was_head = shape->queue.begin()->first == order;
  if (!was_head) {
    shape->queue.erase(order);
    return;
  }
  ready_.erase({order, shape});
  blocked_.erase({order, shape});
  shape->queue.erase(order);
  shape->passes = 0;
  if (!shape->queue.empty() && !shape->infeasible) {
    (shape->blocked ? blocked_ : ready_).insert({shape->queue.begin()->first, shape});
  }
  if (reserving_ == shape) update_reservation();
  drop_shape_if_empty(*shape);
}

void Placement::drop_shape_if_empty(Shape& shape) {
  if (shape.queue.empty()) shapes_.erase(Key{shape.wanted.all(), shape.affinity, shape.avoid});
}

void Placement::give_back(NodeId id, const Resources& wanted, const GpuSlots& gpus) {
  auto at = nodes_.find(id);
  if (at == nodes_.end()) return;  // the node went, and all it gave with it
  Node& node = at->second;
  spread_.erase(order_of(id, node));
  node.slots.give_back(wanted, gpus);
  --node.live;
  if (node.open) spread_.insert(order_of(id, node));
  if (!wanted.empty()) unblock_all();
}

bool Placement::claim(NodeId id, const Resources& wanted, const GpuSlots& gpus) {
  auto at = nodes_.find(id);
  if (at == nodes_.end()) return false;
  Node& node = at->second;
  Order before = order_of(id, node);
  if (!node.slots.claim(wanted, gpus)) return false;
  spread_.erase(before);
  ++node.live;
  if (node.open) spread_.insert(order_of(id, node));
  return true;
}

bool Placement::could_hold(const Node& node, const Shape& shape) const {
  return (shape.affinity.empty() || shape.affinity == node.name) && node.slots.could_hold(shape.wanted);
}

bool Placement::reserved_against(NodeId node, const Shape& shape) const {
  if (!reserving_ || node != reserved_ || &shape == reserving_) return false;
  return std::any_of(shape.wanted.all().begin(), shape.wanted.all().end(),
                     [&](const auto& entry) { return reserving_->wanted.units(entry.first) > 0; });
}

NodeId Placement::choose(const Shape& shape) const {
  auto usable = [&](NodeId id) {
    return nodes_.at(id).slots.fits(shape.wanted) && !reserved_against(id, shape);
  };
  if (!shape.affinity.empty()) {
    auto named = by_name_.find(shape.affinity);
    bool ok = named != by_name_.end() && nodes_.at(named->second).open && usable(named->second);
    return ok ? named->second : NodeId{};
  }
  NodeId fallback;
  for (const Order& order : spread_) {
    if (!usable(order.id)) continue;
    if (order.id != shape.avoid) return order.id;
    fallback = order.id;
  }
  return fallback;
}

// Without any node nothing is judged: the cluster is still starting.
void Placement::judge(Shape& shape) {
  bool possible = nodes_.empty() || std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
                    return could_hold(entry.second, shape);
                  });
  if (shape.infeasible == !possible) return;
  shape.infeasible = !possible;
  std::uint64_t head = shape.queue.begin()->first;
  if (shape.infeasible) {
    ready_.erase({head, &shape});
    blocked_.erase({head, &shape});
    if (reserving_ == &shape) update_reservation();
  } else {
    shape.blocked = false;
    ready_.insert({head, &shape});
  }
  for (const auto& [order, actor] : shape.queue) judged_.push_back(actor);
}

void Placement::set_blocked(Shape& shape, bool blocked) {
  std::uint64_t head = shape.queue.begin()->first;
  shape.blocked = blocked;
  (blocked ? ready_ : blocked_).erase({head, &shape});
  (blocked ? blocked_ : ready_).insert({head, &shape});
}

void Placement::unblock_all() {
  for (const auto& [head, shape] : blocked_) {
    shape->blocked = false;
    ready_.insert({head, shape});
  }
  blocked_.clear();
}

void Placement::update_reservation() {
  bool had = reserving_ != nullptr;
  reserving_ = nullptr;
  reserved_ = {};
  for (const auto& [head, shape] : blocked_) {
    if (shape->passes < kMostPasses) continue;
    for (const Order& order : spread_) {
      if (!could_hold(nodes_.at(order.id), *shape)) continue;
      reserving_ = shape;
      reserved_ = order.id;
      return;
    }
  }
  if (had) unblock_all();
}

void Placement::count_pass(const Shape& granted, std::uint64_t order) {
  for (const auto& [head, shape] : blocked_) {
    if (head > order || shape->passes >= kMostPasses) return;
    bool competes = std::any_of(granted.wanted.all().begin(), granted.wanted.all().end(),
                                [&](const auto& entry) { return shape->wanted.units(entry.first) > 0; });
    if (competes && ++shape->passes == kMostPasses && !reserving_) update_reservation();
    if (competes) return;
  }
}

void Placement::settle(Settled& out) {
  if (rejudge_) {
    for (auto& [key, shape] : shapes_) judge(shape);
    rejudge_ = false;
  }
  out.judged.insert(out.judged.end(), judged_.begin(), judged_.end());
  judged_.clear();
  while (!ready_.empty()) {
    auto [order, shape] = *ready_.begin();
    NodeId id = choose(*shape);
    if (!id) {
      set_blocked(*shape, true);
      continue;
    }
    Node& node = nodes_.at(id);
    spread_.erase(order_of(id, node));
    ActorId actor = shape->queue.begin()->second;
    out.granted.push_back({actor, id, node.slots.take(shape->wanted)});
    ++node.live;
    spread_.insert(order_of(id, node));
    count_pass(*shape, order);
    cancel(actor);
  }
}

bool Placement::infeasible(ActorId actor) const {
  auto at = waiting_.find(actor);
  return at != waiting_.end() && at->second.shape->infeasible;
}

std::string Placement::reason(ActorId actor) const {
  auto at = waiting_.find(actor);
  if (at == waiting_.end()) return {};
  const Shape& shape = *at->second.shape;
  std::string what = shape.wanted.describe();
  if (!shape.affinity.empty()) what += " on node " + shape.affinity;
  if (nodes_.empty()) return "no node has joined yet";
  if (shape.infeasible) return "no node of the cluster could ever hold " + what;
  return "waits for " + what + " to become free";
}

const NodeSlots* Placement::node(NodeId id) const {
  auto at = nodes_.find(id);
  return at == nodes_.end() ? nullptr : &at->second.slots;
}

std::uint32_t Placement::live(NodeId id) const {
  auto at = nodes_.find(id);
  return at == nodes_.end() ? 0 : at->second.live;
}

std::string Placement::check() const {
  std::size_t queued = 0, feasible = 0, open = 0;
  for (const auto& [id, node] : nodes_) {
    if (std::string bad = node.slots.check(); !bad.empty()) return "node " + to_string(id) + ": " + bad;
    if (node.open != (spread_.count(order_of(id, node)) == 1)) return "node order is stale";
    open += node.open;
  }
  if (open != spread_.size()) return "node order holds strangers";
  for (const auto& [key, shape] : shapes_) {
    if (shape.queue.empty()) return "an empty shape is kept";
    queued += shape.queue.size();
    feasible += !shape.infeasible;
    std::pair head{shape.queue.begin()->first, const_cast<Shape*>(&shape)};
    bool listed = ready_.count(head) + blocked_.count(head) == 1;
    if (listed == shape.infeasible) return "a shape is in the wrong list";
  }
  if (queued != waiting_.size()) return "queues and tickets differ";
  if (feasible != ready_.size() + blocked_.size()) return "lists of shapes hold strangers";
  return {};
}

}  // namespace troupe::gcs
