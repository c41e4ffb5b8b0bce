#include "runtime/objects/peer_words.h"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using Word = PeerWords::Word;
const ObjectId x{9, {2}, 1}, y{9, {2}, 2};
const Transit t{{3}, 8, 1, 1};

std::string said(PeerWords& words) {
  std::string out;
  while (auto batch = words.next()) {
    for (const Word& word : batch->words) {
      out += word.what == Word::borrow ? "borrow " : word.what == Word::give ? "give " : "claimed ";
      out += word.id == x ? "x " : word.id == y ? "y " : "";
      if (word.transit == t) out += "t ";
    }
    out += "/ ";
  }
  return out;
}

TEST(PeerWords, OneMessageForWordsOfAKindInARow) {
  PeerWords words;
  words.add({Word::borrow, x, t});
  words.add({Word::borrow, y, {}});
  words.add({Word::claimed, {}, t});
  words.add({Word::give, x, {}});
  EXPECT_EQ(said(words), "borrow x t borrow y / claimed t / give x / ");
}

TEST(PeerWords, WhatIsNotAcknowledgedIsSaidAgain) {
  PeerWords words;
  words.add({Word::give, x, {}});
  auto batch = words.next();
  words.add({Word::claimed, {}, t});
  (void)words.next();
  words.acknowledged(batch->number);
  words.say_again({});
  EXPECT_EQ(said(words), "claimed t / ");
  EXPECT_FALSE(words.empty());
  words.acknowledged(3);
  EXPECT_TRUE(words.empty());
}

TEST(PeerWords, AGiveIsSaidAgainUnlessTheObjectIsBorrowedAnew) {
  PeerWords words;
  words.add({Word::give, x, {}});
  words.add({Word::give, y, {}});
  (void)said(words);
  words.add({Word::borrow, x, t});
  words.say_again({x});
  EXPECT_EQ(said(words), "borrow x t borrow x / give y / ");
}

TEST(PeerWords, WhatIsBorrowedNoMoreIsGivenLast) {
  PeerWords words;
  words.add({Word::borrow, x, t});
  words.add({Word::give, x, {}});
  words.add({Word::borrow, x, {}});
  words.add({Word::give, x, {}});
  (void)said(words);
  words.add({Word::claimed, {}, t});
  words.say_again({});
  EXPECT_EQ(said(words), "borrow x t borrow x / claimed t / give x / ");
}

}  // namespace
}  // namespace troupe
