// What a node has to say to the home of objects: what it borrows, gives back, and which references have
// arrived. In order, and until it is acknowledged: a connection may end with words on their way.
//
// A pure value. Owner: ObjectPeers, one for each home.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/objects/store_core.h"

namespace troupe {

class PeerWords {
 public:
  static constexpr std::size_t kMostAtOnce = 4096;  // words in one message

  struct Word {
    enum What : std::uint8_t { borrow, give, claimed } what;
    ObjectId id;
    Transit transit;
  };
  struct Batch {  // of one kind
    std::uint64_t number;
    std::vector<Word> words;
  };

  void add(const Word& word) { waiting_.push_back(word); }
  // Nothing waits, and nothing is on its way.
  bool waiting() const { return !waiting_.empty(); }
  bool empty() const { return waiting_.empty() && sent_.empty(); }
  // The next message; it counts as on its way until it is acknowledged.
  std::optional<Batch> next();
  void acknowledged(std::uint64_t number) { sent_.erase(number); }
  // The connection has ended: all that may not have arrived is to be said again, which is harmless where it
  // has. `borrowed`: what is borrowed there now; it is named too, and none of it given back.
  void say_again(const std::vector<ObjectId>& borrowed);

 private:
  std::deque<Word> waiting_;
  std::map<std::uint64_t, std::vector<Word>> sent_;
  std::uint64_t last_ = 0;
};

}  // namespace troupe
