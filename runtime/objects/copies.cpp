#include "runtime/objects/copies.h"

namespace troupe {

void Copies::found(const ObjectId& id, NodeId node, std::uint64_t bytes, bool whole) {
  Copy& copy = copies_[id][node];
  copy.node = node;
  copy.bytes = bytes;
  copy.whole = whole;
}

void Copies::gone(const ObjectId& id, NodeId node) {
  auto at = copies_.find(id);
  if (at == copies_.end()) return;
  at->second.erase(node);
  if (at->second.empty()) copies_.erase(at);
}

void Copies::node_gone(NodeId node) {
  for (auto at = copies_.begin(); at != copies_.end();) {
    at->second.erase(node);
    at = at->second.empty() ? copies_.erase(at) : std::next(at);
  }
}

void Copies::forget(const ObjectId& id) { copies_.erase(id); }

std::vector<Copies::Copy> Copies::of(const ObjectId& id) const {
  std::vector<Copy> out;
  if (auto at = copies_.find(id); at != copies_.end()) {
    for (const auto& [node, copy] : at->second) out.push_back(copy);
  }
  return out;
}

Copies::Copy* Copies::find(const ObjectId& id, NodeId node) {
  auto at = copies_.find(id);
  if (at == copies_.end()) return nullptr;
  auto copy = at->second.find(node);
  return copy == at->second.end() ? nullptr : &copy->second;
}

}  // namespace troupe
