// Listening, connecting, proving; peers that do not; calls that are dropped and messages that are too large.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <unistd.h>

#include "core/auth/proof.h"
#include "core/control/kj_error.h"
#include "core/control/rpc.h"
#include "core/protocol/cluster.capnp.h"

namespace troupe {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().describe());
  return *std::move(result);
}

// A session whose answers the test holds back.
class TestSession final : public wire::Session::Server {
 public:
  struct Seen {
    int spawns = 0, finished = 0;
    kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> hold;
  };
  explicit TestSession(Seen& seen) : seen_(seen) {}
  kj::Promise<void> spawn(SpawnContext context) override {
    ++seen_.spawns;
    context.getResults().initSpawned(context.getParams().getActors().size());
    return kj::READY_NOW;
  }
  kj::Promise<void> kill(KillContext) override {
    auto paf = kj::newPromiseAndFulfiller<void>();
    seen_.hold = kj::mv(paf.fulfiller);
    return paf.promise.then([this] { ++seen_.finished; });
  }
  kj::Promise<void> find(FindContext) override {
    return kj_exception(Error(ErrorKind::not_found, "no actor has the name 'x'"));
  }

 private:
  Seen& seen_;
};

class RpcTest : public ::testing::Test {
 protected:
  ~RpcTest() noexcept override {}
  RpcTest() {
    Address any;
    any.host = "127.0.0.1";
    UniqueFd listening = must(listen_on(any, address));
    listener = kj::heap<RpcListener>(loop, std::move(listening), token, kj::heap<TestSession>(seen));
  }
  kj::Own<RpcConnection> connect() { return rpc_connect(loop, address, token).wait(loop.scope()); }
  Error refusal(const Token& with) {
    try {
      rpc_connect(loop, address, with).wait(loop.scope());
    } catch (const kj::Exception& e) {
      return error_of(e);
    }
    return Error(ErrorKind::internal, "no refusal");
  }
  void spawn(wire::Session::Client& session, std::size_t bytes) {
    auto request = session.spawnRequest();
    request.initActors(1)[0].initArgs(static_cast<unsigned>(bytes));
    request.send().wait(loop.scope());
  }
  // A plain socket to the listener.
  UniqueFd stranger() {
    UniqueFd fd = must(start_connect(address));
    auto stream = kj::heap<SocketStream>(loop, std::move(fd));
    stream->when_connected().wait(loop.scope());
    return stream->release();
  }

  ControlLoop loop;
  Token token = must(Token::random());
  Address address;
  TestSession::Seen seen;
  kj::Own<RpcListener> listener;
};

TEST_F(RpcTest, CallsAndErrorsThatKeepTheirKind) {
  auto connection = connect();
  auto session = connection->bootstrap().castAs<wire::Session>();
  spawn(session, 100);
  EXPECT_EQ(seen.spawns, 1);
  try {
    session.findRequest().send().wait(loop.scope());
    FAIL();
  } catch (const kj::Exception& e) {
    Error error = error_of(e);
    EXPECT_EQ(error.kind, ErrorKind::not_found);
    EXPECT_EQ(error.message, "no actor has the name 'x'");
  }
}

TEST_F(RpcTest, Rule9DroppingAClientPromiseDoesNotCancelTheCall) {
  auto connection = connect();
  auto session = connection->bootstrap().castAs<wire::Session>();
  {
    auto dropped = session.killRequest().send();
    while (seen.hold == nullptr) spawn(session, 8);
  }
  spawn(session, 8);
  KJ_IF_MAYBE (hold, seen.hold) {
    (*hold)->fulfill();
  }
  spawn(session, 8);
  EXPECT_EQ(seen.finished, 1) << "the server's call was cancelled with the client's promise";
}

TEST_F(RpcTest, Rule10AMessageAboveTheTraversalLimitIsRefusedAtTheCaller) {
  auto connection = connect();
  auto session = connection->bootstrap().castAs<wire::Session>();
  spawn(session, 8);
  try {
    spawn(session, 65u << 20);
    FAIL() << "65 MiB were taken";
  } catch (const kj::Exception& e) {
    EXPECT_NE(error_of(e).message.find("larger than"), std::string::npos) << error_of(e).describe();
  }
  EXPECT_EQ(seen.spawns, 1);
  spawn(session, 32u << 20);
  EXPECT_EQ(seen.spawns, 2) << "the connection did not survive";
}

TEST_F(RpcTest, AWrongTokenIsRefusedOnBothSides) {
  Error error = refusal(must(Token::random()));
  EXPECT_EQ(error.kind, ErrorKind::unauthenticated) << error.describe();
  EXPECT_NE(error.message.find("token"), std::string::npos);
  connect();  // others are still welcome
}

TEST_F(RpcTest, NobodyListens) {
  listener = nullptr;
  Error error = refusal(token);
  EXPECT_EQ(error.kind, ErrorKind::unavailable);
  EXPECT_NE(error.message.find(address.text()), std::string::npos) << error.message;
}

TEST_F(RpcTest, GarbageAndSilenceInsteadOfTheProof) {
  UniqueFd garbage = stranger(), silent = stranger(), half = stranger();
  std::string noise(200, '\x17');
  ASSERT_EQ(::send(garbage.get(), noise.data(), noise.size(), MSG_NOSIGNAL), 200);
  ASSERT_EQ(::shutdown(half.get(), SHUT_WR), 0);
  auto session = connect()->bootstrap().castAs<wire::Session>();
  // Both that spoke or ended are cut off: what they get is the greeting, perhaps a refusal, then the end.
  for (UniqueFd* fd : {&garbage, &half}) {
    auto stream = kj::heap<SocketStream>(loop, std::move(*fd));
    char buffer[4096];
    std::size_t got = stream->tryRead(buffer, sizeof buffer, sizeof buffer).wait(loop.scope());
    EXPECT_LE(got, kProofGreetingBytes + kProofVerdictBytes);
  }
  // The silent one is cut off in time, and disturbs nobody before.
  auto stream = kj::heap<SocketStream>(loop, std::move(silent));
  char buffer[4096];
  EXPECT_EQ(stream->tryRead(buffer, sizeof buffer, sizeof buffer).wait(loop.scope()), kProofGreetingBytes);
  EXPECT_EQ(seen.spawns, 0);
}

TEST_F(RpcTest, AtMostSoManyProveAtOnce) {
  std::vector<kj::Own<SocketStream>> silent;
  for (unsigned i = 0; i < Acceptor::kMaxUnproven; ++i) {
    silent.push_back(kj::heap<SocketStream>(loop, stranger()));
    char greeting[kProofGreetingBytes];
    ASSERT_EQ(silent.back()->tryRead(greeting, sizeof greeting, sizeof greeting).wait(loop.scope()),
              sizeof greeting);
  }
  // The next is closed without a word.
  auto late = kj::heap<SocketStream>(loop, stranger());
  char buffer[64];
  EXPECT_EQ(late->tryRead(buffer, 1, sizeof buffer).wait(loop.scope()), 0u);
  silent.pop_back();
  // Its place is free once its end was seen.
  for (;;) {
    try {
      connect();
      break;
    } catch (const kj::Exception&) {
    }
  }
}

TEST_F(RpcTest, ThePeersEndShowsInCallsAndOnDisconnect) {
  auto connection = connect();
  auto session = connection->bootstrap().castAs<wire::Session>();
  auto pending = session.killRequest().send();
  while (seen.hold == nullptr) spawn(session, 8);
  listener = nullptr;
  connection->on_disconnect().wait(loop.scope());
  try {
    pending.wait(loop.scope());
    FAIL();
  } catch (const kj::Exception& e) {
    EXPECT_EQ(error_of(e).kind, ErrorKind::unavailable);
  }
}

TEST_F(RpcTest, UnixSockets) {
  Address any;
  any.path = "rpc_test." + std::to_string(::getpid()) + ".sock";
  Address bound;
  {
    RpcListener local(loop, must(listen_on(any, bound)), token, kj::heap<TestSession>(seen));
    auto connection = rpc_connect(loop, bound, token).wait(loop.scope());
    auto session = connection->bootstrap().castAs<wire::Session>();
    spawn(session, 8);
  }
  // The file is there still; another server takes its place.
  RpcListener again(loop, must(listen_on(any, bound)), token, kj::heap<TestSession>(seen));
  rpc_connect(loop, bound, token).wait(loop.scope());
  ::unlink(any.path.c_str());
}

}  // namespace
}  // namespace troupe
