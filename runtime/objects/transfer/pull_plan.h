// Who fetches an object from whom: kept by the object's home. One that is still receiving passes on what it
// has, so many pullers take little more time than one. They form a tree of long branches: a source that sends
// once has all of its bandwidth for that, but each step costs the time of some chunks, so a second puller (of
// kMostServed) is sent to a source rather than to the end of a branch that is kBranch steps longer.
//
// Pure: each member adds the assignments that follow to `out`. Owner: Transfer of the home. Thread: one.
// Bounded by the nodes that want or have the object.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/objects/object_id.h"

namespace troupe {

class PullPlan {
 public:
  static constexpr int kMostServed = 2, kBranch = 8;

  struct Assignment {
    ObjectId id;
    NodeId puller, source;
  };
  using Assignments = std::vector<Assignment>;

  explicit PullPlan(NodeId home) : home_(home) {}

  // The puller asks for a source; its earlier one, if there was, serves it no more. `failed`: a source that
  // did not have the object or broke off; it is not asked again unless it comes to have it anew. The home
  // itself is always a source, while it lives.
  void want(const ObjectId& id, NodeId puller, NodeId failed, Assignments& out);
  // The puller has all of it (and is a source from now on), or has given up.
  void done(const ObjectId& id, NodeId puller, bool whole, Assignments& out);
  void node_gone(NodeId node, Assignments& out);
  template <class F>  // bool(const ObjectId&)
  void forget_if(F gone) {
    std::erase_if(objects_, [&](const auto& entry) { return gone(entry.first); });
  }

  std::size_t objects() const { return objects_.size(); }
  std::string check() const;  // what is wrong with the tables, or nothing

 private:
  struct Copy {
    bool whole = false;
    NodeId source;    // it receives from; none: it waits, or is done
    NodeId avoids;    // failed it last
    int serving = 0;  // pullers that receive from it
  };
  struct Object {
    std::map<NodeId, Copy> copies;  // without the home's
    std::deque<NodeId> waiting;
    int home_serving = 0;
  };
  int& serving(Object& object, NodeId source);
  void release(Object& object, Copy& copy);
  void drop(const ObjectId& id, Object& object, NodeId node, Assignments& out);
  bool receives_from(const Object& object, NodeId node, NodeId source) const;
  int depth(const Object& object, NodeId node) const;
  NodeId choose(const Object& object, NodeId puller) const;
  void assign(const ObjectId& id, Object& object, Assignments& out);
  void forget_if_idle(const ObjectId& id);

  NodeId home_;
  std::unordered_map<ObjectId, Object> objects_;
};

}  // namespace troupe
