#include "core/auth/proof.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace troupe {
namespace {

Token token_of(char digit) { return *Token::parse(std::string(64, digit)); }
ProofNonce nonce_of(std::uint8_t value) {
  ProofNonce nonce;
  nonce.fill(value);
  return nonce;
}
std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

void expect_refused(const ProofStep& step, const std::string& part) {
  ASSERT_TRUE(step.error);
  EXPECT_FALSE(step.done);
  EXPECT_EQ(step.error->kind, ErrorKind::unauthenticated);
  EXPECT_NE(step.error->message.find(part), std::string::npos) << step.error->message;
}

class ProofTest : public ::testing::Test {
 protected:
  ServerProof server{token_of('a'), nonce_of(1)};
  ClientProof client{token_of('a'), nonce_of(2)};
};

TEST_F(ProofTest, SameTokenIsWelcome) {
  std::string greeting = server.greeting();
  EXPECT_EQ(greeting.size(), kProofGreetingBytes);
  EXPECT_EQ(greeting.substr(0, 8), std::string("TROUPE\x01\n"));
  ProofStep answer = client.feed(bytes(greeting));
  EXPECT_EQ(answer.send.size(), kProofAnswerBytes);
  EXPECT_FALSE(answer.done);
  ProofStep verdict = server.feed(bytes(answer.send));
  EXPECT_TRUE(verdict.done);
  EXPECT_EQ(verdict.send.size(), kProofVerdictBytes);
  ProofStep end = client.feed(bytes(verdict.send));
  EXPECT_TRUE(end.done);
  EXPECT_FALSE(end.error);
}

TEST_F(ProofTest, AnswerIsHmacSha256) {
  // From another implementation: python3 hmac.new(b"\xaa"*32, b"client" + b"\1"*32 + b"\2"*32, "sha256")
  ProofStep answer = client.feed(bytes(server.greeting()));
  std::string hex;
  for (unsigned char c : answer.send.substr(kProofNonceBytes)) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", c);
    hex += two;
  }
  EXPECT_EQ(hex, "eb8d74e207fc21f578b6899d9c2903d1ac835a3eb13657089d5ba41edb21dacf");
}

TEST_F(ProofTest, ByteByByteAndWithMoreBehind) {
  std::string answer;
  for (char c : server.greeting()) answer += client.feed(bytes(std::string(1, c))).send;
  std::string verdict;
  for (char c : answer) verdict += server.feed(bytes(std::string(1, c))).send;
  ProofStep end = client.feed(bytes(verdict + "next"));
  EXPECT_TRUE(end.done);
  EXPECT_EQ(end.consumed, kProofVerdictBytes);
}

TEST_F(ProofTest, WrongTokenIsRefusedOnBothSides) {
  ClientProof stranger(token_of('b'), nonce_of(2));
  ProofStep verdict = server.feed(bytes(stranger.feed(bytes(server.greeting())).send));
  expect_refused(verdict, "does not hold");
  expect_refused(stranger.feed(bytes(verdict.send)), "refused");
  expect_refused(server.feed(bytes("x")), "over");
  expect_refused(stranger.feed(bytes("x")), "over");
}

TEST_F(ProofTest, AServerWithoutTheTokenIsRefused) {
  client.feed(bytes(server.greeting()));
  expect_refused(client.feed(bytes(std::string(kProofVerdictBytes, '\0'))), "does not hold");
}

TEST_F(ProofTest, WrongMagicIsSeenAtOnce) {
  expect_refused(client.feed(bytes("HTTP")), "not a Troupe server");
  ClientProof other(token_of('a'), nonce_of(2));
  std::string future = server.greeting();
  future[6] = 2;
  expect_refused(other.feed(bytes(future)), "not a Troupe server");
}

TEST_F(ProofTest, ReplayedAnswerIsRefused) {
  std::string answer = client.feed(bytes(server.greeting())).send;
  ServerProof later(token_of('a'), nonce_of(3));
  expect_refused(later.feed(bytes(answer)), "does not hold");
}

TEST_F(ProofTest, ReplayedVerdictIsRefused) {
  std::string verdict = server.feed(bytes(client.feed(bytes(server.greeting())).send)).send;
  ClientProof later(token_of('a'), nonce_of(4));
  later.feed(bytes(server.greeting()));
  expect_refused(later.feed(bytes(verdict)), "does not hold");
}

TEST_F(ProofTest, ReflectedMessagesAreRefused) {
  // A client that sends the server's own words back.
  expect_refused(server.feed(bytes(server.greeting() + std::string(kProofAnswerBytes, '\0'))),
                 "does not hold");
  // A server that sends the client's proof back as its own.
  ClientProof other(token_of('a'), nonce_of(1));
  std::string answer = other.feed(bytes(ServerProof(token_of('a'), nonce_of(1)).greeting())).send;
  expect_refused(other.feed(bytes(std::string(1, '\0') + answer.substr(kProofNonceBytes))), "does not hold");
}

TEST_F(ProofTest, EachChangedBitIsRefused) {
  std::string answer = client.feed(bytes(server.greeting())).send;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    std::string changed = answer;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    ServerProof fresh(token_of('a'), nonce_of(1));
    expect_refused(fresh.feed(bytes(changed)), "does not hold");
  }
}

TEST_F(ProofTest, InterruptionIsAnErrorOnBothSides) {
  EXPECT_EQ(server.interrupted().kind, ErrorKind::unauthenticated);
  // A server that dies says nothing about the token: such a connection is worth another try.
  EXPECT_EQ(client.interrupted().kind, ErrorKind::unavailable);
  EXPECT_NE(client.interrupted().message.find("before it greeted"), std::string::npos);
  client.feed(bytes(server.greeting()));
  EXPECT_EQ(client.interrupted().kind, ErrorKind::unavailable);
  EXPECT_NE(client.interrupted().message.find("before it proved"), std::string::npos);
}

TEST(ProofNonceTest, IsFreshEachTime) {
  auto a = ServerProof::create(token_of('a'));
  auto b = ServerProof::create(token_of('a'));
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->greeting(), b->greeting());
}

}  // namespace
}  // namespace troupe
