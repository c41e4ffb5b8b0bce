// What a link delivers, as the call plane parses it: any bytes of a possible length.
#include <cstring>
#include <string>

#include "runtime/call/frame.h"
#include "tests/fuzz/target.h"

namespace troupe::fuzz {
namespace {

Input input_of(const void* bytes, std::size_t size) {
  auto* begin = static_cast<const std::uint8_t*>(bytes);
  return {begin, begin + size};
}

template <class Write>
Input frame_of(std::size_t size, Write write) {
  std::vector<std::uint64_t> words(size / 8);
  write(reinterpret_cast<std::byte*>(words.data()), size);
  return input_of(words.data(), size);
}

std::span<const std::byte> text(const char* bytes) {
  return std::as_bytes(std::span(bytes, std::strlen(bytes)));
}

}  // namespace

void run(std::span<const std::uint8_t> input) {
  std::vector<std::uint64_t> words((input.size() + 7) / 8);
  if (!input.empty()) std::memcpy(words.data(), input.data(), input.size());
  auto frame = std::as_bytes(std::span(words));
  FrameView view;
  HopList chain;
  Error error;
  if (!parse_frame(frame, view, chain, error)) return;
  std::uint64_t sum = 0;
  for (std::byte b : view.bytes) sum += static_cast<std::uint64_t>(b);
  require(sum <= 255 * frame.size() && view.bytes.size() <= frame.size(), "bytes lie within their frame");
  require(chain.size() <= 256, "a chain is bounded");
  // Nothing grows much beyond what was sent: the traversal limit is four times the frame.
  std::size_t told = 0;
  for (const Error* e = &error; e != nullptr; e = e->cause.get()) {
    told += e->message.size() + e->type.size();
    for (const auto& line : e->backtrace) told += line.size();
  }
  require(told <= 4 * frame.size() + 8 * 1024, "a failure is not larger than its frame allows");
}

std::vector<Input> seeds() {
  CallHeader header;
  header.id = 7;
  header.actor = {42};
  header.incarnation = 3;
  header.method = 2;
  CallHeader numbered = header;
  numbered.number = {5, 6, 4};
  Hop hops[] = {{{1}, 2}, {{3}, 4}, {{5}, 6}};
  auto args = text("arguments of a call");
  Error error(ErrorKind::actor_error, "it threw");
  error.type = "std::runtime_error";
  error.backtrace = {"main", "run"};
  error.because(Error(ErrorKind::unavailable, "deeper")).because(Error(ErrorKind::internal, "deepest"));
  auto failure = failure_frame(FrameKind::failure, 9, error);
  auto gone = failure_frame(FrameKind::gone, 9, error);
  return {
      frame_of(call_size(args.size(), 0), [&](auto* to, auto n) { write_call(to, n, header, args, {}); }),
      frame_of(call_size(args.size(), 3, true),
               [&](auto* to, auto n) { write_call(to, n, numbered, args, hops); }),
      frame_of(bytes_size(args.size()),
               [&](auto* to, auto n) { write_bytes(to, n, FrameKind::value, 7, args); }),
      frame_of(bytes_size(0), [&](auto* to, auto n) { write_bytes(to, n, FrameKind::item, 7, {}); }),
      frame_of(short_size(), [&](auto* to, auto n) { write_credit(to, n, 7, 12); }),
      frame_of(short_size(), [&](auto* to, auto n) { write_cancel(to, n, 7); }),
      input_of(failure.data(), failure.size() * 8),
      input_of(gone.data(), gone.size() * 8),
  };
}

}  // namespace troupe::fuzz
