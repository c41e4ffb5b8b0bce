#include "runtime/objects/peer_words.h"

namespace troupe {

std::optional<PeerWords::Batch> PeerWords::next() {
  if (waiting_.empty()) return {};
  std::size_t size = 1;
  while (size < waiting_.size() && size < kMostAtOnce && waiting_[size].what == waiting_[0].what) ++size;
  auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(size);
  Batch batch{++last_, {waiting_.begin(), end}};
  waiting_.erase(waiting_.begin(), end);
  sent_[batch.number] = batch.words;
  return batch;
}

// Gives come last, and once: an object that is borrowed, given and borrowed again must not be let go in
// between, and of one that is not borrowed any more nothing else is to come.
void PeerWords::say_again(const std::vector<ObjectId>& borrowed) {
  std::deque<Word> all;
  for (auto& [number, words] : sent_) all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), waiting_.begin(), waiting_.end());
  sent_.clear();
  waiting_.clear();
  std::set<ObjectId> held(borrowed.begin(), borrowed.end()), given;
  for (const Word& word : all) {
    if (word.what != Word::give)
      waiting_.push_back(word);
    else if (held.count(word.id) == 0)
      given.insert(word.id);
  }
  for (const ObjectId& id : borrowed) waiting_.push_back({Word::borrow, id, {}});
  for (const ObjectId& id : given) waiting_.push_back({Word::give, id, {}});
}

}  // namespace troupe
