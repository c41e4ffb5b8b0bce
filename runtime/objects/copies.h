// Which nodes have copies of the objects whose home is here, whole or in part: the home's directory. Sources
// for pulls are chosen from it.
//
// A plain value; one thread. Bounded by the objects of the store: forget() goes with them.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "runtime/objects/object_id.h"

namespace troupe {

class Copies {
 public:
  struct Copy {
    NodeId node;
    std::uint64_t bytes = 0;  // that are there, from the start
    bool whole = false;
    std::uint32_t serving = 0;  // pullers sent to it that have not finished
  };

  void found(const ObjectId& id, NodeId node, std::uint64_t bytes, bool whole);
  void gone(const ObjectId& id, NodeId node);
  void node_gone(NodeId node);
  void forget(const ObjectId& id);
  // In the order of their node ids.
  std::vector<Copy> of(const ObjectId& id) const;
  Copy* find(const ObjectId& id, NodeId node);

 private:
  std::unordered_map<ObjectId, std::map<NodeId, Copy>> copies_;
};

}  // namespace troupe
