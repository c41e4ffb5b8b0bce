// The decisions of a node's object store: who holds which object, where its bytes lie, what waits for room.
//
//   blank ─created─▶ memory ◀──restored── restoring ◀─┐          an object of this node
//                      │ └─spill─▶ spilling ─▶ disk ──┘ get
//   remote ─get─▶ pulling ─sealed─▶ memory ─room is needed─▶ remote     one whose home is elsewhere
//
// An object lives while it is held: by processes attached here (counted), by references on their way
// (transits), at its home by other nodes (borrowers). Then its memory goes, as soon as nobody reads it.
//
// References on their way: the sender announces a transit before it may drop its own hold, the receiver
// claims it. The two come on different connections, so a claim may be first; it is remembered until the
// announcement. Likewise what a receiver says of an object waits, for a while, for the creator to tell of it.
// A transit whose message will not arrive is dropped after kTransitLease. What a dead process held goes after
// kDeathGrace, so that what it had passed on just before can be claimed.
//
// A watched object stands for memory of its creator, a GPU's tensor. The creator may drop its hold and is
// told, once, when nobody has one any more. When the creator is dead, those who hold it are told that it is
// lost.
//
// Pure: each member takes what happened and the time in milliseconds, and adds what is to be done to `out`;
// the shared table is reached through SlotTable. Owner: ObjectService. Thread: one. Errors are answers:
// Failed, Lost. Bounded by slots (objects in memory), kMostWaiting (processes that wait for room), the disk's
// limit.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "runtime/objects/extents.h"
#include "runtime/objects/object_id.h"
#include "runtime/objects/slot_table.h"

namespace troupe {

// A reference on its way: the node of the sender's store, the sender and its link, a count.
struct Transit {
  NodeId node;
  std::uint64_t process = 0, channel = 0, number = 0;
  auto operator<=>(const Transit&) const = default;
};

class StoreCore {
 public:
  using Process = std::uint64_t;  // as this store numbers those attached; 0: the agent itself
  using Ticket = std::uint64_t;   // chosen by the process for what it waits for
  using Now = std::int64_t;       // milliseconds of a steady clock

  static constexpr Now kDeathGrace = 2'000, kTransitLease = 30'000, kDiskRetry = 1'000, kUnborn = 10'000;
  static constexpr std::size_t kMostWaiting = 1 << 16;
  static constexpr std::size_t kMostEarly = 1 << 16;

  struct Limits {
    std::uint64_t capacity = 0, disk = 0;
    std::uint32_t slots = 0;
  };
  struct Blank {
    std::uint32_t slot = 0;
    std::uint64_t offset = 0, size = 0;
    bool touched = false;
  };

  // ---- what is to be done ----
  struct Made {
    Process process;
    Ticket ticket;
    Blank blank;
  };
  struct Found {
    Process process;
    Ticket ticket;
    std::uint32_t slot;
    std::uint64_t offset, size;
  };  // pinned
  struct Failed {
    Process process;
    Ticket ticket;
    Error why;
  };
  struct Lost {
    Process process;
    ObjectId id;
    Error why;
  };  // its holds have ended
  struct Gone {
    Process process;
    ObjectId id;
  };  // it was watched by that process
  struct GiveBack {
    Process process;
  };  // its blanks
  struct Spill {
    ObjectId id;
    std::uint64_t offset, size;
  };  // answered by spilled()
  struct Restore {
    ObjectId id;
    std::uint64_t offset, size;
  };  // answered by restored()
  struct RemoveFile {
    ObjectId id;
  };
  struct Borrow {
    ObjectId id;
    Transit transit;
  };  // of its home; answered by borrowed()
  struct Return {
    ObjectId id;
  };  // to its home
  struct Claimed {
    Transit transit;
  };  // to the node of the sender
  struct Pull {
    ObjectId id;
  };  // then reserve(), sealed() or aborted()
  struct StopPull {
    ObjectId id;
  };  // then aborted()
  struct Reserved {
    ObjectId id;
    Blank blank;
  };
  struct Refused {
    ObjectId id;
    Error why;
  };  // a reserve()
  using Action = std::variant<Made, Found, Failed, Lost, Gone, GiveBack, Spill, Restore, RemoveFile, Borrow,
                              Return, Claimed, Pull, StopPull, Reserved, Refused>;
  using Actions = std::vector<Action>;

  StoreCore(Limits limits, SlotTable& table);

  void named(NodeId node, std::uint32_t cluster) { node_ = node, cluster_ = cluster; }
  NodeId node() const { return node_; }
  std::uint32_t cluster() const { return cluster_; }

  // ---- processes ----
  Process attach(std::uint32_t page, std::int32_t pid);
  void detach(Process process, Now now, Actions& out);  // it is dead: it reads nothing any more
  std::vector<Blank> lease(Process process, std::uint64_t size, std::uint32_t count);
  void create(Process process, Ticket ticket, std::uint64_t size, Now until, Now now, Actions& out);
  void get(Process process, Ticket ticket, const ObjectId& id, Now until, Now now, Actions& out);
  void cancel(Process process, Ticket ticket, Now now, Actions& out);
  void created(Process process, const ObjectId& id, std::uint32_t slot, std::uint64_t size, bool watched,
               Now now, Actions& out);
  void discard(Process process, std::uint32_t slot, Now now, Actions& out);
  void drop(Process process, const ObjectId& id, Now now, Actions& out);
  void sent(Process process, const ObjectId& id, Transit transit, Now now, Actions& out);
  void claim(Process process, const ObjectId& id, const Transit& transit, Now now, Actions& out);
  void expire(Process process, std::uint64_t channel, Now now);

  // ---- the disk ----
  void spilled(const ObjectId& id, Result<void> done, Now now, Actions& out);
  void restored(const ObjectId& id, Result<void> done, Now now, Actions& out);

  // ---- other nodes ----
  bool lend(NodeId to, const ObjectId& id, const Transit& transit, Now now, Actions& out);  // false: unknown
  void take_back(NodeId from, const ObjectId& id, Now now, Actions& out);
  void node_gone(NodeId node, Now now, Actions& out);  // for good: neither lends nor borrows
  void claimed(const Transit& transit, Now now, Actions& out);
  void borrowed(const ObjectId& id, bool known, Now now, Actions& out);
  std::vector<ObjectId> borrowed_from(NodeId home) const;

  // ---- copies of remote objects ----
  void reserve(const ObjectId& id, std::uint64_t size, Now until, Now now, Actions& out);
  void sealed(const ObjectId& id, Now now, Actions& out);
  void aborted(const ObjectId& id, const Error& why, Now now, Actions& out);

  void populated(std::uint64_t up_to) { populated_ = up_to; }
  void tick(Now now, Actions& out);
  bool restless() const;  // tick is wanted soon

  // ---- for people ----
  struct Usage {
    std::uint64_t capacity = 0, used = 0, pinned = 0, blank = 0, touched = 0, spilled = 0, disk = 0;
    std::uint64_t objects = 0, spilled_objects = 0, waiting = 0, processes = 0, spills = 0, restores = 0;
  };
  Usage usage() const;
  struct View {
    ObjectId id;
    std::uint64_t size = 0;
    const char* state = "";
    std::uint32_t holders = 0, transits = 0;
    std::vector<NodeId> borrowers;
    bool pinned = false;
    Now age = 0;
    std::int32_t pid = 0;
  };
  std::vector<View> list(std::size_t limit, Now now) const;
  std::uint64_t objects() const { return objects_.size(); }
  bool has(const ObjectId& id) const { return objects_.count(id) > 0; }
  // Not known, and the process that could tell of it is here.
  bool may_come(const ObjectId& id) const;
  // Where a copy in memory lies; nothing is pinned.
  struct Copy {
    std::uint32_t slot = 0;
    std::uint64_t offset = 0, size = 0;
  };
  std::optional<Copy> copy(const ObjectId& id) const;
  std::optional<std::uint64_t> size_of(const ObjectId& id) const;  // of an object of this node
  std::string check() const;  // what is wrong with the tables, or nothing

 private:
  enum class State : std::uint8_t { memory, spilling, disk, restoring, remote, pulling };
  struct Getter {
    Process process;
    Ticket ticket;
    Now until;
  };
  struct Object {
    ObjectId id;
    State state = State::memory;
    bool in_memory = false;  // it has a slot and an extent
    bool queued = false;     // waits for room
    bool borrowing = false;  // the home has not answered yet
    bool stopping = false;   // a pull that nobody waited for is being ended
    bool orphan = false;     // watched, and its creator is dead
    Process watcher = 0;     // who is told when it goes; 0: nobody
    std::uint32_t slot = 0;
    std::uint64_t offset = 0, extent = 0, size = 0, use = 0;
    std::vector<std::pair<Process, std::uint32_t>> holds;
    std::uint32_t transits = 0;
    std::set<NodeId> borrowers;
    std::vector<Transit> to_tell;  // once the home has answered
    std::vector<Getter> getters;
    Now born = 0;
    std::int32_t pid = 0;
  };
  struct Attached {
    std::uint32_t page = 0;
    std::int32_t pid = 0;
    bool dead = false;
    bool asked = false;  // to give back
    std::set<std::uint32_t> blanks;
    std::unordered_map<ObjectId, std::uint32_t> holds;
    std::set<ObjectId> watches;
  };
  struct Taken {  // a blank
    Process process;
    std::uint64_t offset, size;
  };
  enum class Want : std::uint8_t { create, restore, reserve };
  struct Waiter {
    Want want;
    Process process = 0;
    Ticket ticket = 0;
    ObjectId id;
    std::uint64_t size = 0;
    Now until = 0, full_since = -1;
  };
  // What is said of an object before its creator has told of it.
  struct Word {
    enum What : std::uint8_t { claim, drop, sent, get } what;
    Process process;
    Transit transit;
    Getter getter;
  };
  struct Unborn {
    std::vector<Word> words;
    Now until = 0;
  };
  struct Retired {  // still read
    std::uint32_t slot;
    std::uint64_t offset, extent;
  };

  Object* find(const ObjectId& id);
  Unborn* unborn(const ObjectId& id, Now now);  // null: it will not be told of any more
  void born(const ObjectId& id, Now now, Actions& out);
  void never_born(const ObjectId& id, Actions& out);
  bool mine(const ObjectId& id) const { return id.node == node_; }
  void hold(Process process, Object& object);
  bool unhold(Process process, Object& object);  // one less; false: it had none
  void consume(const Transit& transit, Now now, Actions& out);
  void settle(Object& object, Now now, Actions& out);  // frees it when nobody holds it
  void forget(Object& object, Actions& out);
  void lose(Object& object, const Error& why, Actions& out);
  void touch(Object& object);
  void leave_memory(Object& object);
  void release(std::uint32_t slot, std::uint64_t offset, std::uint64_t extent);
  bool retry_retired();
  std::optional<Blank> take(std::uint64_t size);
  void answer_getters(Object& object, Actions& out);
  void fail_getters(Object& object, const Error& why, Actions& out);
  void want_back(Object& object, Now until, Now now, Actions& out);
  void enqueue(Waiter waiter, Now now, Actions& out);
  void serve(Now now, Actions& out);
  void grant(const Waiter& waiter, const Blank& blank, Actions& out);
  void refuse(const Waiter& waiter, const Error& why, Actions& out);
  bool make_room(std::uint64_t size, Now now, Actions& out);  // false: the disk has none for what could go
  Error full(std::uint64_t size, const std::string& why) const;
  Error unknown(const ObjectId& id) const;
  Error orphaned(const ObjectId& id) const;
  void bury(Process process, Now now, Actions& out);

  Limits limits_;
  SlotTable& table_;
  NodeId node_;
  std::uint32_t cluster_ = 0;
  Extents extents_;
  std::uint64_t populated_ = 0, uses_ = 0, spilling_ = 0, disk_ = 0, on_disk_ = 0, spills_ = 0, restores_ = 0;
  Now disk_failed_ = -kDiskRetry;
  std::uint64_t processes_made_ = 0;
  std::vector<std::uint32_t> free_slots_;
  std::unordered_map<ObjectId, Object> objects_;
  std::map<ObjectId, Unborn> unborn_;
  std::set<ObjectId> awaited_;            // may have getters
  std::map<std::uint64_t, Object*> lru_;  // in memory, by use
  std::map<Process, Attached> processes_;
  std::unordered_map<std::uint32_t, Taken> blanks_;  // by slot
  std::uint64_t blank_bytes_ = 0;
  std::deque<Waiter> waiters_;
  std::vector<Retired> retired_;
  std::deque<std::pair<Now, Retired>> lent_;  // by processes that are dead
  std::map<Transit, ObjectId> transits_;
  std::set<Transit> early_;
  std::deque<std::pair<Now, Transit>> leases_;
  std::deque<std::pair<Now, Process>> dying_;
};

}  // namespace troupe
