// Setting links up: after the proof of the token the caller says who it is and whom it wants (LinkHello), and
// the callee checks process, fingerprint and lane before it accepts (not the job: detached actors serve later
// ones). Inside one machine the caller brings a memfd for the rings and both sides pass their lane's
// doorbell; else the socket itself becomes the link.
//
// Control thread. Limits: one hello of at most kMaxHello bytes, in kHelloMs.
#pragma once

#include <kj/async.h>

#include <functional>

#include <memory>

#include "core/auth/token.h"
#include "core/control/stream.h"
#include "core/link/link.h"
#include "runtime/call/directory.h"

namespace troupe {

inline constexpr std::uint32_t kLinkProtocol = 1;
inline constexpr std::uint32_t kMaxHello = 4096;
inline constexpr int kHelloMs = 5000;

struct LinkIdentity {
  ProcessId process;
  JobId job;
  std::uint64_t fingerprint = 0;
  std::string host_id;
};

// Rejected with an Error: unavailable, unauthenticated, mismatch, not_found.
kj::Promise<kj::Own<std::unique_ptr<Link>>> open_link(ControlLoop& loop, const Place& place,
                                                      const LinkIdentity& self, const Token& token,
                                                      int doorbell);

// Finds the doorbell of a lane of this process, or -1.
using DoorbellOf = std::function<int(std::uint16_t lane)>;
using OnLink = std::function<void(std::uint16_t lane, std::unique_ptr<Link> link)>;

// Serves one proven connection: answers the hello and hands the link on, or refuses with a reason.
kj::Promise<void> serve_link(ControlLoop& loop, kj::Own<SocketStream> stream, const LinkIdentity& self,
                             DoorbellOf doorbell_of, OnLink on_link);

}  // namespace troupe
