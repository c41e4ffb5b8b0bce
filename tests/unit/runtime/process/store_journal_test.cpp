#include "runtime/process/store_journal.h"

#include <gtest/gtest.h>

#include "core/control/kj_error.h"
#include "core/control/loop.h"
#include "runtime/durable/block.h"

namespace troupe {
namespace {

// A head whose connection breaks so many times while a block is written.
class Session final : public wire::Session::Server {
 public:
  explicit Session(int& breaks) : breaks_(breaks) {}
  kj::Promise<void> journalLoad(JournalLoadContext) override { return kj::READY_NOW; }
  kj::Promise<void> journalAppend(JournalAppendContext) override {
    if (breaks_ == 0) return kj::READY_NOW;
    --breaks_;
    return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__, kj::str("it broke"));
  }

 private:
  int& breaks_;
};

struct Listener final : JournalListener {
  void on_appended(std::uint64_t) override { ++appended; }
  void on_stalled(Error why) override { stalled.push_back(std::move(why)); }
  void on_snapshot(Result<void>) override {}
  void on_lost(Error) override {}
  int appended = 0;
  std::vector<Error> stalled;
};

class StoreJournalTest : public ::testing::Test {
 public:
  ~StoreJournalTest() noexcept override {}  // its members' may throw, gtest's must not

 protected:
  void SetUp() override {
    plane_.use_session(kj::heap<Session>(breaks_));
    JournalOwner owner;
    owner.actor = 1;
    owner.incarnation = 1;
    std::shared_ptr<Journal> journal;
    StoreJournal::open(loop_, plane_, owner, [&](Result<OpenedJournal> opened) {
      ASSERT_TRUE(opened) << opened.error().describe();
      journal = std::move(opened->journal);
    });
    wait_until([&] { return journal != nullptr; });
    journal_ = std::move(journal);
  }
  template <class Condition>
  void wait_until(Condition fulfilled) {
    for (int i = 0; i < 6000 && !fulfilled(); ++i)
      loop_.timer().afterDelay(10 * kj::MILLISECONDS).wait(loop_.scope());
    EXPECT_TRUE(fulfilled());
  }
  void append() {
    BlockBuilder block;
    block.add({});
    journal_->append(block.finish(1), 1, listener_);
  }

  int breaks_ = 0;
  ControlLoop loop_;
  ControlPlane plane_{loop_, LinkIdentity(), ControlPlane::Hooks()};
  std::shared_ptr<Journal> journal_;
  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
};

// The process may end with its node in a moment; callers then get their answer from the next incarnation.
TEST_F(StoreJournalTest, AConnectionThatBrokeOnceIsNotTold) {
  breaks_ = 1;
  append();
  wait_until([&] { return listener_->appended == 1; });
  EXPECT_TRUE(listener_->stalled.empty());
}

TEST_F(StoreJournalTest, AConnectionThatStaysBrokenIsTold) {
  breaks_ = 2;
  append();
  wait_until([&] { return listener_->appended == 1; });
  ASSERT_EQ(listener_->stalled.size(), 1u);
  EXPECT_EQ(listener_->stalled[0].kind, ErrorKind::unavailable);
}

}  // namespace
}  // namespace troupe
