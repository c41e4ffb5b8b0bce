// The object store as a process of its node uses it: attaching, writing and reading objects, counting
// references.
//
// A process attaches when it first needs the store. Small objects are written into blanks it holds in
// reserve, and objects are read by pinning them in the shared table: neither takes a message. What the store
// must know goes in order and in batches over the control thread.
//
// Owner: the process, to its end; get() is the only one. Any thread, unless it says otherwise. Bounded:
// blanks in reserve are given back when they are idle or the store asks; every wait has a limit. Errors:
// unavailable (no store on this machine, or it ended), object_store_full, object_lost, deadline_exceeded.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/auth/token.h"
#include "core/codec/attachment.h"
#include "core/control/loop.h"
#include "runtime/objects/object_table.h"
#include "runtime/objects/store_core.h"

namespace troupe {

class Lender;
class ObjectClient;
struct ObjectSession;  // object_session.h: one attachment to a store

// An object as this process holds it: one for all its references. Its count is the process's count.
class ObjectHandle final : public Attachment {
 public:
  const ObjectId& id() const { return id_; }
  std::uint64_t size() const { return size_; }
  std::shared_ptr<const Error> lost() const;  // why it cannot be read any more; null: it can
  Kind kind() const override { return Kind::object; }
  // Written, and nobody knows of it yet: it is sealed when it is sent.
  bool unsealed() const { return holding_ == Holding::unsealed; }
  void retain() override { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() override;

 private:
  friend class ObjectClient;
  ObjectHandle(std::shared_ptr<ObjectSession> session, const ObjectId& id, std::uint32_t slot,
               std::uint64_t size)
      : id_(id), size_(size), session_(std::move(session)), slot_(slot) {}
  bool try_retain();
  // Whose the memory is: the store's, which counts references; a blank of this process; lent by it; borrowed
  // from another (lending.h).
  enum class Holding : std::uint8_t { counted, unsealed, lent, borrowed };

  std::atomic<std::uint32_t> count_{1};
  Holding holding_ = Holding::counted;  // changes while the sender's lane is its only holder
  std::shared_ptr<Lender> lender_;      // borrowed: who gets it back
  StoreCore::Blank blank_;              // unsealed
  const ObjectId id_;
  const std::uint64_t size_;
  std::shared_ptr<ObjectSession> session_;
  mutable std::mutex mutex_;  // guards what follows
  std::uint32_t slot_, pins_ = 0;
  bool claimed_ = false;  // the store counts a hold for it
  const std::byte* bytes_ = nullptr;
  std::shared_ptr<const Error> lost_;
};

// An object's bytes, which stay while a copy of `owner` lives.
struct ObjectBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

class ObjectClient {
 public:
  static constexpr auto kFlushAfter = 1 * kj::MILLISECONDS;
  static constexpr auto kIdle = 1 * kj::SECONDS;
  static constexpr std::uint64_t kLargestReserved = 4 << 20;  // larger objects ask for their memory
  static constexpr std::int64_t kAttachMs = 10'000;

  template <class T>
  using Answer = std::function<void(Result<T>)>;
  struct Outside {
    ControlLoop* loop = nullptr;
    std::function<kj::Promise<std::string>()> find_store;  // the path of its socket; on the control thread
    std::optional<Token> token;
  };

  static ObjectClient& get();
  // Before the first use, and at the end of the process's part in the cluster; on the control thread.
  void configure(Outside outside);
  void end();

  // ---- writing ----
  // Memory for an object of `size` bytes at most; sealed, or given back when it is dropped.
  class Space {
   public:
    Space() = default;
    Space(Space&& other) noexcept : session_(std::move(other.session_)), blank_(other.blank_) {}
    Space& operator=(Space&& other) noexcept {
      std::swap(session_, other.session_);
      std::swap(blank_, other.blank_);
      return *this;
    }
    ~Space();
    std::uint32_t slot() const { return blank_.slot; }
    explicit operator bool() const { return session_ != nullptr; }
    std::byte* bytes() const;
    // Copies `from` to `at`, making memory that is new ready piece by piece.
    void write(std::uint64_t at, std::span<const std::byte> from);
    // With `keep`, the object is watched: `keep` is dropped, on the control thread, when no process holds the
    // object any more, or when the store has ended.
    Ref<ObjectHandle> seal(std::uint64_t size, std::shared_ptr<const void> keep = nullptr);
    // For a message: sealed when that is sent.
    Ref<ObjectHandle> leave_unsealed(std::uint64_t size);

   private:
    friend class ObjectClient;
    std::shared_ptr<ObjectSession> session_;
    StoreCore::Blank blank_;
  };
  // From the reserve, at once; empty when there is none: reserve() waits for it. Attaches in the background.
  Space try_reserve(std::uint64_t size);
  // The answer comes on the control thread. Returns a ticket for give_up.
  std::uint64_t reserve(std::uint64_t size, std::int64_t patience_ms, Answer<std::shared_ptr<Space>> answer);
  Result<Space> reserve_now(std::uint64_t size,
                            std::int64_t patience_ms);  // waits; not on the control thread

  // ---- reading ----
  // At once, when it is in memory where it was last.
  std::optional<ObjectBytes> try_open(ObjectHandle& object);
  std::uint64_t open(Ref<ObjectHandle> object, std::int64_t patience_ms, Answer<ObjectBytes> answer);
  Result<ObjectBytes> open_now(ObjectHandle& object,
                               std::int64_t patience_ms);  // waits; not on the control thread
  // The same bytes, to be written by the only reader there is: of an object made for one message.
  std::byte* writable(const ObjectHandle& object, const ObjectBytes& bytes);
  // What seal() keeps for an object that this process watches; null: it does not, or it is gone.
  std::shared_ptr<const void> kept(const ObjectId& id) const;
  std::size_t watched() const;  // objects; for tests
  // The answer may still come.
  void give_up(std::uint64_t ticket);

  // ---- references in messages ----
  struct Traveller {
    ObjectId id;
    Transit transit;
    std::uint32_t slot = 0;
    std::uint64_t size = 0;
  };
  std::uint64_t new_channel() { return channels_.fetch_add(1, std::memory_order_relaxed) + 1; }
  Traveller send(ObjectHandle& object, std::uint64_t channel);  // seals it if need be
  Ref<ObjectHandle> receive(const Traveller& from);
  // Memory that is lent with a message, instead (lending.h).
  Space lend(ObjectHandle& unsealed, Traveller& out);
  Ref<ObjectHandle> borrow(const Traveller& from, std::shared_ptr<Lender> lender);
  void put_back(Space space);  // into the reserve
  // What was sent there and has not arrived will not.
  void expire(std::uint64_t channel);

  // The node of the store this process is attached to, or none.
  NodeId node() const { return {node_.load(std::memory_order_relaxed)}; }
  void want();               // attaches in the background
  Result<void> attach();     // waits until it is attached; not on the control thread
  std::size_t held() const;  // objects; for tests

 private:
  friend class ObjectHandle;
  friend struct ObjectSession;
  class Told;
  struct Op {
    enum What : std::uint8_t { created, watched, drop, sent, claim, expire, discard } what;
    ObjectId id;
    Transit transit;
    std::uint32_t slot = 0;
    std::uint64_t size = 0;
  };
  ObjectClient() = default;
  static std::uint64_t reserve_size(std::uint64_t size);  // of the blank for an object of that size
  std::shared_ptr<ObjectSession> session() const;
  void push(ObjectSession& session, Op op);
  void retire(ObjectHandle& object);
  void seal(ObjectHandle& unsealed, std::shared_ptr<const void> keep = nullptr);
  void refill(const std::shared_ptr<ObjectSession>& session, std::uint64_t size, std::uint32_t count);
  std::optional<ObjectBytes> pin(ObjectHandle& object);
  ObjectBytes pinned(ObjectHandle& object);
  void unpin(ObjectHandle& object);
  // On the control thread:
  void begin_attach();
  void attached(std::shared_ptr<ObjectSession> session);
  void attach_failed(const Error& why);
  void ended(const std::shared_ptr<ObjectSession>& session);
  void flush(ObjectSession& session);
  void lost(ObjectSession& session, const ObjectId& id, const Error& why);
  void gone(ObjectSession& session, const std::vector<ObjectId>& ids);
  void give_back(ObjectSession& session, bool wanted = false);  // wanted: the store asked
  kj::Promise<void> watch_idle(std::weak_ptr<ObjectSession> session);
  void ask_for_space(std::shared_ptr<ObjectSession> session, std::uint64_t ticket, std::uint64_t size,
                     std::int64_t patience_ms, Answer<std::shared_ptr<Space>> answer);
  void ask_for_bytes(std::uint64_t ticket, Ref<ObjectHandle> object, std::int64_t patience_ms,
                     Answer<ObjectBytes> answer);
  void when_attached(std::function<void(Result<std::shared_ptr<ObjectSession>>)> then);
  bool post(std::function<void()> work);

  std::atomic<std::uint64_t> node_{0}, channels_{0}, tickets_{0}, transits_{0};
  std::atomic<bool> wanted_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ControlLoop* loop_ = nullptr;
  std::shared_ptr<ObjectSession> session_;
  std::shared_ptr<const Error> trouble_;  // of the last attempt to attach
  std::unordered_map<ObjectId, ObjectHandle*> objects_;
  // The control thread's.
  Outside outside_;
  bool attaching_ = false;
  std::vector<std::function<void(Result<std::shared_ptr<ObjectSession>>)>> waiting_;
};

}  // namespace troupe
