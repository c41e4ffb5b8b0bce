#include "runtime/call/frame.h"

#include <capnp/message.h>

#include "core/control/kj_error.h"
#include "core/protocol/call.capnp.h"

namespace troupe {
namespace {

constexpr std::size_t kWord = sizeof(capnp::word);
constexpr std::size_t kMaxChain = 256;

constexpr std::size_t words(std::size_t bytes) { return (bytes + kWord - 1) / kWord; }

// Root pointer and the struct itself.
std::size_t base_words() { return 1 + capnp::sizeInWords<wire::Frame>(); }

kj::ArrayPtr<capnp::word> as_words(std::byte* to, std::size_t size) {
  return kj::arrayPtr(reinterpret_cast<capnp::word*>(to), size / kWord);
}

capnp::Data::Reader as_data(std::span<const std::byte> bytes) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size());
}

std::span<const std::byte> as_span(capnp::Data::Reader data) {
  return {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
}

// Reads a message of one segment without copying it.
class FlatReader final : public capnp::MessageReader {
 public:
  explicit FlatReader(std::span<const std::byte> bytes)
      : MessageReader(options(bytes.size() / kWord)),
        segment_(kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / kWord)) {}
  kj::ArrayPtr<const capnp::word> getSegment(unsigned id) override {
    return id == 0 ? segment_ : kj::ArrayPtr<const capnp::word>(nullptr);
  }

 private:
  static capnp::ReaderOptions options(std::size_t size) {
    capnp::ReaderOptions out;
    out.traversalLimitInWords = 4 * size + 1024;
    return out;
  }
  kj::ArrayPtr<const capnp::word> segment_;
};

}  // namespace

std::size_t call_size(std::size_t args, std::size_t chain, bool numbered) {
  std::size_t list = chain == 0 ? 0 : 1 + chain * capnp::sizeInWords<wire::Hop>();
  std::size_t number = numbered ? capnp::sizeInWords<wire::CallNumber>() : 0;
  return (base_words() + words(args) + list + number) * kWord;
}

void write_call(std::byte* to, std::size_t size, const CallHeader& header, std::span<const std::byte> args,
                std::span<const Hop> chain) {
  capnp::FlatMessageBuilder message(as_words(to, size));
  auto frame = message.initRoot<wire::Frame>();
  frame.setId(header.id);
  auto call = frame.initCall();
  call.setActor(header.actor.value);
  call.setIncarnation(header.incarnation);
  call.setMethod(header.method);
  call.setOneWay(header.one_way);
  call.setDeadline(header.deadline_ms);
  call.setCredit(header.credit);
  call.setTrace(header.trace);
  call.setShares(header.shares);
  frame.setRefs(header.extras.refs);
  frame.setOutside(header.extras.outside);
  if (!args.empty()) call.setArgs(as_data(args));
  if (header.number.sequence != 0) {
    auto number = frame.initNumber();
    number.setCaller(header.number.caller);
    number.setSequence(header.number.sequence);
    number.setFloor(header.number.floor);
  }
  if (!chain.empty()) {
    auto list = call.initChain(static_cast<unsigned>(chain.size()));
    for (unsigned i = 0; i < chain.size(); ++i) {
      list[i].setActor(chain[i].actor.value);
      list[i].setCall(chain[i].call);
    }
  }
}

std::size_t bytes_size(std::size_t bytes) { return (base_words() + words(bytes)) * kWord; }

void write_bytes(std::byte* to, std::size_t size, FrameKind kind, std::uint64_t id,
                 std::span<const std::byte> bytes, FrameExtras extras) {
  capnp::FlatMessageBuilder message(as_words(to, size));
  auto frame = message.initRoot<wire::Frame>();
  frame.setId(id);
  frame.setRefs(extras.refs);
  frame.setOutside(extras.outside);
  if (kind == FrameKind::item)
    frame.setItem(as_data(bytes));
  else
    frame.setValue(as_data(bytes));
}

std::size_t short_size() { return base_words() * kWord; }

void write_credit(std::byte* to, std::size_t size, std::uint64_t id, std::uint32_t credit) {
  capnp::FlatMessageBuilder message(as_words(to, size));
  auto frame = message.initRoot<wire::Frame>();
  frame.setId(id);
  frame.setCredit(credit);
}

void write_cancel(std::byte* to, std::size_t size, std::uint64_t id) {
  capnp::FlatMessageBuilder message(as_words(to, size));
  auto frame = message.initRoot<wire::Frame>();
  frame.setId(id);
  frame.setCancel();
}

void write_spent(std::byte* to, std::size_t size, std::uint32_t slot) {
  capnp::FlatMessageBuilder message(as_words(to, size));
  message.initRoot<wire::Frame>().setSpent(slot);
}

std::vector<std::uint64_t> failure_frame(FrameKind kind, std::uint64_t id, const Error& error) {
  capnp::MallocMessageBuilder draft;
  auto frame = draft.initRoot<wire::Frame>();
  frame.setId(id);
  write_failure(kind == FrameKind::gone ? frame.initGone() : frame.initFailure(), error);
  // One segment, whatever the draft grew to.
  std::size_t size = draft.getRoot<wire::Frame>().asReader().totalSize().wordCount + 1;
  std::vector<std::uint64_t> out(size);
  capnp::FlatMessageBuilder flat(kj::arrayPtr(reinterpret_cast<capnp::word*>(out.data()), out.size()));
  flat.setRoot(frame.asReader());
  return out;
}

bool parse_frame(std::span<const std::byte> frame, FrameView& view, HopList& chain, Error& error) try {
  if (frame.size() < kWord || frame.size() % kWord != 0) return false;
  FlatReader message(frame);
  auto root = message.getRoot<wire::Frame>();
  view.call.id = root.getId();
  view.extras.refs = root.getRefs();
  view.extras.outside = root.getOutside();
  switch (root.which()) {
    case wire::Frame::CALL: {
      auto call = root.getCall();
      view.kind = FrameKind::call;
      view.call.actor = {call.getActor()};
      view.call.incarnation = call.getIncarnation();
      view.call.method = call.getMethod();
      view.call.one_way = call.getOneWay();
      view.call.deadline_ms = call.getDeadline();
      view.call.credit = call.getCredit();
      view.call.trace = call.getTrace();
      view.call.shares = call.getShares();
      view.bytes = as_span(call.getArgs());
      view.call.number = {};
      if (root.hasNumber()) {
        auto number = root.getNumber();
        view.call.number = {number.getCaller(), number.getSequence(), number.getFloor()};
      }
      chain.clear();
      if (call.hasChain()) {
        auto list = call.getChain();
        if (list.size() > kMaxChain) return false;
        for (auto hop : list) chain.push_back({{hop.getActor()}, hop.getCall()});
      }
      return true;
    }
    case wire::Frame::VALUE:
      view.kind = FrameKind::value;
      view.bytes = as_span(root.getValue());
      return true;
    case wire::Frame::FAILURE:
      view.kind = FrameKind::failure;
      error = read_failure(root.getFailure());
      return true;
    case wire::Frame::ITEM:
      view.kind = FrameKind::item;
      view.bytes = as_span(root.getItem());
      return true;
    case wire::Frame::CREDIT:
      view.kind = FrameKind::credit;
      view.credit = root.getCredit();
      return true;
    case wire::Frame::CANCEL:
      view.kind = FrameKind::cancel;
      return true;
    case wire::Frame::SPENT:
      view.kind = FrameKind::spent;
      view.slot = root.getSpent();
      return true;
    case wire::Frame::GONE:
      view.kind = FrameKind::gone;
      error = read_failure(root.getGone());
      return true;
  }
  view.kind = FrameKind::unknown;
  return true;
} catch (const kj::Exception&) {
  return false;
}

}  // namespace troupe
