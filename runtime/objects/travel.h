// What frames refer to (Frame.refs, core/protocol/call.capnp): args, value or item end with a block that
// names the objects the message refers to, each with the transit under which the sender's store holds it
// meanwhile. The receiver takes them over when the frame arrives, before anything decodes or discards it.
// Tensors of a GPU (device_tensors.h) are objects too where both sides use one store; else their elements
// stand before the block.
//
//   … bytes … | elements of tensors | Traveller × n | n (32 bits)
//
// Any thread but the control thread. Limits: kMostTravellers in one frame; elements count to the frame's
// limit.
#pragma once

#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/codec/attachment.h"
#include "runtime/objects/lending.h"

namespace troupe {

inline constexpr std::size_t kMostTravellers = 1 << 16;

// The message's bytes with their block; `sharing`: the receiver uses this process's store. What is sent is on
// its way from now on: a message that is not sent after all goes back through take_back. Memory made for the
// message is lent where `lent` takes it. Errors are those of tensors of a GPU; nothing is on its way then.
Result<std::vector<std::byte>> with_travellers(std::span<const std::byte> bytes,
                                               const Attachments& attachments, std::uint64_t channel,
                                               bool sharing, LentMemory& lent);
void take_back(std::span<const std::byte> with_block, LentMemory& lent);

// Takes the references over and the block off; false: the block is none. Memory that was lent goes back to
// `lender`. Tensors whose elements came along are valid while the frame is.
bool receive_travellers(std::span<const std::byte>& bytes, Attachments& attachments,
                        const std::shared_ptr<Lender>& lender);

// Bulk that a message has outside of itself: its first attachment's bytes. Waits when the object is not in
// memory.
Result<ObjectBytes> outside_bytes(const Attachments& attachments);

}  // namespace troupe
