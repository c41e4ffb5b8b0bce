#include "core/control/kj_error.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace troupe {
namespace {

constexpr std::string_view kMark = "troupe-error:";
constexpr int kMaxCauses = 16;

}  // namespace

kj::Exception kj_exception(const Error& error) {
  std::string text =
      std::string(kMark) + std::to_string(static_cast<unsigned>(error.kind)) + ":" + error.message;
  auto type = kj::Exception::Type::FAILED;
  if (error.kind == ErrorKind::overloaded || error.kind == ErrorKind::resource_exhausted) {
    type = kj::Exception::Type::OVERLOADED;
  } else if (error.kind == ErrorKind::unavailable) {
    type = kj::Exception::Type::DISCONNECTED;
  }
  return kj::Exception(type, __FILE__, __LINE__, kj::heapString(text.c_str(), text.size()));
}

Error error_of(const kj::Exception& exception) {
  std::string_view text(exception.getDescription().cStr(), exception.getDescription().size());
  if (auto at = text.find(kMark); at != text.npos) {
    std::string_view rest = text.substr(at + kMark.size());
    unsigned kind = 0;
    auto [end, bad] = std::from_chars(rest.data(), rest.data() + rest.size(), kind);
    if (bad == std::errc{} && end != rest.data() + rest.size() && *end == ':' &&
        kind <= static_cast<unsigned>(kLastErrorKind)) {
      return Error(static_cast<ErrorKind>(kind), std::string(end + 1, rest.data() + rest.size()));
    }
  }
  switch (exception.getType()) {
    case kj::Exception::Type::DISCONNECTED:
      return Error(ErrorKind::unavailable, std::string(text));
    case kj::Exception::Type::OVERLOADED:
      return Error(ErrorKind::overloaded, std::string(text));
    default:
      return Error(ErrorKind::internal, std::string(text));
  }
}

bool connection_lost(const kj::Exception& exception) {
  std::string_view text(exception.getDescription().cStr(), exception.getDescription().size());
  return exception.getType() == kj::Exception::Type::DISCONNECTED && text.find(kMark) == text.npos;
}

void write_failure(wire::Failure::Builder to, const Error& error) {
  auto at = to;
  const Error* from = &error;
  for (int depth = 0;; ++depth) {
    at.setKind(static_cast<std::uint16_t>(from->kind));
    at.setType(from->type.c_str());
    at.setMessage(from->message.c_str());
    auto lines = at.initBacktrace(static_cast<unsigned>(from->backtrace.size()));
    for (unsigned i = 0; i < lines.size(); ++i) lines.set(i, from->backtrace[i].c_str());
    at.setActor(from->actor.value);
    at.setIncarnation(from->incarnation);
    at.setNode(from->node.value);
    if (!from->cause || depth == kMaxCauses) return;
    from = from->cause.get();
    at = at.initCause();
  }
}

Error read_failure(wire::Failure::Reader from) {
  std::vector<Error> chain;
  for (auto at = from;; at = at.getCause()) {
    Error error;
    error.kind =
        static_cast<ErrorKind>(std::min<unsigned>(at.getKind(), static_cast<unsigned>(kLastErrorKind)));
    error.type = at.getType().cStr();
    error.message = at.getMessage().cStr();
    for (auto line : at.getBacktrace()) error.backtrace.emplace_back(line.cStr());
    error.actor = {at.getActor()};
    error.incarnation = at.getIncarnation();
    error.node = {at.getNode()};
    chain.push_back(std::move(error));
    if (!at.hasCause() || chain.size() > kMaxCauses) break;
  }
  for (std::size_t i = chain.size() - 1; i > 0; --i) chain[i - 1].because(std::move(chain[i]));
  return std::move(chain.front());
}

}  // namespace troupe
