#include "runtime/group/gloo_mesh.h"

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/clock.h"
#include "core/codec/archive.h"
#include "runtime/group/mesh_state.h"

namespace troupe {
namespace {

// Gloo's own limits would close all connections when one wait ends; deadlines are kept here instead.
constexpr auto kGlooTimeout = std::chrono::hours(10);
constexpr std::uint64_t kProbeTag = ~0ull;

class GlooBuffer;

class GlooMesh final : public Mesh {
 public:
  GlooMesh(int rank, int size, std::string host) : rank_(rank), size_(size), host_(std::move(host)) {}
  ~GlooMesh() override { close(); }

  Result<std::string> address() override;
  bool connect(const std::vector<std::string>& addresses) override;
  std::unique_ptr<Buffer> buffer(void* memory, std::size_t bytes) override;
  void set_deadline(std::int64_t deadline_ns) override;
  std::int64_t deadline() const override { return state_.deadline(); }
  void abort(const Error& why) override { fail({why, {}, false}); }
  bool failed() const override { return state_.failed(); }
  std::optional<MeshFailure> failure() const override { return state_.failure(); }
  void close() override;

 private:
  friend class GlooBuffer;

  void fail(MeshFailure failure) {
    if (state_.fail(std::move(failure))) wake();
  }
  void fail_lost(const char* what, std::vector<int> waited_for);
  void wake();
  std::vector<int> lost_ranks();
  void close_pairs();

  const int rank_, size_;
  const std::string host_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  MeshState state_;
  mutable std::mutex mutex_;  // guards what follows; never held while Gloo waits
  std::condition_variable changed_;
  std::set<GlooBuffer*> buffers_;
};

class GlooBuffer final : public Mesh::Buffer {
 public:
  GlooBuffer(GlooMesh& mesh, void* memory, std::size_t bytes)
      : mesh_(mesh), memory_(mesh.context_->createUnboundBuffer(memory, bytes)) {
    std::lock_guard lock(mesh_.mutex_);
    mesh_.buffers_.insert(this);
  }
  ~GlooBuffer() override {
    std::lock_guard lock(mesh_.mutex_);
    mesh_.buffers_.erase(this);
  }

  void send(int peer, std::uint64_t tag, std::size_t offset, std::size_t bytes) override {
    begin(sending_, peer, [&] { memory_->send(peer, tag, offset, bytes); });
  }
  void recv(int peer, std::uint64_t tag, std::size_t offset, std::size_t bytes) override {
    begin(receiving_, peer, [&] { memory_->recv(peer, tag, offset, bytes); });
  }
  bool wait_send() override {
    return wait(sending_, [&](int* peer, auto limit) { return memory_->waitSend(peer, limit); });
  }
  bool wait_recv() override {
    return wait(receiving_, [&](int* peer, auto limit) { return memory_->waitRecv(peer, limit); });
  }
  // Any thread: makes a wait look at the deadline and the failure again.
  void poke() {
    memory_->abortWaitRecv();
    memory_->abortWaitSend();
  }

 private:
  template <class F>
  void begin(std::vector<int>& under_way, int peer, F f) {
    if (mesh_.failed()) return;
    under_way.push_back(peer);
    try {
      f();
    } catch (const std::exception& error) {
      mesh_.fail_lost(error.what(), {peer});
    }
  }

  template <class F>
  bool wait(std::vector<int>& under_way, F f) {
    for (;;) {
      if (mesh_.failed()) return false;
      std::int64_t left = mesh_.deadline() - steady_ns();
      if (left <= 0) {
        mesh_.fail(too_late(mesh_.rank_, under_way));
        return false;
      }
      auto limit =
          std::min<std::int64_t>(left / 1'000'000 + 1, std::chrono::milliseconds(kGlooTimeout).count());
      int peer = -1;
      try {
        if (f(&peer, std::chrono::milliseconds(limit))) {
          if (auto it = std::find(under_way.begin(), under_way.end(), peer); it != under_way.end())
            under_way.erase(it);
          return true;
        }
      } catch (const std::exception& error) {
        if (steady_ns() >= mesh_.deadline())
          mesh_.fail(too_late(mesh_.rank_, under_way));
        else
          mesh_.fail_lost(error.what(), under_way);
        return false;
      }
    }
  }

  GlooMesh& mesh_;
  std::vector<int> sending_, receiving_;  // peers of the messages under way
  std::unique_ptr<gloo::transport::UnboundBuffer> memory_;
};

Result<std::string> GlooMesh::address() {
  std::vector<std::vector<char>> addresses(static_cast<std::size_t>(size_));
  try {
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(host_.c_str()));
    context_ = device_->createContext(rank_, size_);
    context_->setTimeout(kGlooTimeout);
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) addresses[static_cast<std::size_t>(i)] = context_->createPair(i)->address().bytes();
    }
  } catch (const std::exception& error) {
    return Error(ErrorKind::unavailable,
                 "rank " + std::to_string(rank_) + " cannot listen on " + host_ +
                     " for its group: " + error.what() +
                     "; give an address of this machine, and see whether descriptors are left (ulimit -n)");
  }
  Writer to;
  encode(to, addresses);
  return std::string(reinterpret_cast<const char*>(to.bytes().data()), to.size());
}

bool GlooMesh::connect(const std::vector<std::string>& addresses) {
  if (size_ == 1) return !failed();
  // Gloo's connect() blocks without a limit of ours; closing the pairs ends it.
  bool over = false, late = false;
  std::thread watch([&] {
    std::unique_lock lock(mutex_);
    while (!over && !failed() && !late) {
      std::int64_t left = deadline() - steady_ns();
      late = left <= 0;
      if (!late)
        changed_.wait_for(lock, std::chrono::nanoseconds(std::min<std::int64_t>(left, 1'000'000'000)));
    }
    if (over) return;
    lock.unlock();
    close_pairs();
  });
  int last = -1;  // whose connection was tried
  std::string problem;
  for (int at = 0; at < size_ && problem.empty() && !failed(); ++at) {
    if (at == rank_) continue;
    last = at;
    try {
      std::vector<std::vector<char>> theirs;
      const std::string& blob = addresses[static_cast<std::size_t>(at)];
      Reader from(std::as_bytes(std::span(blob.data(), blob.size())));
      decode(from, theirs);
      if (theirs.size() != static_cast<std::size_t>(size_))
        throw DecodeError("it is for another number of ranks");
      context_->getPair(at)->connect(theirs[static_cast<std::size_t>(rank_)]);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  {
    std::lock_guard lock(mutex_);
    over = true;
    changed_.notify_all();
  }
  watch.join();
  if (late)
    fail({Error(ErrorKind::deadline_exceeded, list_ranks({last}) + " did not connect in time"),
          {last},
          false});
  // Connections that were not made yet cannot be probed: see fail_lost.
  if (!problem.empty()) fail(connections_lost(rank_, problem, {last}));
  return !failed();
}

std::unique_ptr<Mesh::Buffer> GlooMesh::buffer(void* memory, std::size_t bytes) {
  return std::make_unique<GlooBuffer>(*this, memory, bytes);
}

void GlooMesh::set_deadline(std::int64_t deadline_ns) {
  if (state_.set_deadline(deadline_ns)) wake();
}

void GlooMesh::wake() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
  for (GlooBuffer* buffer : buffers_) buffer->poke();
}

void GlooMesh::fail_lost(const char* what, std::vector<int> waited_for) {
  std::vector<int> lost = lost_ranks();
  if (lost.empty()) lost = std::move(waited_for);
  fail(connections_lost(rank_, what, std::move(lost)));
}

// Connections that are broken refuse a message; the others will not be used any more.
std::vector<int> GlooMesh::lost_ranks() {
  std::vector<int> lost;
  char nothing = 0;
  auto probe = context_->createUnboundBuffer(&nothing, 1);
  for (int i = 0; i < size_; ++i) {
    if (i == rank_) continue;
    try {
      probe->send(i, kProbeTag, 0, 0);
    } catch (const std::exception&) {
      lost.push_back(i);
    }
  }
  return lost;
}

void GlooMesh::close_pairs() {
  for (int i = 0; context_ && i < size_; ++i) {
    if (i == rank_) continue;
    try {
      if (auto& pair = context_->getPair(i)) pair->close();
    } catch (const std::exception&) {  // it has failed before, and is closed
    }
  }
}

// After a failure connections are reset, so that the other side hears of it. Else what was sent still
// arrives: the other ranks may be in the last operation yet.
void GlooMesh::close() {
  bool broken = failed();
  fail({Error(ErrorKind::cancelled, "the group was closed"), {}, false});
  if (broken) close_pairs();
  context_.reset();
}

}  // namespace

std::unique_ptr<Mesh> make_gloo_mesh(int rank, int size, std::string host) {
  return std::make_unique<GlooMesh>(rank, size, std::move(host));
}

}  // namespace troupe
