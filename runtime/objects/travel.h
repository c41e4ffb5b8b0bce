// References in frames (Frame.refs, core/protocol/call.capnp): args, value or item end with a block that
// names the objects the message refers to, each with the transit under which the sender's store holds it
// meanwhile. The receiver takes them over when the frame arrives, before anything decodes or discards it.
//
//   … bytes … | Traveller × n | n (32 bits)
//
// Any thread. Limits: kMostTravellers in one frame.
#pragma once

#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/codec/attachment.h"
#include "runtime/objects/lending.h"

namespace troupe {

inline constexpr std::size_t kMostTravellers = 1 << 16;

// The message's bytes with their block. What is sent is on its way from now on: a message that is not sent
// after all goes back through take_back. Memory made for the message is lent where `lent` takes it.
std::vector<std::byte> with_travellers(std::span<const std::byte> bytes, const Attachments& attachments,
                                       std::uint64_t channel, LentMemory& lent);
void take_back(std::span<const std::byte> with_block, LentMemory& lent);

// Takes the references over and the block off; false: the block is none. Memory that was lent goes back to
// `lender`.
bool receive_travellers(std::span<const std::byte>& bytes, Attachments& attachments,
                        const std::shared_ptr<Lender>& lender);

// Bulk that a message has outside of itself: its first attachment's bytes. Waits when the object is not in
// memory.
Result<ObjectBytes> outside_bytes(const Attachments& attachments);

}  // namespace troupe
