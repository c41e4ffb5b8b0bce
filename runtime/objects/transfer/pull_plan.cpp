#include "runtime/objects/transfer/pull_plan.h"

#include <algorithm>
#include <limits>

namespace troupe {

int& PullPlan::serving(Object& object, NodeId source) {
  return source == home_ ? object.home_serving : object.copies.at(source).serving;
}

void PullPlan::release(Object& object, Copy& copy) {
  if (!copy.source) return;
  // A source that is gone took its count with it.
  if (copy.source == home_ || object.copies.count(copy.source) > 0) --serving(object, copy.source);
  copy.source = {};
}

void PullPlan::want(const ObjectId& id, NodeId puller, NodeId failed, Assignments& out) {
  if (puller == home_) return;
  Object& object = objects_[id];
  Copy& copy = object.copies[puller];
  release(object, copy);
  copy.whole = false;
  copy.avoids = failed;
  if (std::find(object.waiting.begin(), object.waiting.end(), puller) == object.waiting.end())
    object.waiting.push_back(puller);
  // One that asks itself will say so in time; one that claimed to have all of it does not.
  if (failed && failed != home_ && failed != puller) {
    auto at = object.copies.find(failed);
    if (at != object.copies.end() && at->second.whole) drop(id, object, failed, out);
  }
  assign(id, object, out);
}

void PullPlan::done(const ObjectId& id, NodeId puller, bool whole, Assignments& out) {
  auto at = objects_.find(id);
  if (at == objects_.end()) {
    if (!whole || puller == home_) return;
    objects_[id].copies[puller].whole = true;
    return;
  }
  Object& object = at->second;
  if (whole) {
    Copy& copy = object.copies[puller];
    release(object, copy);
    copy.whole = true;
    std::erase(object.waiting, puller);
  } else {
    drop(id, object, puller, out);
  }
  assign(id, object, out);
  forget_if_idle(id);
}

void PullPlan::node_gone(NodeId node, Assignments& out) {
  std::vector<ObjectId> known;
  for (const auto& [id, object] : objects_) {
    if (object.copies.count(node) > 0) known.push_back(id);
  }
  for (const ObjectId& id : known) {
    Object& object = objects_.at(id);
    drop(id, object, node, out);
    assign(id, object, out);
    forget_if_idle(id);
  }
}

// It has nothing any more; those that receive from it will find out, and ask again.
void PullPlan::drop(const ObjectId&, Object& object, NodeId node, Assignments&) {
  auto at = object.copies.find(node);
  if (at == object.copies.end()) return;
  release(object, at->second);
  object.copies.erase(at);
  std::erase(object.waiting, node);
  for (auto& [other, copy] : object.copies) {
    if (copy.source == node) copy.source = {};
  }
}

bool PullPlan::receives_from(const Object& object, NodeId node, NodeId source) const {
  for (std::size_t steps = 0; steps <= object.copies.size(); ++steps) {
    if (node == source) return true;
    auto at = object.copies.find(node);
    if (at == object.copies.end() || !at->second.source) return false;
    node = at->second.source;
  }
  return true;
}

int PullPlan::depth(const Object& object, NodeId node) const {
  int steps = 0;
  for (auto at = object.copies.find(node); at != object.copies.end() && at->second.source;
       at = object.copies.find(at->second.source)) {
    ++steps;
  }
  return steps;
}

// One that waits itself has no use for others, and one that receives from the puller would wait for it for
// ever.
NodeId PullPlan::choose(const Object& object, NodeId puller) const {
  NodeId best, avoids = object.copies.at(puller).avoids;
  int least = std::numeric_limits<int>::max();
  auto consider = [&](NodeId node, int serving, int depth) {
    int cost = depth + kBranch * serving;
    if (serving < kMostServed && cost < least) best = node, least = cost;
  };
  consider(home_, object.home_serving, 0);
  for (const auto& [node, copy] : object.copies) {
    if (node == puller || node == avoids || (!copy.whole && !copy.source)) continue;
    if (receives_from(object, node, puller)) continue;
    consider(node, copy.serving, depth(object, node));
  }
  return best;
}

void PullPlan::assign(const ObjectId& id, Object& object, Assignments& out) {
  for (std::size_t left = object.waiting.size(); left > 0; --left) {
    NodeId puller = object.waiting.front();
    object.waiting.pop_front();
    NodeId source = choose(object, puller);
    if (!source) {
      object.waiting.push_back(puller);
      continue;
    }
    ++serving(object, source);
    object.copies.at(puller).source = source;
    out.push_back({id, puller, source});
  }
}

void PullPlan::forget_if_idle(const ObjectId& id) {
  auto at = objects_.find(id);
  if (at != objects_.end() && at->second.copies.empty()) objects_.erase(at);
}

std::string PullPlan::check() const {
  for (const auto& [id, object] : objects_) {
    std::map<NodeId, int> served;
    for (const auto& [node, copy] : object.copies) {
      bool waits = std::find(object.waiting.begin(), object.waiting.end(), node) != object.waiting.end();
      if (copy.whole && (copy.source || waits)) return "one that has all of it receives or waits";
      if (copy.source && waits) return "one that receives waits";
      if (copy.source) ++served[copy.source];
      if (copy.source && receives_from(object, copy.source, node)) return "a circle of pullers";
    }
    for (NodeId node : object.waiting) {
      if (node == home_ || object.copies.count(node) == 0) return "one that is gone waits";
      if (choose(object, node)) return "one waits beside a free source";
    }
    for (const auto& [node, copy] : object.copies) {
      if (copy.serving != served[node] || copy.serving > kMostServed) return "a source is miscounted";
    }
    if (object.home_serving != served[home_] || object.home_serving > kMostServed)
      return "the home is miscounted";
  }
  return {};
}

}  // namespace troupe
