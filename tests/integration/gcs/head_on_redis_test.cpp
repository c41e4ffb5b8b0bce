// The head on its loop with a real Redis that is killed in the middle of its work.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/control/kj_error.h"
#include "core/control/loop.h"
#include "gcs/head/head_server.h"
#include "gcs/store/redis_process.h"
#include "gcs/store/redis_store.h"

namespace troupe::gcs {
namespace {

class Silent final : public wire::JobClient::Server {};

class HeadOnRedis : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/troupe-head-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    auto redis = RedisProcess::start({directory_, "redis-server", std::chrono::seconds(60)});
    ASSERT_TRUE(redis) << redis.error().describe();
    redis_ = std::move(*redis);
  }
  void TearDown() override {
    redis_.reset();
    std::filesystem::remove_all(directory_);
  }
  RedisStore::Options patient() {
    RedisStore::Options options;
    options.timeout = std::chrono::minutes(5);
    return options;
  }
  std::string directory_;
  std::unique_ptr<RedisProcess> redis_;
};

TEST_F(HeadOnRedis, KeepsEveryAcknowledgedActorThroughKillsAndARestart) {
  std::uint64_t acknowledged = 0;
  ProcessId process;
  JobId job;
  auto fill = [](wire::JobInfo::Builder info, JobId job) {
    info.setJob(job.value);
    info.setPid(7);
    info.setHostId("h");
  };
  {
    ControlLoop loop;
    RedisStore store(loop.io(), redis_->address(), patient());
    HeadServer head(loop.timer(), store, {});
    head.start().wait(loop.scope());
    auto client = head.bootstrap();
    auto open = client.openJobRequest();
    fill(open.initInfo(), {});
    open.setClient(kj::heap<Silent>());
    auto opened = open.send().wait(loop.scope());
    process = {opened.getProcess()};
    job = {opened.getJob()};
    auto session = opened.getSession();
    auto spawn = [&](std::uint64_t n) {
      auto request = session.spawnRequest();
      auto spec = request.initActors(1)[0];
      spec.setActor(actor_of(process, n).value);
      spec.setClassName("C");
      return request.send().ignoreResult();
    };
    for (int round = 0; round < 3; ++round) {
      auto first = spawn(++acknowledged);
      first.wait(loop.scope());
      auto late = spawn(++acknowledged);
      redis_->kill();
      auto later = spawn(++acknowledged);
      ASSERT_TRUE(redis_->relaunch());
      late.wait(loop.scope());
      later.wait(loop.scope());
    }
    redis_->kill();  // the head dies together with it
  }
  ASSERT_TRUE(redis_->relaunch());
  ControlLoop loop;
  RedisStore store(loop.io(), redis_->address(), patient());
  HeadServer head(loop.timer(), store, {});
  head.start().wait(loop.scope());
  EXPECT_EQ(head.core().count(Phase::pending), acknowledged);
  auto open = head.bootstrap().openJobRequest();
  fill(open.initInfo(), job);
  open.setClient(kj::heap<Silent>());
  auto opened = open.send().wait(loop.scope());
  EXPECT_EQ(opened.getJob(), job.value);
  EXPECT_EQ(opened.getProcess(), process.value);
  auto fresh = head.bootstrap().openJobRequest();
  fill(fresh.initInfo(), {});
  fresh.setClient(kj::heap<Silent>());
  auto second = fresh.send().wait(loop.scope());
  EXPECT_GT(second.getProcess(), process.value);
  EXPECT_GT(second.getJob(), job.value);
}

TEST_F(HeadOnRedis, AReplacedHeadEnds) {
  ControlLoop loop;
  RedisStore store(loop.io(), redis_->address(), patient());
  HeadServer head(loop.timer(), store, {});
  head.start().wait(loop.scope());
  RedisStore other(loop.io(), redis_->address(), patient());
  HeadServer successor(loop.timer(), other, {});
  successor.start().wait(loop.scope());
  auto open = head.bootstrap().openJobRequest();
  open.initInfo();
  open.setClient(kj::heap<Silent>());
  auto refused = open.send().ignoreResult().then([] { return false; }, [](kj::Exception&&) { return true; });
  EXPECT_TRUE(refused.wait(loop.scope()));
  auto ended = head.shutdown_requested().then([] { return false; }, [](kj::Exception&&) { return true; });
  EXPECT_TRUE(ended.wait(loop.scope()));
}

}  // namespace
}  // namespace troupe::gcs
