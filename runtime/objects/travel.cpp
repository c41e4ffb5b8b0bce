#include "runtime/objects/travel.h"

#include <cstring>

#include "core/link/link.h"
#include "runtime/objects/device_tensors.h"

namespace troupe {
namespace {

constexpr std::int64_t kOutsideMs = 30'000;

enum class Kind : std::uint32_t { object = 0, exported = 1, lent = 2, staged = 3 };

// In memory order: both sides run the same program on the same kind of machine.
struct Block {
  std::uint64_t node, number, size, from_node, from_process, channel, count, offset;
  std::uint32_t cluster, slot;
  Kind kind;
  std::uint32_t zero;
};

bool read_block(std::span<const std::byte> bytes, std::vector<Block>& out, std::size_t& size) {
  std::uint32_t n = 0;
  if (bytes.size() < sizeof n) return false;
  std::memcpy(&n, bytes.data() + bytes.size() - sizeof n, sizeof n);
  size = sizeof n + std::size_t{n} * sizeof(Block);
  if (n == 0 || n > kMostTravellers || bytes.size() < size) return false;
  out.resize(n);
  std::memcpy(out.data(), bytes.data() + bytes.size() - size, n * sizeof(Block));
  std::size_t staged = 0, room = bytes.size() - size;
  for (const Block& block : out) {
    if (block.kind > Kind::staged || (block.kind != Kind::staged && block.number == 0)) return false;
    if (block.kind != Kind::staged) continue;
    if (block.size > room - staged) return false;
    staged += block.size;
  }
  return true;
}

const Tensor& tensor_in(const Attachment& attachment) {
  return static_cast<const HeldTensor&>(attachment).tensor;
}

Block block_of(const ObjectClient::Traveller& one, Kind kind = Kind::object) {
  Block block{};
  block.kind = kind;
  block.node = one.id.node.value;
  block.number = one.id.number;
  block.size = one.size;
  block.from_node = one.transit.node.value;
  block.from_process = one.transit.process;
  block.channel = one.transit.channel;
  block.count = one.transit.number;
  block.cluster = one.id.cluster;
  block.slot = one.slot;
  return block;
}

ObjectClient::Traveller traveller(const Block& block) {
  return {{block.cluster, {block.node}, block.number},
          {{block.from_node}, block.from_process, block.channel, block.count},
          block.slot,
          block.size};
}

Ref<ObjectHandle> receive(const Block& block) { return ObjectClient::get().receive(traveller(block)); }

}  // namespace

Result<std::vector<std::byte>> with_travellers(std::span<const std::byte> bytes,
                                               const Attachments& attachments, std::uint64_t channel,
                                               bool sharing, LentMemory& lent) {
  auto n = static_cast<std::uint32_t>(attachments.size());
  std::vector<ExportedTensor> exported(n);
  std::size_t staged = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (attachments[i]->kind() != Attachment::Kind::tensor) continue;
    const Tensor& tensor = tensor_in(*attachments[i]);
    if (sharing) {
      auto done = export_tensor(tensor);
      if (!done) return done.error();
      if (*done) exported[i] = std::move(**done);
    }
    if (!exported[i].object) staged += tensor.nbytes();
  }
  std::size_t block_bytes = n * sizeof(Block) + sizeof n;
  if (staged > 0 && bytes.size() + staged + block_bytes > kMaxFrame)
    return Error(ErrorKind::invalid_argument,
                 "a message with " + std::to_string(staged) +
                     " bytes of tensors of a GPU exceeds the limit of " + std::to_string(kMaxFrame) +
                     " bytes for one message to another node: pass it in pieces");
  std::vector<std::byte> out;
  out.reserve(bytes.size() + staged + block_bytes);
  out.assign(bytes.begin(), bytes.end());
  out.resize(bytes.size() + staged);
  std::vector<Block> blocks(n);
  std::size_t at = bytes.size();
  for (std::uint32_t i = 0; i < n && staged > 0; ++i) {
    if (attachments[i]->kind() != Attachment::Kind::tensor || exported[i].object) continue;
    const Tensor& tensor = tensor_in(*attachments[i]);
    if (auto done = stage_tensor(tensor, out.data() + at); !done) return done.error();
    at += tensor.nbytes();
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    if (attachments[i]->kind() == Attachment::Kind::object) {
      auto& object = static_cast<ObjectHandle&>(*attachments[i]);
      if (object.unsealed() && lent.takes(object))
        blocks[i] = block_of(lent.lend(object), Kind::lent);
      else
        blocks[i] = block_of(ObjectClient::get().send(object, channel));
    } else if (exported[i].object) {
      blocks[i] = block_of(ObjectClient::get().send(*exported[i].object, channel), Kind::exported);
      blocks[i].offset = exported[i].offset;
    } else {
      blocks[i].kind = Kind::staged;
      blocks[i].size = tensor_in(*attachments[i]).nbytes();
    }
  }
  out.resize(at + block_bytes);
  std::memcpy(out.data() + at, blocks.data(), n * sizeof(Block));
  std::memcpy(out.data() + at + n * sizeof(Block), &n, sizeof n);
  return out;
}

void take_back(std::span<const std::byte> with_block, LentMemory& lent) {
  std::vector<Block> all;
  std::size_t size = 0;
  if (!read_block(with_block, all, size)) return;
  for (const Block& one : all) {
    if (one.kind == Kind::lent)
      lent.spent(one.slot);
    else if (one.kind != Kind::staged)
      (void)receive(one);
  }
}

bool receive_travellers(std::span<const std::byte>& bytes, Attachments& attachments,
                        const std::shared_ptr<Lender>& lender) {
  std::vector<Block> all;
  std::size_t size = 0, staged = 0;
  if (!read_block(bytes, all, size)) return false;
  for (const Block& one : all) {
    if (one.kind == Kind::staged) staged += one.size;
  }
  bytes = bytes.first(bytes.size() - size);
  auto elements = bytes.last(staged);
  bytes = bytes.first(bytes.size() - staged);
  attachments.reserve(all.size());
  for (const Block& one : all) {
    Attachment* arrived = nullptr;
    if (one.kind == Kind::staged) {
      arrived = new StagedTensor(elements.first(one.size));
      elements = elements.subspan(one.size);
    } else if (one.kind == Kind::exported) {
      arrived = new ImportedTensor(receive(one), one.offset);
    } else if (one.kind == Kind::lent) {
      arrived = ObjectClient::get().borrow(traveller(one), lender).leave();
    } else {
      arrived = receive(one).leave();
    }
    attachments.push_back(Ref<Attachment>::adopt(arrived));
  }
  return true;
}

Result<ObjectBytes> outside_bytes(const Attachments& attachments) {
  if (attachments.empty() || attachments[0]->kind() != Attachment::Kind::object)
    return Error(ErrorKind::internal, "a message has its bytes outside, and names no object");
  return ObjectClient::get().open_now(static_cast<ObjectHandle&>(*attachments[0]), kOutsideMs);
}

}  // namespace troupe
