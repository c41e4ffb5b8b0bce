#include "runtime/objects/travel.h"

#include <cstring>

namespace troupe {
namespace {

constexpr std::int64_t kOutsideMs = 30'000;

// In memory order: both sides run the same program on the same kind of machine.
struct Block {
  std::uint64_t node, number, size, from_node, from_process, channel, count;
  std::uint32_t cluster, slot, lent, zero;
};

bool read_block(std::span<const std::byte> bytes, std::vector<ObjectClient::Traveller>& out,
                std::size_t& size) {
  std::uint32_t n = 0;
  if (bytes.size() < sizeof n) return false;
  std::memcpy(&n, bytes.data() + bytes.size() - sizeof n, sizeof n);
  size = sizeof n + std::size_t{n} * sizeof(Block);
  if (n == 0 || n > kMostTravellers || bytes.size() < size) return false;
  const std::byte* at = bytes.data() + bytes.size() - size;
  for (std::uint32_t i = 0; i < n; ++i, at += sizeof(Block)) {
    Block block;
    std::memcpy(&block, at, sizeof block);
    if (block.number == 0) return false;
    out.push_back({{block.cluster, {block.node}, block.number},
                   {{block.from_node}, block.from_process, block.channel, block.count},
                   block.slot,
                   block.size,
                   block.lent != 0});
  }
  return true;
}

}  // namespace

std::vector<std::byte> with_travellers(std::span<const std::byte> bytes, const Attachments& attachments,
                                       std::uint64_t channel, LentMemory& lent) {
  std::vector<std::byte> out;
  auto n = static_cast<std::uint32_t>(attachments.size());
  out.reserve(bytes.size() + n * sizeof(Block) + sizeof n);
  out.assign(bytes.begin(), bytes.end());
  auto append = [&](const void* from, std::size_t size) {
    auto* begin = static_cast<const std::byte*>(from);
    out.insert(out.end(), begin, begin + size);
  };
  for (const auto& attachment : attachments) {
    auto& object = static_cast<ObjectHandle&>(*attachment);
    auto one = object.unsealed() && lent.takes(object) ? lent.lend(object)
                                                       : ObjectClient::get().send(object, channel);
    Block block{one.id.node.value,
                one.id.number,
                one.size,
                one.transit.node.value,
                one.transit.process,
                one.transit.channel,
                one.transit.number,
                one.id.cluster,
                one.slot,
                one.lent ? 1u : 0u,
                0};
    append(&block, sizeof block);
  }
  append(&n, sizeof n);
  return out;
}

void take_back(std::span<const std::byte> with_block, LentMemory& lent) {
  std::vector<ObjectClient::Traveller> all;
  std::size_t size = 0;
  if (!read_block(with_block, all, size)) return;
  for (const auto& one : all) {
    if (one.lent)
      lent.spent(one.slot);
    else
      (void)ObjectClient::get().receive(one);
  }
}

bool receive_travellers(std::span<const std::byte>& bytes, Attachments& attachments,
                        const std::shared_ptr<Lender>& lender) {
  std::vector<ObjectClient::Traveller> all;
  std::size_t size = 0;
  if (!read_block(bytes, all, size)) return false;
  bytes = bytes.first(bytes.size() - size);
  attachments.reserve(all.size());
  for (const auto& one : all) {
    auto object = one.lent ? ObjectClient::get().borrow(one, lender) : ObjectClient::get().receive(one);
    attachments.push_back(Ref<Attachment>::adopt(object.leave()));
  }
  return true;
}

Result<ObjectBytes> outside_bytes(const Attachments& attachments) {
  if (attachments.empty())
    return Error(ErrorKind::internal, "a message has its bytes outside, and names no object");
  return ObjectClient::get().open_now(static_cast<ObjectHandle&>(*attachments[0]), kOutsideMs);
}

}  // namespace troupe
