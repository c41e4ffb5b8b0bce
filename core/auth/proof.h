// Mutual proof that both ends of a new connection hold the cluster token, without showing it.
//
//   server → client   greeting  magic (8), server's nonce (32)
//   client → server   answer    client's nonce (32), HMAC(token, "client" ‖ server's nonce ‖ client's nonce)
//   (32) server → client   verdict   status (1: 0 is welcome), HMAC(token, "server" ‖ both nonces) (32)
//
// HMAC is HMAC-SHA256 (RFC 2104, FIPS 180-4). Nonces are fresh, so nothing recorded is worth anything; the
// labels differ, so nothing reflected is either. It proves who opens the connection; it does not encrypt what
// follows.
//
// Pure state machines without I/O. The caller sends Step::send, feeds what it reads, and stops at `done` or
// `error` (after sending: a refused client is told). When the connection ends before, it reports
// interrupted(). Owner and thread: one connection, one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/auth/token.h"
#include "core/base/error.h"

namespace troupe {

inline constexpr char kProofMagic[] = "TROUPE\x01\n";
inline constexpr std::size_t kProofMagicBytes = 8;
inline constexpr std::size_t kProofNonceBytes = 32;
inline constexpr std::size_t kProofMacBytes = 32;
inline constexpr std::size_t kProofGreetingBytes = kProofMagicBytes + kProofNonceBytes;
inline constexpr std::size_t kProofAnswerBytes = kProofNonceBytes + kProofMacBytes;
inline constexpr std::size_t kProofVerdictBytes = 1 + kProofMacBytes;

using ProofNonce = std::array<std::uint8_t, kProofNonceBytes>;

struct ProofStep {
  std::string send;            // bytes for the other side, perhaps none
  std::size_t consumed = 0;    // of the bytes fed; what lies behind belongs to what follows the proof
  bool done = false;           // the other side holds the token
  std::optional<Error> error;  // unauthenticated: send, then close
};

class ServerProof {
 public:
  static Result<ServerProof> create(const Token& token);
  ServerProof(const Token& token, const ProofNonce& nonce) : token_(token), nonce_(nonce) {}  // for tests

  std::string greeting() const;  // to be sent first
  ProofStep feed(std::span<const std::byte> bytes);
  Error interrupted() const;

 private:
  Token token_;
  ProofNonce nonce_;
  std::string received_;
  bool ended_ = false;
};

class ClientProof {
 public:
  static Result<ClientProof> create(const Token& token);
  ClientProof(const Token& token, const ProofNonce& nonce) : token_(token), nonce_(nonce) {}  // for tests

  ProofStep feed(std::span<const std::byte> bytes);
  Error interrupted() const;

 private:
  void read_greeting(ProofStep& step);
  void read_verdict(ProofStep& step);

  enum class State { greeting, verdict, ended };
  Token token_;
  ProofNonce nonce_;
  ProofNonce server_nonce_{};
  std::string received_;
  State state_ = State::greeting;
};

}  // namespace troupe
