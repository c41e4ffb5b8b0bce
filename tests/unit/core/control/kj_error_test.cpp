#include "core/control/kj_error.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

constexpr auto kLast = static_cast<unsigned>(kLastErrorKind);

TEST(KjError, KindsSurviveAnException) {
  for (unsigned kind = 0; kind <= kLast; ++kind) {
    Error error(static_cast<ErrorKind>(kind), "what: 7:8 troupe-error:3:inside");
    Error back = error_of(kj_exception(error));
    EXPECT_EQ(back.kind, error.kind);
    EXPECT_EQ(back.message, error.message);
  }
}

TEST(KjError, ForeignExceptions) {
  kj::Exception lost(kj::Exception::Type::DISCONNECTED, "file", 1, kj::str("gone"));
  EXPECT_EQ(error_of(lost).kind, ErrorKind::unavailable);
  for (const char* text :
       {"troupe-error:", "troupe-error:x:y", "troupe-error:99:y", "troupe-error:4", "nothing"}) {
    kj::Exception odd(kj::Exception::Type::FAILED, "file", 1, kj::str(text));
    EXPECT_EQ(error_of(odd).kind, ErrorKind::internal) << text;
  }
}

Error chain(int depth) {
  Error error(static_cast<ErrorKind>(depth % (kLast + 1)), "level " + std::to_string(depth));
  error.type = "Type" + std::to_string(depth);
  error.backtrace = {"one", "", "three"};
  error.actor = {static_cast<std::uint64_t>(depth) << 30};
  error.incarnation = static_cast<std::uint32_t>(depth);
  error.node = {7};
  if (depth > 0) error.because(chain(depth - 1));
  return error;
}

TEST(KjError, FailuresKeepAllFieldsAndCauses) {
  capnp::MallocMessageBuilder message;
  write_failure(message.initRoot<wire::Failure>(), chain(5));
  Error back = read_failure(message.getRoot<wire::Failure>().asReader());
  const Error* at = &back;
  for (int depth = 5; depth >= 0; --depth, at = at->cause.get()) {
    ASSERT_NE(at, nullptr);
    Error expected = chain(depth);
    EXPECT_EQ(at->kind, expected.kind);
    EXPECT_EQ(at->message, expected.message);
    EXPECT_EQ(at->type, expected.type);
    EXPECT_EQ(at->backtrace, expected.backtrace);
    EXPECT_EQ(at->actor, expected.actor);
    EXPECT_EQ(at->incarnation, expected.incarnation);
    EXPECT_EQ(at->node, expected.node);
  }
  EXPECT_EQ(at, nullptr);
}

TEST(KjError, EndlessCausesAreCut) {
  capnp::MallocMessageBuilder message;
  write_failure(message.initRoot<wire::Failure>(), chain(200));
  Error back = read_failure(message.getRoot<wire::Failure>().asReader());
  int depth = 0;
  for (const Error* at = &back; at != nullptr; at = at->cause.get()) ++depth;
  EXPECT_GT(depth, 10);
  EXPECT_LT(depth, 40);
}

TEST(KjError, AKindFromALaterVersion) {
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::Failure>().setKind(60000);
  EXPECT_LE(static_cast<unsigned>(read_failure(message.getRoot<wire::Failure>().asReader()).kind), kLast);
}

}  // namespace
}  // namespace troupe
