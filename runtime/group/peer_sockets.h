// PeerSockets: how a rank gets one connection to each other rank of its generation.
//
// It listens on one port, and on a Unix socket for ranks of the same machine, which is about twice as quick.
// Each rank dials those below it; both sides prove that they hold the cluster's token (core/auth/proof.h)
// before anything else that they say is looked at. Then the dialling rank tells which
// connection of which group it means, by a random key that came with the address. Who does not prove itself,
// or means another group, is dropped and disturbs nobody; so is the oldest of too many that say nothing.
//
// Owner and thread: the mesh's. Nothing listens any more when connect() has returned. Errors: see Connected.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "core/auth/token.h"
#include "core/base/error.h"
#include "core/os/fd.h"

namespace troupe {

class PeerSockets {
 public:
  // Without a token nothing listens: listen() fails.
  PeerSockets(int rank, int size, std::string host, std::optional<Token> token);
  ~PeerSockets();

  // What the other ranks need to reach this one.
  Result<std::string> listen();

  struct Connected {
    std::vector<UniqueFd> sockets;  // by rank, non-blocking; none for this rank
    // When something failed: which ranks are not connected, and why, if it is not deadline or stop.
    std::vector<int> missing;
    std::string problem;
  };
  // With the addresses of all ranks. Waits until the deadline passes or stop() says so; both are asked
  // whenever `wake` is readable.
  Connected connect(const std::vector<std::string>& addresses, int wake,
                    const std::function<std::int64_t()>& deadline, const std::function<bool()>& stop);

 private:
  struct Peer;

  std::string dial(Peer& peer);
  void accept_all(int listening);
  enum class Step { wait, done, ended };
  Step advance(Peer& peer);
  Step read(Peer& peer);
  bool admit(Peer& peer);

  const int rank_, size_;
  const std::string host_;
  const std::optional<Token> token_;
  std::string key_;  // of this listener
  UniqueFd tcp_, unix_;
  std::vector<UniqueFd> sockets_;
  std::list<Peer> peers_;  // connections that are not proven yet
};

}  // namespace troupe
