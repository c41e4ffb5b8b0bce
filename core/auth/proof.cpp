#include "core/auth/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstring>

#include "core/auth/random.h"

namespace troupe {

namespace {

using Mac = std::array<std::uint8_t, kProofMacBytes>;

// Empty when the library fails; then nothing is proved.
std::optional<Mac> mac_of(const Token& token, const char* label, const ProofNonce& server,
                          const ProofNonce& client) {
  std::string message = label;
  message.append(reinterpret_cast<const char*>(server.data()), server.size());
  message.append(reinterpret_cast<const char*>(client.data()), client.size());
  Mac mac;
  unsigned size = 0;
  if (!HMAC(EVP_sha256(), token.bytes().data(), static_cast<int>(token.bytes().size()),
            reinterpret_cast<const unsigned char*>(message.data()), message.size(), mac.data(), &size) ||
      size != mac.size()) {
    return std::nullopt;
  }
  return mac;
}

bool equal(const std::optional<Mac>& mac, const char* bytes) {
  return mac && CRYPTO_memcmp(mac->data(), bytes, mac->size()) == 0;
}

template <class Array>
void append(std::string& text, const Array& bytes) {
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Moves bytes from `bytes` to `received` until it has `size`. True when it has.
bool take(std::string& received, std::size_t size, std::span<const std::byte>& bytes, std::size_t& consumed) {
  std::size_t n = std::min(size - received.size(), bytes.size());
  received.append(reinterpret_cast<const char*>(bytes.data()), n);
  bytes = bytes.subspan(n);
  consumed += n;
  return received.size() == size;
}

Error unauthenticated(const std::string& message) { return Error(ErrorKind::unauthenticated, message); }

constexpr char kSameToken[] = "use the token file of the cluster's head on every machine";

}  // namespace

Result<ServerProof> ServerProof::create(const Token& token) {
  ProofNonce nonce;
  Result<void> filled = random_bytes(nonce);
  if (!filled) return filled.error();
  return ServerProof(token, nonce);
}

std::string ServerProof::greeting() const {
  std::string text(kProofMagic, kProofMagicBytes);
  append(text, nonce_);
  return text;
}

ProofStep ServerProof::feed(std::span<const std::byte> bytes) {
  ProofStep step;
  if (ended_) {
    step.error = unauthenticated("the proof of the cluster token is over");
    return step;
  }
  if (!take(received_, kProofAnswerBytes, bytes, step.consumed)) return step;
  ended_ = true;
  ProofNonce client;
  std::memcpy(client.data(), received_.data(), client.size());
  std::optional<Mac> own = mac_of(token_, "server", nonce_, client);
  if (own && equal(mac_of(token_, "client", nonce_, client), received_.data() + kProofNonceBytes)) {
    step.send.push_back(0);
    append(step.send, *own);
    step.done = true;
  } else {
    step.send.assign(kProofVerdictBytes, 0);
    step.send[0] = 1;
    step.error = unauthenticated("the peer does not hold this cluster's token");
  }
  return step;
}

Error ServerProof::interrupted() const {
  return unauthenticated("the peer left before it proved to hold the cluster token");
}

Result<ClientProof> ClientProof::create(const Token& token) {
  ProofNonce nonce;
  Result<void> filled = random_bytes(nonce);
  if (!filled) return filled.error();
  return ClientProof(token, nonce);
}

ProofStep ClientProof::feed(std::span<const std::byte> bytes) {
  ProofStep step;
  if (state_ == State::ended) {
    step.error = unauthenticated("the proof of the cluster token is over");
    return step;
  }
  if (state_ == State::greeting) {
    bool whole = take(received_, kProofGreetingBytes, bytes, step.consumed);
    // Something else than Troupe may send less than a greeting and then wait.
    std::size_t known = std::min(received_.size(), kProofMagicBytes);
    if (std::memcmp(received_.data(), kProofMagic, known) != 0) {
      state_ = State::ended;
      step.error =
          unauthenticated("the other side is not a Troupe server of this version; check address and port");
    }
    if (!whole || step.error) return step;
    read_greeting(step);
    if (step.error) return step;
  }
  if (take(received_, kProofVerdictBytes, bytes, step.consumed)) read_verdict(step);
  return step;
}

void ClientProof::read_greeting(ProofStep& step) {
  std::memcpy(server_nonce_.data(), received_.data() + kProofMagicBytes, server_nonce_.size());
  received_.clear();
  std::optional<Mac> own = mac_of(token_, "client", server_nonce_, nonce_);
  if (!own) {
    state_ = State::ended;
    step.error = unauthenticated("HMAC-SHA256 is not available in this OpenSSL");
    return;
  }
  append(step.send, nonce_);
  append(step.send, *own);
  state_ = State::verdict;
}

void ClientProof::read_verdict(ProofStep& step) {
  state_ = State::ended;
  if (received_[0] != 0) {
    step.error =
        unauthenticated(std::string("the server refused this process's cluster token; ") + kSameToken);
  } else if (!equal(mac_of(token_, "server", server_nonce_, nonce_), received_.data() + 1)) {
    step.error = unauthenticated(std::string("the server does not hold this cluster's token; ") + kSameToken);
  } else {
    step.done = true;
  }
}

Error ClientProof::interrupted() const {
  // A wrong token is told by the verdict. Without one nothing is known of it: the server ended, or is none of
  // ours.
  return Error(ErrorKind::unavailable, state_ == State::greeting
                                           ? "the server left before it greeted; check address and port"
                                           : "the server left before it proved to hold the cluster token");
}

}  // namespace troupe
