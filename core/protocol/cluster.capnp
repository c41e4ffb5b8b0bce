@0xc28931041c763ffd;
# The control plane. Head, node agent, worker and driver speak these interfaces over authenticated streams.
# A call marked `cancellable` ends when its caller drops it: the build makes the mark an annotation where the
# compiler has it (Cap'n Proto 1.0), and the servant allows it where not (gcs/head/cancellation.h).

using Cxx = import "/capnp/c++.capnp";
using Common = import "common.capnp";
$Cxx.namespace("troupe::wire");

struct NodeInfo {
  name @0 :Text;            # unique in the cluster; chosen by the head when empty
  hostId @1 :Text;          # equal for nodes that share Unix sockets and memory
  pid @2 :Int32;
  address @3 :Text;         # where its workers take links from other hosts
  resources @4 :List(Common.Amount);  # "cpu", "gpu", "memory" (bytes), custom names
  objectsPath @5 :Text;     # where its object store takes processes with the same host id; empty: it has none
  objectsPort @6 :UInt16;   # and the agents of other nodes, at `address`
}

struct JobInfo {
  job @0 :UInt64;           # 0 in openJob: the head numbers it
  name @1 :Text;
  executable @2 :Text;
  fingerprint @3 :UInt64;
  arguments @4 :List(Text);
  environment @5 :List(Text);  # NAME=value
  directory @6 :Text;
  hostId @7 :Text;
  pid @8 :Int32;
}

enum JournalPlace { node @0; shared @1; store @2; }

struct Durability {
  # Mirrors troupe::Durability (runtime/durable/durability.h).
  place @0 :JournalPlace;
  path @1 :Text;
  key @2 :UInt64;
  snapshotCalls @3 :UInt64;
  snapshotMs @4 :UInt64;
  snapshotBytes @5 :UInt64;
  journalLimit @6 :UInt64;
}

struct ActorOptions {
  name @0 :Text;
  detached @1 :Bool;
  getOrCreate @2 :Bool;
  isolation @3 :Common.Isolation;
  resources @4 :List(Common.Amount);
  node @5 :Text;            # affinity: a node's name, empty: any
  maxRestarts @6 :Int32;    # -1: without limit
  durability @8 :Durability;  # null: the actor is not durable
  restartWindow @7 :Int64;  # milliseconds in which they count, 0: the actor's life
}

struct ActorSpec {
  actor @0 :UInt64;         # chosen by the spawner from its block of ids
  className @1 :Text;
  args @2 :Data;            # the constructor's arguments
  options @3 :ActorOptions;
  owner @4 :UInt64;         # owning actor, 0: the driver
}

struct Spawned {
  # Answer to one spawn, after the record is durable. `actor` differs from the wish when get-or-create found one.
  actor @0 :UInt64;
  failure @1 :Common.Failure;  # null: accepted
}

struct Placement {
  # Head to agent: host this incarnation in that process of the job (start the process if it does not run).
  spec @0 :ActorSpec;
  incarnation @1 :UInt32;
  job @2 :UInt64;
  process @3 :UInt64;
  gpus @4 :List(UInt16);    # slots, for CUDA_VISIBLE_DEVICES
  served @5 :Bool;          # durable: an earlier incarnation was alive, so there is a journal
}

struct Incarnation { actor @0 :UInt64; incarnation @1 :UInt32; }

struct NodeEvent {
  # Agent to head. Idempotent: the head drops what it knows.
  union {
    actorAlive :group { of @0 :Incarnation; endpoint @1 :Common.Endpoint; }
    actorFailed :group { of @2 :Incarnation; failure @3 :Common.Failure; }   # its constructor threw, or it ended alone
    processEnded :group { process @4 :UInt64; failure @5 :Common.Failure; }  # and every actor in it
    output :group { job @6 :UInt64; process @7 :UInt64; lines @8 :List(Text); dropped @9 :UInt64; }
  }
}

interface Head {
  # Bootstrap capability of the head's port.
  join @0 (info :NodeInfo, agent :Agent, jobs :List(UInt64), was :UInt64) -> (node :UInt64, name :Text, membership :Membership);
  # An agent that comes back names the node it was and the jobs it still runs. It gets its old number if it was not declared lost; with
  # another number, nothing of before may go on.
  openJob @1 (info :JobInfo, client :JobClient) -> (job :UInt64, process :UInt64, session :Session);
  # With info.job set a driver comes back to its job.
  admin @2 () -> (admin :Admin);
}

interface Membership {
  # A node's hold on the cluster. Dropping it, or its connection, is the node's death.
  report @0 (events :List(NodeEvent)) -> ();
  heartbeat @1 () -> ();
  workerSession @2 (process :UInt64, client :JobClient) -> (session :Session);
  deadActors @3 (asked :List(UInt64)) -> (dead :List(UInt64), unknown :List(UInt64));
  # Which of these durable actors are dead for good, so that their files may go.
  nodes @4 () -> (nodes :List(NodeView));
}

interface Agent {
  startJob @0 (info :JobInfo) -> ();
  place @1 (placements :List(Placement)) -> ();   # outcomes come as events
  destroy @2 (actors :List(Incarnation)) -> ();   # idempotent; own processes are killed with their group
  endJob @3 (job :UInt64) -> ();                  # kills every process of the job
  shutdown @4 (reason :Text) -> ();
  logs @5 (job :UInt64, process :UInt64, lines :UInt32) -> (text :Text);
}

interface Session {
  # What a driver or worker may ask of the head.
  spawn @0 (actors :List(ActorSpec)) -> (spawned :List(Spawned));
  resolve @1 (actor :UInt64, after :UInt32) -> (state :Common.ActorState);  # cancellable
  # Answers when the actor is alive with an incarnation > after, or dead, or known to be infeasible.
  find @2 (name :Text) -> (state :Common.ActorState);
  kill @3 (actor :UInt64, noRestart :Bool) -> ();
  nodes @4 () -> (nodes :List(NodeView));
  journalLoad @5 (actor :UInt64, incarnation :UInt32) -> (snapshotAt :UInt64, snapshot :Data, blocks :List(JournalBlock));
  # The journal of a durable actor in the store. Only the process of the current incarnation is answered.
  journalAppend @6 (actor :UInt64, incarnation :UInt32, block :JournalBlock) -> ();
  journalSnapshot @7 (actor :UInt64, incarnation :UInt32, at :UInt64, image :Data, drop :List(UInt64)) -> ();
  # Replaces the snapshot and drops the blocks that begin at these calls, in one.
  groupJoin @8 (join :GroupJoin) -> (formed :GroupFormed);  # cancellable
  # Answers when the next generation has formed, or says who is missing. May be repeated.
  groupResume @9 (group :UInt64, members :List(UInt64), formed :GroupFormed) -> ();
  # To a head that may have restarted since the generation formed.
  groupLeave @10 (group :UInt64, actor :UInt64, incarnation :UInt32) -> ();
  groupPost @11 (group :UInt64, generation :UInt64, rank :UInt32, board :UInt32, bytes :Data, patienceMs :UInt32, partial :Bool)
    -> (posts :List(GroupPost));  # cancellable
  # Shows something to the other ranks; answers with what all of them show. May be repeated.
}

struct GroupRank { actor @0 :UInt64; incarnation @1 :UInt32; process @2 :UInt64; node @3 :UInt64; }
struct GroupPost { rank @0 :UInt32; bytes @1 :Data; }
struct GroupFormed { generation @0 :UInt64; ranks @1 :List(GroupRank); }
struct GroupJoin {
  # Mirrors gcs::GroupJoin (gcs/groups/group_table.h); process and node of the rank are filled in by the head.
  group @0 :UInt64; members @1 :List(UInt64); rank @2 :GroupRank;
  after @3 :UInt64; reform @4 :Bool; keepOrder @5 :Bool; patienceMs @6 :UInt32;
}

struct JournalBlock { first @0 :UInt64; bytes @1 :Data; }

interface JobClient {
  # Calls from the head to a driver or worker; unsolicited news, batched.
  changed @0 (states :List(Common.ActorState)) -> ();   # of actors spawned through this session
  output @1 (process :UInt64, node :Text, lines :List(Text), dropped :UInt64) -> ();
  nodeLost @2 (node :UInt64) -> ();   # its incarnations are fenced: their links are to be dropped
  groupBroken @3 (group :UInt64, generation :UInt64, rank :UInt32, failure :Common.Failure) -> ();
}

interface WorkerHost {
  # Bootstrap capability an agent gives its worker over the inherited socket.
  register @0 (worker :Worker, client :JobClient, endpoint :Common.Endpoint, fingerprint :UInt64)
    -> (job :UInt64);
  # The session follows, by newSession.
  report @1 (events :List(NodeEvent)) -> ();
}

interface Worker {
  place @0 (placements :List(Placement)) -> ();
  destroy @1 (actors :List(Incarnation)) -> ();
  newSession @2 (session :Session) -> ();   # the head, or the way to it, is another one now
}

struct NodeView {
  node @0 :UInt64; name @1 :Text; alive @2 :Bool; address @3 :Text; hostId @4 :Text; pid @5 :Int32;
  total @6 :List(Common.Amount); free @7 :List(Common.Amount);
  actors @8 :UInt32; joinedUnix @9 :Int64; reason @10 :Text;
  lost @11 :Bool;           # for good; one that is neither alive nor lost may come back
  objectsPath @12 :Text; objectsPort @13 :UInt16;  # as in NodeInfo
}
struct JobView {
  job @0 :UInt64; name @1 :Text; phase @2 :Text; pid @3 :Int32; hostId @4 :Text;
  actors @5 :UInt32; startedUnix @6 :Int64; endedUnix @7 :Int64; reason @8 :Text;
}
struct ActorView {
  state @0 :Common.ActorState; job @1 :UInt64; name @2 :Text; node @3 :Text; pid @4 :Int32;
  restarts @5 :UInt32; isolation @6 :Common.Isolation; resources @7 :List(Common.Amount);
  gpus @8 :List(UInt16); waiting @9 :Text;  # why a pending actor waits
}
struct ClusterView {
  headPid @0 :Int32; address @1 :Text; startedUnix @2 :Int64; version @3 :Text; storeState @4 :Text;
  nodes @5 :List(NodeView); jobsRunning @6 :UInt32;
  pending @7 :UInt32; starting @8 :UInt32; alive @9 :UInt32; restarting @10 :UInt32; dead @11 :UInt32;
  warnings @12 :List(Text);     # infeasible actors, quarantined records, a store that is away
  storeAwaySince @13 :Int64;    # Unix seconds; 0: it is ready
}

interface Admin {
  status @0 () -> (cluster :ClusterView);
  nodes @1 () -> (nodes :List(NodeView));
  jobs @2 () -> (jobs :List(JobView));
  actors @3 (limit :UInt32, job :UInt64) -> (actors :List(ActorView), total :UInt32);
  kill @4 (target :Text, noRestart :Bool) -> (what :Text);   # an actor's id or name, "job:ID", "node:NAME"
  logs @5 (target :Text, lines :UInt32) -> (text :Text);  # cancellable: an actor's id or name, or "job:ID"
  shutdown @6 () -> ();
}
