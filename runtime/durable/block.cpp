#include "runtime/durable/block.h"

#include <cstring>
#include <string>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe {
namespace {

constexpr std::uint32_t kMagic = 0x4b4c4254;  // "TBLK"
constexpr std::size_t kAlign = 8;

struct Header {
  std::uint32_t magic = kMagic;
  std::uint32_t count = 0;
  std::uint64_t length = 0;  // of the records
  std::uint64_t first = 0;
  std::uint64_t sum = 0;  // of the records
  std::uint64_t own = 0;  // of the fields above
};
static_assert(sizeof(Header) == kBlockHeader);

struct RecordHeader {
  std::uint64_t caller, sequence, floor;
  std::uint32_t size;
  std::uint16_t method;
  std::uint16_t one_way;
};
static_assert(sizeof(RecordHeader) == kRecordHeader);

std::uint64_t own_sum(const Header& header) {
  return checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, own)));
}

constexpr std::size_t padded(std::size_t size) { return (size + kAlign - 1) / kAlign * kAlign; }

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

void BlockBuilder::add(const CallRecord& record) {
  if (bytes_.empty()) bytes_.resize(kBlockHeader);
  RecordHeader header{record.caller, record.sequence,
                      record.floor,  static_cast<std::uint32_t>(record.args.size()),
                      record.method, static_cast<std::uint16_t>(record.one_way)};
  auto bytes = std::as_bytes(std::span(&header, 1));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  bytes_.insert(bytes_.end(), record.args.begin(), record.args.end());
  ++count_;
}

Bytes BlockBuilder::finish(std::uint64_t first) {
  Header header;
  header.count = count_;
  header.length = bytes_.size() - kBlockHeader;
  header.first = first;
  header.sum = checksum(std::span(bytes_).subspan(kBlockHeader), first);
  header.own = own_sum(header);
  std::memcpy(bytes_.data(), &header, sizeof header);
  bytes_.resize(padded(bytes_.size()));
  count_ = 0;
  return std::exchange(bytes_, {});
}

std::uint64_t block_first(const Bytes& block) {
  Header header;
  std::memcpy(&header, block.data(), sizeof header);
  return header.first;
}

std::optional<BlockView> read_block(std::span<const std::byte> from) {
  Header header;
  if (from.size() < sizeof header) return {};
  std::memcpy(&header, from.data(), sizeof header);
  if (header.magic != kMagic || header.own != own_sum(header)) return {};
  if (header.length > from.size() - sizeof header) return {};
  BlockView view;
  view.first = header.first;
  view.count = header.count;
  view.records = from.subspan(sizeof header, header.length);
  view.size = padded(sizeof header + header.length);
  if (view.size > from.size() || checksum(view.records, header.first) != header.sum) return {};
  return view;
}

bool next_record(std::span<const std::byte>& from, CallRecord& to) {
  RecordHeader header;
  if (from.size() < sizeof header) return false;
  std::memcpy(&header, from.data(), sizeof header);
  if (header.size > from.size() - sizeof header) return false;
  to = {header.caller, header.sequence,     header.floor,
        header.method, header.one_way != 0, from.subspan(sizeof header, header.size)};
  from = from.subspan(sizeof header + header.size);
  return true;
}

Result<Scan> scan_blocks(std::span<const std::byte> image, std::uint64_t base) {
  Scan scan;
  scan.last = base;
  while (scan.sound < image.size()) {
    auto block = read_block(image.subspan(scan.sound));
    if (!block) break;
    if (block->first != scan.last + 1 || block->count == 0) {
      return Error(ErrorKind::internal, "the block at byte " + std::to_string(scan.sound) +
                                            " begins with call " + std::to_string(block->first) + ", not " +
                                            std::to_string(scan.last + 1));
    }
    scan.last += block->count;
    scan.sound += block->size;
    scan.blocks.push_back(*block);
  }
  for (std::size_t at = scan.sound + kAlign; at + kBlockHeader <= image.size(); at += kAlign) {
    auto later = read_block(image.subspan(at));
    if (!later || later->first <= scan.last) continue;
    return Error(ErrorKind::internal, "the block at byte " + std::to_string(scan.sound) +
                                          " is damaged, and sound ones come after it (at byte " +
                                          std::to_string(at) + ")");
  }
  return scan;
}

}  // namespace troupe
