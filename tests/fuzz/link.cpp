// Both kinds of link against a peer that does anything: the first byte of the input chooses the kind, the
// rest is what peer and victim do in turn.
#include <cstring>

#include "tests/fuzz/target.h"
#include "tests/unit/core/link/raw_peer.h"

namespace troupe::fuzz {
namespace {

using test::RawRing;
using test::RawTcp;

constexpr int kMostSteps = 2000;
constexpr std::size_t kBacklog = 1 << 20;

// Touches every byte, so that a sanitizer sees a frame that is not there.
struct Reader final : Link::Sink {
  std::uint64_t sum = 0;
  void on_frame(std::span<const std::byte> frame) override {
    require(frame.size() % 8 == 0 && frame.size() <= kMaxFrame, "frames have a possible size");
    require(reinterpret_cast<std::uintptr_t>(frame.data()) % 8 == 0, "frames are aligned");
    for (std::byte b : frame) sum += static_cast<std::uint64_t>(b);
  }
};

template <class Raw>
void play(Script script) {
  Raw raw(kBacklog);
  Link& victim = *raw.victim.link;
  Reader reader;
  std::uint64_t sent = 0;
  for (int step = 0; step < kMostSteps && !script.done(); ++step) {
    switch (script.byte() % 12) {
      case 0: {
        auto bytes = script.bytes(script.byte());
        raw.write(std::as_bytes(bytes));
        break;
      }
      case 1:
        raw.write(test::header_bytes(static_cast<std::uint32_t>(script.number(4)), script.byte()));
        break;
      case 2:
      case 3:
        raw.write(test::frame_bytes(script.number(2) % 20'000 / 8 * 8, sent++));
        break;
      case 4:
        raw.publish();
        break;
      case 5:
        raw.ring();
        break;
      case 6:
        raw.scribble(script.byte() % 4 ? script.number(1) : script.number(4), script.number(8));
        break;
      case 7:
        if (test::send(victim, script.number(2) / 8 * 8, 1)) victim.flush();
        break;
      case 8:
        if (victim.prepare_sleep()) victim.cancel_sleep();
        break;
      case 9:
        victim.on_ready();
        break;
      case 10:
        if (script.byte() == 0) raw.vanish();
        break;
      default:
        victim.receive(reader, script.byte() % 64);
    }
    require(victim.backlog() <= kBacklog + (64 << 10) + kFrameHeader, "the backlog keeps to its limit");
    if (victim.closed()) {
      require(!victim.close_reason().empty(), "an end has a reason");
      require(victim.begin_frame(8) == nullptr, "nothing is sent over a link that has ended");
    }
  }
  raw.publish();
  raw.vanish();
  // Whatever it was: with the peer gone the link ends, in a bounded number of turns.
  for (int turn = 0; turn < 100'000 && !victim.closed(); ++turn) {
    victim.on_ready();
    victim.receive(reader, 1000);
  }
  require(victim.closed(), "a link without its peer ends");
}

}  // namespace

void run(std::span<const std::uint8_t> input) {
  Script script(input);
  if (script.byte() % 2)
    play<RawRing>(script);
  else
    play<RawTcp>(script);
}

std::vector<Input> seeds() {
  std::vector<Input> out;
  for (std::uint8_t kind : {0, 1}) {
    out.push_back({kind, 2, 64, 0, 4, 5, 11, 10, 3, 0, 32, 4, 11, 8, 7, 0, 64, 11, 10});
    out.push_back({kind, 1, 16, 0, 0, 0, 1, 0, 4, 'a', 'b', 'c', 'd', 4, 9, 11, 60});
    out.push_back(
        {kind, 7, 0, 0xff, 7, 0, 0xff, 7, 0, 0xff, 8, 6, 1, 16, 1, 0, 0, 0, 0, 0, 0, 0, 7, 8, 0, 11, 1});
    Input busy{kind};
    for (int i = 0; i < 60; ++i)
      busy.insert(busy.end(), {2, static_cast<std::uint8_t>(i * 8), 3, 4, 11, 5, 7, 16, 1});
    out.push_back(busy);
    Input large{kind};  // fills the ring without being read, several times around
    for (int i = 0; i < 40; ++i)
      large.insert(large.end(), {2, 0xff, 0x40, 4, 11, static_cast<std::uint8_t>(i % 3)});
    out.push_back(large);
  }
  return out;
}

}  // namespace troupe::fuzz
