@0xe0f3c1d27a9b5e44;
# The object store of a node. Processes of the node speak ObjectStore over an authenticated Unix socket, whose
# first byte brings the descriptors of the shared memory; agents of other nodes and the `troupe` command speak
# ObjectPeer over TCP.

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("troupe::wire");

struct ObjectId {
  cluster @0 :UInt32;       # of the cluster, so that another one's is noticed
  node @1 :UInt64;          # its home
  number @2 :UInt64;        # unique there
}

struct Transit {
  # Names a reference on its way inside of a frame: who sent it, on which of its links, and a count.
  node @0 :UInt64;          # of the sender's store
  process @1 :UInt64;       # the sender, as its store has numbered it
  channel @2 :UInt64;
  number @3 :UInt64;
}

struct ObjectOp {
  # What a process tells its store, in order. Holds are counted: each `hold` or claim has its `drop`.
  id @0 :ObjectId;
  union {
    created :group { slot @1 :UInt32; size @2 :UInt64; watched @8 :Bool; }
    # Written into a blank; the creator holds it. Watched: it stands for memory of the creator, which is told when it
    # is gone; when the creator ends, so does what it stands for.
    drop @3 :Void;
    sent @4 :Transit;       # a hold of its own, until it is claimed
    claim @5 :Transit;      # becomes a hold of this process
    expire @6 :UInt64;      # what is unclaimed on that channel will not arrive; `id` is not set
    discard @7 :UInt32;     # a blank of that slot was not used; `id` is not set
  }
}

struct Blank { slot @0 :UInt32; offset @1 :UInt64; size @2 :UInt64; touched @3 :Bool; }

interface ObjectStore {
  attach @0 (client :ObjectClient) -> (node :UInt64, cluster :UInt32, process :UInt64, pins :UInt32);
  # First of all. `pins`: which of the pin pages is this process's.
  update @1 (ops :List(ObjectOp)) -> ();
  lease @2 (size :UInt64, count :UInt32) -> (blanks :List(Blank));
  # As many as there is room for at once, perhaps none.
  create @3 (ticket :UInt64, size :UInt64, patienceMs :UInt64) -> (blank :Blank);
  # Waits until there is room.
  get @4 (ticket :UInt64, id :ObjectId, patienceMs :UInt64) -> (slot :UInt32, offset :UInt64, size :UInt64);
  # Waits until it is in memory; pinned for the caller.
  cancel @5 (ticket :UInt64) -> ();
}

interface ObjectClient {
  lost @0 (ids :List(ObjectId), failure :Common.Failure) -> ();  # holds on them have ended
  giveBack @1 () -> ();     # memory is short: blanks that are not in use
  gone @2 (ids :List(ObjectId)) -> ();  # objects that this process watches: nobody holds them any more
}

struct ObjectView {
  id @0 :ObjectId; size @1 :UInt64; state @2 :Text; holders @3 :UInt32; transits @4 :UInt32;
  borrowers @5 :List(UInt64);  # nodes
  pinned @6 :Bool; ageMs @7 :UInt64; pid @8 :Int32;  # of the process that put it
}
struct ObjectMemory {
  node @0 :UInt64; name @1 :Text;
  capacity @2 :UInt64; used @3 :UInt64; pinned @4 :UInt64; blank @5 :UInt64; touched @6 :UInt64;
  objects @7 :UInt64; processes @8 :UInt32; waiting @9 :UInt32;
  spilled @10 :UInt64; spilledObjects @11 :UInt64; diskLimit @12 :UInt64;
  spills @13 :UInt64; restores @14 :UInt64;    # since the node's start
}

struct Borrow {
  id @0 :ObjectId;
  transit @1 :Transit;      # node 0: none to be ended
}

interface ObjectPeer {
  # At an object's home, or at the node that sent a reference.
  hello @0 (node :UInt64) -> (node :UInt64);  # who calls; the connection's end is the end of its borrows
  borrow @1 (refs :List(Borrow)) -> (unknown :List(UInt32));
  # This node holds them from now on. Those whose transit lies at this peer are claimed in one.
  give @2 (ids :List(ObjectId)) -> ();        # and no longer
  claimed @3 (transits :List(Transit)) -> ();
  memory @4 () -> (memory :ObjectMemory);
  list @5 (limit :UInt32) -> (objects :List(ObjectView), total :UInt64);
  source @6 (id :ObjectId, host :Text, port :UInt16, failed :UInt64) -> (node :UInt64, host :Text, port :UInt16, size :UInt64);
  # Of the object's home: from where the caller may fetch it. It passes it on at that address; `failed` is the node
  # that was no use before, or 0.
  fetched @7 (id :ObjectId, whole :Bool) -> ();  # the caller has all of it, or has given up
}
